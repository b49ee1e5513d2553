//! Creating communicators: agreement among processes (MPI-5.0 §7.4.2).

mod exchange;
mod multicast;
mod operations;
mod topologies;

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_core::collective::choice::Layout;
use weft_core::collective::{self, Chosen, ElementShape, Items};
use weft_core::reduce::Op;

use weft_engine::schedules::Cursor;

use crate::blocking::wait;
use crate::collective::{Arguments, Bound, CollectiveScope};
use crate::constants::{MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_INT64_T};
use crate::context::{CONTEXT_NONE, CONTEXTS_EACH, Reserved, Serial};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::SharedBuffer;
use crate::object::{Class, Communicator, Group, Operation, full};
use crate::process::{Process, lock, with};
use crate::request::Hold;
use crate::slots::Slots;

pub use crate::slots::Agreed;
pub use exchange::exchange;
pub use multicast::{part as part_from_multicast, prepare as prepare_multicast};
pub use operations::agree_on_slot;

/// How many numbers the first step of a creation compares.
const OPENING: usize = 4;
/// One of them has the rank of a process in so many of its bits.
const RANK_BITS: u32 = 32;
/// How often an agreement may meet others before the call gives up. Each time spreads their offers over twice as many numbers.
const MET_MAX: u32 = 200;
/// How many numbers are tried of which somebody still uses the contexts. Whoever offers one does not, so that there are few, unless
/// nearly all are in use.
const IN_USE_MAX: u32 = 10_000;

/// Runs `bound` among the processes of `place` and waits for it.
fn run(place: CollectiveScope, bound: Bound) -> Result<()> {
    let mut process = lock();
    let request = process.collective_request(&place)?;
    process.start_schedule(request, place, Arc::new(bound))?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

fn int64(process: &Process) -> Result<Arc<crate::object::Description>> {
    Ok(process.objects.datatype(MPI_INT64_T)?.description.clone())
}

/// The reduction of each of the `values` of all processes of `place`, into `values`; `layout`: as that of
/// [`Process::agreement_layout`], the same at all of them.
fn reduction(
    place: &CollectiveScope,
    values: &SharedBuffer,
    op: Op,
    process: &Process,
    layout: Option<&Layout>,
) -> Result<Bound> {
    let shape = collective::Allreduce {
        rank: place.rank,
        size: place.group.size(),
        items: Items { count: values.len() as u64 / 8, shape: ElementShape::plain(8) },
        commutative: true,
        in_place: true,
    };
    let arguments = Arguments {
        receive: values.address(0),
        receive_type: Some(int64(process)?),
        operation: Some(Operation::Predefined(op)),
        ..Arguments::none()
    };
    let schedule = match layout {
        Some(layout) => Chosen { choices: process.choices(), layout }.allreduce(&shape),
        None => collective::allreduce(&shape),
    };
    Ok(Bound::shared(schedule, arguments))
}

/// The highest of each of the `values` of all processes of `place`.
///
/// # Errors
/// A process is gone.
pub fn highest(place: CollectiveScope, values: &mut [i64]) -> Result<()> {
    highest_by(place, values, None)
}

fn highest_by(place: CollectiveScope, values: &mut [i64], layout: Option<&Layout>) -> Result<()> {
    let found = SharedBuffer::of_values(values);
    run(place.clone(), with(|process| reduction(&place, &found, Op::Max, process, layout))?)?;
    values.copy_from_slice(&found.values());
    Ok(())
}

/// The `values` of all processes of `place`, by rank.
///
/// # Errors
/// A process is gone.
pub fn gather_all(place: CollectiveScope, values: &[i64]) -> Result<Vec<i64>> {
    let description = with(|process| int64(process))?;
    let size = place.group.size();
    let mut all = vec![0_i64; values.len() * size as usize];
    let start = place.rank as usize * values.len();
    all[start..start + values.len()].copy_from_slice(values);
    let all = SharedBuffer::of_values(&all);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Allgather { rank: place.rank, size, send: items, receive: items, in_place: true };
    let arguments = Arguments {
        receive: all.address(0),
        receive_type: Some(description.clone()),
        send_type: Some(description),
        ..Arguments::none()
    };
    run(place, Bound::shared(collective::allgather(&shape), arguments))?;
    Ok(all.values())
}

/// The `values` of rank `root` of `place`, at all its processes; their number is the same everywhere.
///
/// # Errors
/// A process is gone.
pub fn broadcast(place: CollectiveScope, root: u32, values: &mut [i64]) -> Result<()> {
    let description = with(|process| int64(process))?;
    let buffer = SharedBuffer::of_values(values);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Bcast { rank: place.rank, size: place.group.size(), root, items };
    let arguments = Arguments { receive: buffer.address(0), receive_type: Some(description), ..Arguments::none() };
    run(place, Bound::shared(collective::bcast(&shape), arguments))?;
    values.copy_from_slice(&buffer.values());
    Ok(())
}

/// What a new communicator is made by. All its processes must call the same (MPI-5.0 §7.4.2), which is looked at before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has the name of its call")]
pub enum Creation {
    Duplicate,
    Create,
    CreateGroup,
    Split,
    SplitType,
    Cartesian,
    CartesianSub,
    Graph,
    DistributedGraph,
    DistributedGraphAdjacent,
    Intercommunicator,
    Merge,
    FromGroup,
    FromGroups,
    Window,
}

impl Creation {
    const ALL: [Self; 15] = [
        Self::Duplicate,
        Self::Create,
        Self::CreateGroup,
        Self::Split,
        Self::SplitType,
        Self::Cartesian,
        Self::CartesianSub,
        Self::Graph,
        Self::DistributedGraph,
        Self::DistributedGraphAdjacent,
        Self::Intercommunicator,
        Self::Merge,
        Self::FromGroup,
        Self::FromGroups,
        Self::Window,
    ];

    /// The name of the call. Forms that differ in hints, or in whether they wait, count as one.
    fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "MPI_Comm_dup",
            Self::Create => "MPI_Comm_create",
            Self::CreateGroup => "MPI_Comm_create_group",
            Self::Split => "MPI_Comm_split",
            Self::SplitType => "MPI_Comm_split_type",
            Self::Cartesian => "MPI_Cart_create",
            Self::CartesianSub => "MPI_Cart_sub",
            Self::Graph => "MPI_Graph_create",
            Self::DistributedGraph => "MPI_Dist_graph_create",
            Self::DistributedGraphAdjacent => "MPI_Dist_graph_create_adjacent",
            Self::Intercommunicator => "MPI_Intercomm_create",
            Self::Merge => "MPI_Intercomm_merge",
            Self::FromGroup => "MPI_Comm_create_from_group",
            Self::FromGroups => "MPI_Intercomm_create_from_groups",
            Self::Window => "MPI_Win_create or one of its relatives",
        }
    }

    /// What each process brings to the first step of every creation: their highest are found. `offer`: of a context. One whose part has failed by
    /// `refusal` brings this.
    fn opening(self, offer: i64, rank: u32, refusal: Option<&Error>) -> [i64; OPENING] {
        let told = |error: &Error| i64::from(ErrorClass::to_wire(Some(error.class))) << RANK_BITS | i64::from(rank);
        let refusal = refusal.map_or(0, told);
        [offer, self as i64, -(self as i64), refusal]
    }

    /// What all have brought: they must have come to the same call, and none of them must have failed.
    fn compare(opening: &[i64]) -> Result<()> {
        let (highest, lowest, refusal) = (opening[1], -opening[2], opening[3]);
        let name = |code: i64| Self::ALL.get(code as usize).map_or("another call", |creation| creation.name());
        if highest == lowest {
            if refusal == 0 {
                return Ok(());
            }
            let (class, rank) = (ErrorClass::from_wire((refusal >> RANK_BITS) as u32), refusal as u32);
            let message = format!(
                "rank {rank} cannot do its part of {}, as its own call says, and so no process has anything of it",
                name(highest)
            );
            return Err(Error::new(class.unwrap_or(MPI_ERR_OTHER), message));
        }
        let (one, other) = (name(lowest), name(highest));
        let message = format!("processes of the communicator are in {one} while others are in {other}");
        Err(Error::new(MPI_ERR_OTHER, message))
    }
}

/// Looks whether all processes of `place` are in this call, and have all that they need for it: what this one has, it is given back. The creations that do
/// not begin with an agreement begin with this: so all begin alike, and who has come to the wrong one is told instead of waiting for ever.
///
/// # Errors
/// They are not, or have not; a process is gone.
pub fn open_creation<T>(place: CollectiveScope, creation: Creation, needed: Result<T>) -> Result<T> {
    let mut opening = creation.opening(i64::MIN, place.rank, needed.as_ref().err());
    let layout = with(|process| process.agreement_layout(&place));
    let met = highest_by(place, &mut opening, layout.as_ref());
    let needed = needed?;
    met?;
    Creation::compare(&opening).map(|()| needed)
}

/// The step that an agreement is in.
enum Step {
    /// The highest offer is being found.
    Offer,
    /// Whether all could reserve it is being found; whether this process could.
    Confirm { reserved: Reserved },
}

/// An agreement on the context of a new communicator that is under way: two reductions, repeated when it met another.
pub struct Agreement {
    place: CollectiveScope,
    /// Where its processes are, and what may be multicast between them, as all knew it when it began: that may change between two reductions.
    layout: Option<Layout>,
    /// Handle of the communicator that gets the context, if this process is a member.
    communicator: Option<usize>,
    /// Why this process has none: then nobody gets one.
    refusal: Option<Error>,
    /// The call that it is for.
    creation: Creation,
    /// The numbers that the running reduction reads and writes.
    value: SharedBuffer,
    step: Step,
    /// How often it has met another, and contexts that somebody uses.
    met: u32,
    in_use: u32,
    offer: Option<Serial>,
    serial: Serial,
    /// The slot that goes with that is reserved.
    has_slot: bool,
}

impl Agreement {
    fn key(&self) -> u64 {
        u64::from(self.place.context) << 32 | u64::from(self.place.tag as u32)
    }
}

impl Process {
    /// Adds a communicator of `group` that has no context yet; its handle. It inherits the error handler of `parent`.
    ///
    /// # Errors
    /// Too many communicators.
    pub fn add_communicator(&mut self, group: Arc<Group>, parent: usize) -> Result<usize> {
        let error_handler = self.objects.communicator(parent)?.error_handler;
        self.add_communicator_with(group, error_handler)
    }

    /// The same with this error handler.
    ///
    /// # Errors
    /// Too many communicators; `MPI_ERR_ERRHANDLER` when that is no error handler for communicators.
    pub fn add_communicator_with(&mut self, group: Arc<Group>, error_handler: usize) -> Result<usize> {
        self.objects.retain_error_handler(error_handler, Some(Class::Communicator))?;
        let communicator = Communicator {
            context: CONTEXT_NONE,
            rank: group.rank.unwrap_or(0),
            addressed: group.clone(),
            group,
            inter: None,
            error_handler,
            name: String::new(),
            attributes: Vec::new(),
            info: Vec::new(),
            collectives: 0,
            buffer: Default::default(),
            topology: None,
            layout: std::sync::OnceLock::new(),
            copies: std::sync::OnceLock::new(),
            slot: None,
            multicast: Default::default(),
        };
        self.objects.communicators.insert(communicator).ok_or_else(|| full("communicators"))
    }

    /// Starts to agree with all processes of `place` on a context; the communicator of handle `communicator` has it
    /// when the request is complete. After an error that communicator is gone. A process that could not make it takes part all the same:
    /// its error is that of the request, and no process gets one.
    ///
    /// # Errors
    /// Too many requests: nothing has been started then, and the communicator is gone.
    pub fn start_agreement(
        &mut self,
        place: CollectiveScope,
        communicator: Result<Option<usize>>,
        creation: Creation,
    ) -> Result<usize> {
        if self.contexts.is_short() {
            // What is complete without this process knowing uses no context any more.
            self.progress();
        }
        let (communicator, refusal) = match communicator {
            Ok(communicator) => (communicator, None),
            Err(error) => (None, Some(error)),
        };
        let request = self.collective_request(&place).inspect_err(|_| {
            communicator.into_iter().for_each(|handle| self.remove_communicator(handle));
        })?;
        let agreement = Agreement {
            layout: self.agreement_layout(&place),
            value: SharedBuffer::of_values(&[0; OPENING]),
            place,
            communicator,
            refusal,
            creation,
            step: Step::Offer,
            met: 0,
            in_use: 0,
            offer: None,
            serial: Serial(0),
            has_slot: false,
        };
        self.offer_context(request, agreement);
        Ok(request)
    }

    /// Takes part in an agreement to tell the other processes of `place` of `error`, without waiting for them.
    ///
    /// # Errors
    /// As for [`Process::start_agreement`]: then they have been told in another way.
    pub fn start_refusal(&mut self, place: CollectiveScope, creation: Creation, error: &Error) -> Result<()> {
        let request = self.start_agreement(place, Err(error.clone()), creation)?;
        let messages = self.messages()?;
        match messages.requests.get_mut(request) {
            Some(found) if !found.is_complete() => found.hold = Hold::Freed,
            _ => messages.forget(request),
        }
        Ok(())
    }

    /// Begins an attempt.
    fn offer_context(&mut self, request: usize, mut agreement: Agreement) {
        if self.contexts.is_short() {
            self.sweep_contexts();
        }
        agreement.offer = self.contexts.offer(agreement.key(), agreement.met);
        // Who has no number left still takes part, and all hear of it.
        let offer = agreement.offer.map_or(i64::MAX, |offer| offer.0 as i64);
        let opening = agreement.creation.opening(offer, agreement.place.rank, agreement.refusal.as_ref());
        agreement.value.set_values(&opening);
        agreement.step = Step::Offer;
        self.reduce_agreement(request, agreement, Op::Max);
    }

    fn reduce_agreement(&mut self, request: usize, mut agreement: Agreement, op: Op) {
        let place = agreement.place.clone();
        let prepared = reduction(&place, &agreement.value, op, self, agreement.layout.as_ref())
            .and_then(|bound| Cursor::new(place, Arc::new(bound)));
        match prepared {
            Ok(cursor) => self.run_then(request, cursor, move |process, error| {
                process.continue_agreement(request, agreement, error);
            }),
            Err(error) => self.end_agreement(request, &mut agreement, Some(error)),
        }
    }

    /// The reduction of `agreement` is complete: what comes next.
    fn continue_agreement(&mut self, request: usize, mut agreement: Agreement, error: Option<Error>) {
        let values = agreement.value.values();
        let value = values[0];
        let opening = if matches!(agreement.step, Step::Offer) { Creation::compare(&values) } else { Ok(()) };
        let error = agreement.refusal.take().or(error).or(opening.err());
        let failed = error.is_some();
        match agreement.step {
            _ if failed => self.end_agreement(request, &mut agreement, error),
            Step::Offer if value == i64::MAX => {
                let message = "a process of the group has as many communicators as it can have: MPI_Comm_free makes room for more";
                self.end_agreement(request, &mut agreement, Some(Error::new(MPI_ERR_NO_MEM, message)));
            }
            Step::Offer => {
                agreement.serial = Serial(value as u64);
                let is_clear = !agreement.serial.is_repeated() || self.is_clear(agreement.serial.context());
                let reserved = self.contexts.reserve(agreement.serial, is_clear);
                agreement.step = Step::Confirm { reserved };
                let has_slot = reserved != Reserved::Ours || self.reserve_slot(agreement.serial);
                let answer = if has_slot { reserved } else { Reserved::OursWithoutSlot };
                agreement.value.set_values(&[answer as i64; OPENING]);
                agreement.has_slot = reserved == Reserved::Ours && has_slot;
                self.reduce_agreement(request, agreement, Op::Min);
            }
            Step::Confirm { .. } if value >= Reserved::OursWithoutSlot as i64 => {
                let all_have_slots = value == Reserved::Ours as i64;
                if let Some(handle) = agreement.communicator
                    && let Ok(communicator) = self.objects.communicator_mut(handle)
                {
                    communicator.context = agreement.serial.context();
                    self.contexts.begin_use(agreement.serial);
                    if all_have_slots && let Some(engine) = self.engine.as_deref_mut() {
                        let context = communicator.collective_context();
                        communicator.slot = Slots::open(agreement.serial, context, &communicator.group, engine);
                        agreement.has_slot &= communicator.slot.is_none();
                    }
                }
                self.give_slot_back(&mut agreement);
                self.end_agreement(request, &mut agreement, None);
            }
            Step::Confirm { .. } if agreement.met == MET_MAX || agreement.in_use == IN_USE_MAX => {
                let error = Error::new(MPI_ERR_NO_MEM, "no agreement on a context for the new communicator");
                self.end_agreement(request, &mut agreement, Some(error));
            }
            Step::Confirm { reserved } => {
                self.give_slot_back(&mut agreement);
                if reserved == Reserved::Ours {
                    self.contexts.release(agreement.serial);
                }
                agreement.offer.take().into_iter().for_each(|offer| self.contexts.withdraw(offer));
                if value == Reserved::Taken as i64 {
                    agreement.met += 1;
                } else {
                    agreement.in_use += 1;
                }
                self.offer_context(request, agreement);
            }
        }
    }

    /// Whether nothing is here of a communicator that had these contexts before.
    fn is_clear(&mut self, context: u32) -> bool {
        let Ok(messages) = self.messages() else { return true };
        messages.forget_given_up(|other| (context..context + CONTEXTS_EACH).contains(&other));
        (context..context + CONTEXTS_EACH).all(|context| messages.matcher.counts_in(context) == (0, 0))
    }

    /// Contexts of communicators that have been freed can be given again, but for those with operations under way (MPI-5.0 §7.4.3).
    /// Messages that are left in them, or have come since, are forgotten: nobody can receive them.
    fn sweep_contexts(&mut self) {
        let Some(engine) = self.engine.as_deref_mut() else { return };
        // A program that never waits has not looked at what it has sent itself.
        engine.progress();
        let requests = engine.messages.requests.iter();
        let busy: BTreeSet<usize> = requests
            .filter(|(_, request)| request.persistent.is_some() || !request.is_complete())
            .map(|(_, request)| request.communicator)
            .collect();
        self.contexts.sweep(|handle| busy.contains(&handle));
        engine.discard_contexts(|context| self.contexts.is_over(context));
    }

    /// Takes the slot of a communicator with this number; false: another one has it.
    fn reserve_slot(&mut self, serial: Serial) -> bool {
        let Self { slots, engine: Some(engine), .. } = self else { return true };
        slots.reserve(serial, engine)
    }

    /// The agreement needs the slot no more that it has taken.
    fn give_slot_back(&mut self, agreement: &mut Agreement) {
        let Self { slots, engine: Some(engine), .. } = self else { return };
        if std::mem::take(&mut agreement.has_slot) {
            slots.give_back(agreement.serial, engine);
        }
    }

    fn end_agreement(&mut self, request: usize, agreement: &mut Agreement, error: Option<Error>) {
        self.give_slot_back(agreement);
        if error.is_some() {
            if let Step::Confirm { reserved: Reserved::Ours } = agreement.step {
                self.contexts.release(agreement.serial);
            }
            if let Some(handle) = agreement.communicator {
                self.remove_communicator(handle);
            }
        }
        agreement.offer.into_iter().for_each(|offer| self.contexts.withdraw(offer));
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }

    /// The communicator of `handle` is gone.
    pub fn remove_communicator(&mut self, handle: usize) {
        if let Some(object) = self.objects.communicators.remove(handle) {
            self.objects.release_error_handler(object.error_handler);
            object.slot.into_iter().for_each(|slot| self.slots.release(slot));
            self.temporaries.take_over(object.buffer);
            if let Some(engine) = &mut self.engine {
                engine.messages.release_contexts(object.context..object.context + CONTEXTS_EACH);
            }
            if self.contexts.end_use(handle, object.context) {
                self.sweep_contexts();
            }
        }
    }
}

/// Agrees with all processes of `place` on a context for the communicator of handle `communicator`, or tells them that this process could not make it.
///
/// # Errors
/// That it could not, at this process or at another; others have come to another call, or a process is gone: so is the communicator then.
pub fn agree_on_context(place: CollectiveScope, communicator: Result<Option<usize>>, creation: Creation) -> Result<()> {
    let mut process = lock();
    let request = process.start_agreement(place, communicator, creation)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

/// What this process needs for a creation that begins with an agreement. Without it this process tells the others, who wait for it.
///
/// # Errors
/// It has not got it.
pub fn needed<T>(place: &CollectiveScope, creation: Creation, needed: Result<T>) -> Result<T> {
    if let Err(error) = &needed {
        // Whatever else goes wrong is less than this.
        agree_on_context(place.clone(), Err(error.clone()), creation).ok();
    }
    needed
}
