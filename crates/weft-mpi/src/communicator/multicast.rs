//! Whether the network carries multicast between the nodes of a communicator is tried by all its processes together, in one of the first blocking
//! operations that may use it, and is known to all of them alike from then on.

use std::sync::Arc;
use std::time::Duration;

use weft_core::collective::choice::Operation;
use weft_core::multicast::Scheme;
use weft_engine::engine::{NewGroup, Reviewed, TESTS_MAX, Ways};

use super::highest;
use crate::error::{Error, Result};
use crate::multicast::{Carried, Multicast, Reviews, Wanted};
use crate::object::Communicator;
use crate::process::{self, Process, with};

/// Blocking operations that may be multicast, on a communicator, before that is tried: a program that does only a few need not pay for it.
const OPERATIONS_BEFORE: u32 = 2;
/// How often frames are tried where UDP is found to work: no switch has anything to learn for them.
const ATTEMPTS_RAW: u32 = 3;
/// How often the network is tried. From the third time on it is given time before: a switch may learn of a new member only after a while.
const ATTEMPTS: u32 = 8;
const PATIENT_FROM: u32 = 2;
const _: () = assert!(ATTEMPTS <= TESTS_MAX);
/// Packets that may wait for acknowledgements in each stream, at most.
const WINDOW_PACKETS: u32 = 768;
/// Hosts from which on the table chooses multicast: with fewer it is not tried unless somebody asks for it.
const AUTO_NODES_MIN: u32 = 3;
impl Process {
    /// A blocking operation begins on a communicator: whether [`prepare`] is to be called before.
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

    /// Whether [`Self::tries_multicast`] may ever say more than no of such an operation, as long as the hints of the communicator stay as they are.
    pub(crate) fn may_try_multicast(&self, object: &Communicator, operation: Operation) -> bool {
        !matches!(object.multicast, Multicast::Impossible | Multicast::GivenUp)
            && self.multicast.tries_after(operation, &object.info, OPERATIONS_BEFORE).is_some()
    }

    /// Whether there are hosts enough for a group of `communicator`: all its processes say the same.
    fn has_hosts(&self, communicator: usize) -> Result<bool> {
        let object = self.objects.communicator(communicator)?;
        // The table chooses it from three hosts on.
        let nodes_min = if self.multicast.is_asked_for(&object.info) { 2 } else { AUTO_NODES_MIN };
        Ok(self.nodes_of(&object.group.members).iter().any(|node| *node + 1 >= nodes_min))
    }

    /// What this process knows of a new group: the bytes of the longest packet in each way, 0 if it cannot have one, and a number that none of
    /// its groups has had; how many packets may be under way to it; and whether acknowledgements
    /// can only be sent.
    fn offer_group(&mut self) -> Result<(Ways<i64>, i64, i64, bool)> {
        let Ways { udp, raw } = self.engine()?.multicasts().multicast_packet_sizes().map(|size| size as i64);
        let failed = self.multicast.failed;
        let sizes = Ways { udp: if failed.udp { 0 } else { udp }, raw: if failed.raw { 0 } else { raw } };
        let sizes = if self.multicast.fails { Ways::default() } else { sizes };
        let window = self.engine()?.multicasts().multicast_window().min(WINDOW_PACKETS);
        Ok((
            sizes,
            i64::from(self.multicast.next_generation),
            i64::from(window),
            !self.engine()?.multicasts().multicast_writes(),
        ))
    }

    /// Joins the group of `communicator`; in which ways that was possible.
    fn join_group(
        &mut self,
        communicator: usize,
        sizes: Ways<i64>,
        (generation, window, sends): (i64, i64, bool),
    ) -> Result<Ways<bool>> {
        self.multicast.next_generation = (generation as u32).wrapping_add(1);
        let object = self.objects.communicator(communicator)?;
        let (processes, context) = (object.group.clone(), object.collective_context());
        let members = self.nodes_of(&processes.members);
        let count = members.iter().max().map_or(0, |most| most + 1);
        let scheme = match self.multicast.wanted(&object.info) {
            // Where somebody has no carrier that writes, it is as if nothing had been asked for.
            Wanted::By(Some(scheme)) if !(scheme.written && sends) => scheme,
            Wanted::Off | Wanted::Auto | Wanted::By(_) => Scheme::for_members(count),
        };
        let ways = sizes.map(|size| size > 0);
        let packet_size = [sizes.udp, sizes.raw].into_iter().filter(|size| *size > 0).min().unwrap_or(0);
        let new = NewGroup {
            context,
            generation: generation as u32,
            processes: Arc::clone(&processes),
            members,
            ways,
            packet_size: packet_size as usize,
            window: window as u32,
            scheme,
            peer_timeout: self.multicast.peer_timeout,
        };
        Ok(self.engine()?.multicasts().join_group(new).unwrap_or_default())
    }

    /// Whether this process is to send a test: the first rank does, and the first of another node, so that each node hears one.
    fn sends_test(&self, communicator: usize) -> Result<bool> {
        let object = self.objects.communicator(communicator)?;
        let nodes = self.nodes_of(&object.group.members);
        let second = nodes.iter().position(|node| *node != nodes[0]);
        Ok(object.rank == 0 || Some(object.rank as usize) == second)
    }

    /// In which ways this process has heard a test, if it is one that receives what is multicast.
    fn tests_heard(&mut self, communicator: usize) -> Result<Ways<bool>> {
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

/// All processes of `communicator` say how multicast does. If it fails for one of them, all go on without it.
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

/// Tries with all processes of `communicator` whether the network carries multicast between them; or, if it did, whether it still does.
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
    let (sizes, generation, window, sends) = with(|process| process.offer_group())?;
    // The least sizes, the highest number, the smallest window, and what all can.
    let mut offers = [-sizes.udp, -sizes.raw, generation, -window, i64::from(sends)];
    agree(&mut offers)?;
    let [udp, raw, generation, window, sends] = offers;
    let sizes = Ways { udp: -udp, raw: -raw };
    if sizes == Ways::default() {
        return with(|process| {
            if !process.multicast.fails {
                process.multicast.carried = Carried::NoCarrier;
            }
            process.conclude_multicast(communicator, false)
        });
    }
    let joined = with(|process| process.join_group(communicator, sizes, (generation, -window, sends != 0)))?;
    let mut missing = [i64::from(!joined.udp), i64::from(!joined.raw)];
    agree(&mut missing)?;
    let tried = Ways { udp: missing[0] == 0, raw: missing[1] == 0 };
    let mut works: Ways<bool> = Ways::default();
    for attempt in 0..ATTEMPTS {
        // Where UDP works, frames that do not arrive at once are done without.
        let goes_on = Ways {
            udp: tried.udp && !works.udp,
            raw: tried.raw && !works.raw && (!works.udp || attempt < ATTEMPTS_RAW),
        };
        if goes_on == Ways::default() {
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
        let mut deaf = [i64::from(!heard.udp), i64::from(!heard.raw)];
        agree(&mut deaf)?;
        works = Ways { udp: tried.udp && deaf[0] == 0, raw: tried.raw && deaf[1] == 0 };
    }
    let is_heard = works.udp || works.raw;
    with(|process| {
        let context = process.objects.communicator(communicator)?.collective_context();
        process.engine()?.multicasts().settle_group(context, works);
        // What fails once would fail for each communicator, and each time cost the time of all attempts.
        process.multicast.fails |= !is_heard;
        process.multicast.failed.udp |= !works.udp;
        process.multicast.failed.raw |= !works.raw;
        process.multicast.carried = match (is_heard, tried) {
            (true, _) => Carried::Yes,
            (false, Ways { udp: false, raw: false }) => Carried::NotJoined,
            (false, _) => Carried::NotHeard,
        };
        process.conclude_multicast(communicator, is_heard)
    })
}

/// All processes of `communicator`, which is about to be freed, wait until what they have multicast is everywhere: whoever lost a packet still asks
/// for it, and whoever has it all still says so. Without multicast nobody waits for anybody.
pub fn part(communicator: usize) {
    let context = with(|process| {
        let object = process.objects.communicator(communicator).ok()?;
        matches!(object.multicast, Multicast::Works(_) | Multicast::GivenUp).then(|| object.collective_context())
    });
    let Some(context) = context else { return };
    process::block_until(|process| {
        process.engine().map_or(Some(()), |engine| engine.groups.are_quiet(context).then_some(()))
    });
    // If a process is gone, nobody will hear from it: the communicator is freed all the same.
    let _ = with(|process| process.collective_scope(communicator)).and_then(|scope| highest(scope, &mut [0]));
}
