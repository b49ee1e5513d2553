//! Tries whether the network carries multicast between the nodes of a communicator.
//!
//! All its processes try together, in one of the first blocking operations that may use multicast, and all of
//! them learn the same result.

use std::sync::Arc;
use std::time::Duration;

use weft_core::multicast::Scheme;
use weft_core::rails::Role;
use weft_engine::engine::{GroupPath, GroupPaths, NewGroup, Reviewed};
use weft_plan::collective::choice::Operation;

use super::highest;
use crate::error::{Error, Result};
use crate::multicast::{BcastSetting, Carried, Multicast, Reviews};
use crate::object::Communicator;
use crate::process::{self, Process, with};

/// The number of blocking operations on a communicator before multicast is tried: a program that makes only a
/// few need not pay for the trial.
const OPERATIONS_BEFORE: u32 = 2;
/// The number of attempts for a path for small messages, where a path for bulk data works: no switch has
/// anything to learn for the former.
const ATTEMPTS_SMALL: u32 = 3;
/// The number of attempts to find that the network carries multicast. From attempt [`PATIENT_FROM`] on the
/// network is given time first: a switch may learn of a new member only after a while.
const ATTEMPTS: u32 = 8;
const PATIENT_FROM: u32 = 2;
/// The most packets that may wait for acknowledgements in each stream.
const WINDOW_PACKETS: u32 = 768;
/// The number of hosts from which on the table chooses multicast. With fewer it is tried only if the user
/// asks for it.
const AUTO_NODES_MIN: u32 = 3;
impl Process {
    /// Counts a blocking operation that begins on a communicator. Returns whether the caller must call
    /// [`prepare`] first.
    #[inline]
    pub fn tries_multicast(&mut self, communicator: usize, operation: Operation) -> bool {
        let Ok(object) = self.objects.communicator_mut(communicator) else { return false };
        if matches!(object.multicast, Multicast::Impossible | Multicast::GivenUp) {
            return false;
        }
        let Some(before) = self.multicast.tries_after(operation, &object.info, OPERATIONS_BEFORE) else { return false };
        match &mut object.multicast {
            Multicast::Untried(operations) if *operations < before => {
                *operations += 1;
                false
            }
            Multicast::Untried(_) => object.inter.is_none(),
            Multicast::Works(reviews) => reviews.count(),
            Multicast::Impossible | Multicast::GivenUp => false,
        }
    }

    /// Returns whether [`Self::tries_multicast`] may ever return `true` for this operation, as long as the
    /// hints of the communicator stay as they are.
    pub(crate) fn may_try_multicast(&self, object: &Communicator, operation: Operation) -> bool {
        !matches!(object.multicast, Multicast::Impossible | Multicast::GivenUp)
            && self.multicast.tries_after(operation, &object.info, OPERATIONS_BEFORE).is_some()
    }

    /// Returns whether there are enough hosts for a group of `communicator`. All its processes get the same
    /// answer.
    fn has_hosts(&self, communicator: usize) -> Result<bool> {
        let object = self.objects.communicator(communicator)?;
        // The table chooses multicast from three hosts on.
        let nodes_min = if self.multicast.is_asked_for(&object.info) { 2 } else { AUTO_NODES_MIN };
        Ok(self.nodes_of(&object.group.members).iter().any(|node| *node + 1 >= nodes_min))
    }

    /// The offer of this process for a new group.
    fn offer_group(&mut self) -> Result<Offer> {
        let (failed, fails) = (self.multicast.failed, self.multicast.fails);
        let paths = self.engine()?.multicasts().multicast_paths();
        let usable = |path: usize| paths[path].filter(|_| !failed[path] && !fails);
        Ok(Offer {
            packet_sizes: std::array::from_fn(|path| usable(path).map_or(0, |path| path.packet_size as i64)),
            is_small: paths.map(|path| matches!(path, Some(GroupPath { role: Role::SmallMessages, .. }))),
            generation: i64::from(self.multicast.next_generation),
            window: i64::from(self.engine()?.multicasts().multicast_window().min(WINDOW_PACKETS)),
            sends: !self.engine()?.multicasts().multicast_writes(),
        })
    }

    /// Joins the group of `communicator`. Returns the paths by which that was possible.
    fn join_group(&mut self, communicator: usize, offer: &Offer) -> Result<GroupPaths<bool>> {
        let Offer { packet_sizes, generation, window, sends, .. } = *offer;
        self.multicast.next_generation = (generation as u32).wrapping_add(1);
        let object = self.objects.communicator(communicator)?;
        let (processes, context) = (object.group.clone(), object.collective_context());
        let members = self.nodes_of(&processes.members);
        let count = members.iter().max().map_or(0, |most| most + 1);
        let scheme = match self.multicast.setting(&object.info) {
            // Where a process has no carrier that writes, the scheme with writes counts as not asked for.
            BcastSetting::By(Some(scheme)) if !(scheme.written && sends) => scheme,
            BcastSetting::Off | BcastSetting::Auto | BcastSetting::By(_) => Scheme::for_members(count),
        };
        let packet_size = packet_sizes.into_iter().filter(|size| *size > 0).min().unwrap_or(0);
        let new = NewGroup {
            context,
            generation: generation as u32,
            processes: Arc::clone(&processes),
            members,
            paths: packet_sizes.map(|size| size > 0),
            packet_size: packet_size as usize,
            window: window as u32,
            scheme,
            peer_timeout: self.multicast.peer_timeout,
        };
        Ok(self.engine()?.multicasts().join_group(new).unwrap_or_default())
    }

    /// Returns whether this process sends a test. The first rank does, and the first rank of another node, so
    /// that each node hears one.
    fn sends_test(&self, communicator: usize) -> Result<bool> {
        let object = self.objects.communicator(communicator)?;
        let nodes = self.nodes_of(&object.group.members);
        let second = nodes.iter().position(|node| *node != nodes[0]);
        Ok(object.rank == 0 || Some(object.rank as usize) == second)
    }

    /// The paths by which this process has heard a test, if it is one that receives multicast packets.
    fn tests_heard(&mut self, communicator: usize) -> Result<GroupPaths<bool>> {
        let object = self.objects.communicator(communicator)?;
        let (nodes, rank, context) =
            (self.nodes_of(&object.group.members), object.rank as usize, object.collective_context());
        let receives = nodes.iter().position(|node| *node == nodes[rank]) == Some(rank);
        Ok(self.engine()?.groups.tests_heard(context).map(|heard| heard || !receives))
    }

    fn conclude_multicast(&mut self, communicator: usize, works: bool) -> Result<()> {
        let object = self.objects.communicator_mut(communicator)?;
        object.multicast = if works { Multicast::Works(Reviews::default()) } else { Multicast::Impossible };
        let context = object.collective_context();
        if !works {
            self.engine()?.multicasts().leave_groups(context);
        }
        Ok(())
    }
}

/// The offer of one process for a new group, or the result that all have agreed on.
struct Offer {
    /// The bytes of the longest packet on each path; 0 where there is no path.
    packet_sizes: GroupPaths<i64>,
    /// Paths that are best for small messages.
    is_small: GroupPaths<bool>,
    /// A number that no group of this process has had.
    generation: i64,
    /// The packets that may be under way to the group.
    window: i64,
    /// Acknowledgements cannot be written, only sent.
    sends: bool,
}

impl Offer {
    /// Agrees with all processes on the least sizes, the highest number, the smallest window, and the
    /// abilities that all have.
    fn agree(self, agree: impl Fn(&mut [i64]) -> Result<()>) -> Result<Self> {
        let paths = self.packet_sizes.len();
        let mut values = vec![self.generation, -self.window, i64::from(self.sends)];
        values.extend(self.packet_sizes.map(|size| -size));
        values.extend(self.is_small.map(i64::from));
        agree(&mut values)?;
        Ok(Self {
            packet_sizes: std::array::from_fn(|path| -values[3 + path]),
            is_small: std::array::from_fn(|path| values[3 + paths + path] != 0),
            generation: values[0],
            window: -values[1],
            sends: values[2] != 0,
        })
    }
}

/// The paths on which all processes say yes.
fn all(said: GroupPaths<bool>, agree: impl Fn(&mut [i64]) -> Result<()>) -> Result<GroupPaths<bool>> {
    let mut missing = said.map(|yes| i64::from(!yes));
    agree(&mut missing)?;
    Ok(missing.map(|missing| missing == 0))
}

/// Reviews multicast on `communicator` with all its processes. If multicast fails for one of them, all go on
/// without it.
fn review(communicator: usize) -> Result<()> {
    let agree = |values: &mut [i64]| highest(with(|process| process.collective_scope(communicator))?, values);
    let context = with(|process| Ok::<_, Error>(process.objects.communicator(communicator)?.collective_context()))?;
    let Reviewed { beyond_use, used } = with(|process| Ok::<_, Error>(process.engine()?.groups.review(context)))?;
    let mut found = [i64::from(beyond_use), i64::from(used)];
    agree(&mut found)?;
    let [beyond_use, used] = found.map(|one| one != 0);
    if !beyond_use {
        return with(|process| {
            if let Multicast::Works(reviews) = &mut process.objects.communicator_mut(communicator)?.multicast {
                reviews.looked(used);
            }
            Ok(())
        });
    }
    with(|process| {
        process.multicast.fails = true;
        process.multicast.carried = Carried::LostTooMuch;
        process.engine()?.groups.count_given_up();
        process.objects.communicator_mut(communicator)?.multicast = Multicast::GivenUp;
        Ok(())
    })
}

/// Tries with all processes of `communicator` whether the network carries multicast between them. If it did
/// before, reviews whether it still does.
///
/// # Errors
/// A process is gone.
pub fn prepare(communicator: usize) -> Result<()> {
    if with(|process| {
        Ok::<_, Error>(matches!(process.objects.communicator(communicator)?.multicast, Multicast::Works(_)))
    })? {
        return review(communicator);
    }
    let agree = |values: &mut [i64]| highest(with(|process| process.collective_scope(communicator))?, values);
    if !with(|process| process.has_hosts(communicator))? {
        return with(|process| process.conclude_multicast(communicator, false));
    }
    let offer = with(|process| process.offer_group())?.agree(agree)?;
    if offer.packet_sizes.iter().all(|size| *size == 0) {
        return with(|process| {
            if !process.multicast.fails {
                process.multicast.carried = Carried::NoCarrier;
            }
            process.conclude_multicast(communicator, false)
        });
    }
    let tried = all(with(|process| process.join_group(communicator, &offer))?, agree)?;
    let mut works: GroupPaths<bool> = GroupPaths::default();
    for attempt in 0..ATTEMPTS {
        // Where a path for bulk data works, a path for small messages that does not work at once is given up.
        let has_bulk = works.iter().zip(offer.is_small).any(|(works, is_small)| *works && !is_small);
        let is_late = has_bulk && attempt >= ATTEMPTS_SMALL;
        let goes_on: GroupPaths<bool> =
            std::array::from_fn(|path| tried[path] && !works[path] && !(is_late && offer.is_small[path]));
        if !goes_on.contains(&true) {
            break;
        }
        with(|process| {
            let context = process.objects.communicator(communicator)?.collective_context();
            if process.sends_test(communicator)? {
                process.engine()?.multicasts().test_group(context, attempt, goes_on);
            }
            Ok::<_, Error>(())
        })?;
        if attempt >= PATIENT_FROM {
            std::thread::sleep(Duration::from_millis(1 << attempt));
        }
        let heard = with(|process| process.tests_heard(communicator))?;
        let heard = all(heard, agree)?;
        works = std::array::from_fn(|path| tried[path] && heard[path]);
    }
    let is_heard = works.contains(&true);
    with(|process| {
        let context = process.objects.communicator(communicator)?.collective_context();
        process.engine()?.multicasts().settle_group(context, works);
        // A path that fails once would fail for each communicator, and would cost the time of all attempts
        // each time.
        process.multicast.fails |= !is_heard;
        process.multicast.failed.iter_mut().zip(works).for_each(|(failed, works)| *failed |= !works);
        process.multicast.carried = match (is_heard, tried.contains(&true)) {
            (true, _) => Carried::Yes,
            (false, false) => Carried::NotJoined,
            (false, true) => Carried::NotHeard,
        };
        process.conclude_multicast(communicator, is_heard)
    })
}

/// Waits until everything that the processes of `communicator` have multicast has arrived; the communicator
/// is about to be freed.
///
/// Until then a process that lost a packet can still ask for it, and a process that has everything can still
/// say so. Without multicast no process waits.
pub fn part(communicator: usize) {
    let context = with(|process| {
        let object = process.objects.communicator(communicator).ok()?;
        matches!(object.multicast, Multicast::Works(_) | Multicast::GivenUp).then(|| object.collective_context())
    });
    let Some(context) = context else { return };
    process::block_until(|process| {
        process.engine().map_or(Some(()), |engine| engine.groups.are_quiet(context).then_some(()))
    });
    // If a process is gone, no answer will come from it; the communicator is freed all the same.
    let _ = with(|process| process.collective_scope(communicator)).and_then(|scope| highest(scope, &mut [0]));
}
