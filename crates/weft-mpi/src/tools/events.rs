//! Events of the tool interface (MPI-5.0 §15.3.8): callbacks of tools are told what happened to messages and
//! packets.
//!
//! While a tool has a callback for any event, the engine notes events; the cost is a branch where a message
//! finds no receive. Calls that wait or that look in vain tell the events, and so do calls that are not in a
//! hurry. A callback runs in such a call, while the library's lock is free, and may call MPI.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_ordered::Map;

use weft_engine::events::{Event, Events, Kind};
use weft_net::clock;

use super::{HANDLES_MAX, MESSAGES, NETWORK, Tools, index, stale, wrong};
use crate::callbacks::{MPI_T_event_cb_function, MPI_T_event_dropped_cb_function};
use crate::constants::*;
use crate::error::Result;
use crate::process::{self, Process};

/// The one source of events: this library. Its clock counts nanoseconds, and its events are told in the order
/// in which they happened.
pub const SOURCE: (&str, &str) =
    ("weft", "the library's engine: messages, and packets between hosts; nanoseconds of the monotonic clock");
/// Ticks of that clock in a second.
pub const TICKS_PER_SECOND: i64 = 1_000_000_000;

/// An element of an event: its offset in the event's buffer, and whether it is 64 bits wide (unsigned) or 32
/// (signed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The offset, bytes.
    pub displacement: usize,
    /// The element is an `unsigned long long`, else an `int`.
    pub is_wide: bool,
}

/// A type of event.
pub struct EventType {
    /// The name: the category, then what happened.
    pub name: &'static str,
    /// The meaning of the event, for people.
    pub meaning: &'static str,
    /// Index of its category.
    pub category: usize,
    /// The elements that are told of an event.
    pub elements: &'static [Element],
    kind: Kind,
}

const MESSAGE: &[Element] = &[
    Element { displacement: 0, is_wide: false },
    Element { displacement: 4, is_wide: false },
    Element { displacement: 8, is_wide: true },
];
const COUNT: &[Element] = &[Element { displacement: 0, is_wide: true }];

/// The types of events, by index, in the order of [`Kind::ALL`].
pub const EVENTS: [EventType; 4] = [
    EventType {
        name: "messages_queued_unexpected",
        meaning: "A message has come that no receive asks for. Elements: the sender's rank in MPI_COMM_WORLD, the tag (of a collective: its number), bytes.",
        category: MESSAGES,
        elements: MESSAGE,
        kind: Kind::Unexpected,
    },
    EventType {
        name: "messages_unexpected_matched",
        meaning: "A message that was waiting for it has found its receive. Elements: the sender's rank in MPI_COMM_WORLD, the tag, bytes.",
        category: MESSAGES,
        elements: MESSAGE,
        kind: Kind::Matched,
    },
    EventType {
        name: "network_packets_resent",
        meaning: "Packets were sent again. Element: how many.",
        category: NETWORK,
        elements: COUNT,
        kind: Kind::Resent,
    },
    EventType {
        name: "network_path_failed",
        meaning: "An interface or carrier that leads to a peer has failed, and others take its packets. Element: how often.",
        category: NETWORK,
        elements: COUNT,
        kind: Kind::PathFailed,
    },
];

/// The length of an event's elements, bytes.
pub fn length(elements: &[Element]) -> usize {
    elements.iter().map(|element| element.displacement + if element.is_wide { 8 } else { 4 }).max().unwrap_or(0)
}

/// A callback, and the value that is passed to it.
#[derive(Clone, Copy, Debug)]
pub struct Callback {
    /// The tool's function.
    pub function: MPI_T_event_cb_function,
    /// The value that is passed to the function.
    pub user_data: usize,
    /// The safety level that it was registered for.
    pub safety: i32,
}

/// A tool's registration of an event.
#[derive(Clone, Debug, Default)]
pub(super) struct Registration {
    event: usize,
    /// The callbacks by safety level.
    callbacks: Map<i32, Callback>,
    dropped: Option<MPI_T_event_dropped_cb_function>,
}

/// A notice for a callback.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event.
    Event {
        /// The registration's number.
        registration: usize,
        /// The callback to call.
        callback: Callback,
        /// The event itself.
        instance: Instance,
    },
    /// Events that were dropped.
    Dropped {
        /// The registration's number.
        registration: usize,
        /// The function to call.
        function: MPI_T_event_dropped_cb_function,
        /// The callback whose value is passed to that function.
        callback: Callback,
        /// The number of dropped events.
        count: u64,
    },
}

/// An event as a callback is told it.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// The time at which it happened, ticks of its source.
    pub time: i64,
    /// Index of its type.
    pub event: usize,
    source: i32,
    tag: i32,
    amount: u64,
}

impl Instance {
    /// The value of an element, as bits.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_INDEX.
    pub fn element(&self, at: i32) -> Result<(Element, u64)> {
        let elements = EVENTS[self.event].elements;
        let at = index(at, elements.len(), "elements of this event")?;
        let value = match (elements.len(), at) {
            (3, 0) => u64::from(self.source as u32),
            (3, 1) => u64::from(self.tag as u32),
            _ => self.amount,
        };
        Ok((elements[at], value))
    }
}

/// The levels of safety that a callback may be registered for (MPI-5.0 §15.3.8). Weft's callbacks run in a
/// call, so every level is kept.
const SAFETY: [i32; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// A callback is registered: processes that start or run then note events.
static WANTED: AtomicBool = AtomicBool::new(false);
/// The function of the boundary that calls the callbacks.
static DELIVER: OnceLock<fn(&Delivery)> = OnceLock::new();
/// Set while a thread tells events: one at a time, so that events keep their order.
static TELLING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The event that this thread is telling: its number and contents.
    static CURRENT: Cell<Option<(usize, Instance)>> = const { Cell::new(None) };
}

impl Tools {
    /// Carries out MPI_T_event_handle_alloc.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_OUT_OF_HANDLES.
    pub fn register_event(&mut self, event: i32) -> Result<usize> {
        let event = index(event, EVENTS.len(), "events")?;
        if self.registrations.len() >= HANDLES_MAX {
            return Err(wrong(
                MPI_T_ERR_OUT_OF_HANDLES,
                format!("there are {HANDLES_MAX} event registrations already"),
            ));
        }
        let number = self.number();
        self.registrations.insert(number, Registration { event, ..Registration::default() });
        Ok(number)
    }

    fn registration(&mut self, number: usize) -> Result<&mut Registration> {
        self.registrations.get_mut(&number).ok_or_else(stale)
    }

    /// Checks that there is a registration with this number.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE.
    pub fn check_registration(&mut self, number: usize) -> Result<()> {
        self.registration(number).map(drop)
    }

    /// MPI_T_event_register_callback; no function removes the callback of the level.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID.
    pub fn set_callback(
        &mut self,
        number: usize,
        safety: i32,
        function: Option<MPI_T_event_cb_function>,
        user_data: usize,
    ) -> Result<()> {
        check_safety(safety)?;
        let callbacks = &mut self.registration(number)?.callbacks;
        match function {
            None => callbacks.remove(&safety),
            Some(function) => callbacks.insert(safety, Callback { function, user_data, safety }),
        };
        self.note_wanted();
        Ok(())
    }

    /// Carries out MPI_T_event_set_dropped_handler.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE.
    pub fn set_dropped_handler(
        &mut self,
        number: usize,
        function: Option<MPI_T_event_dropped_cb_function>,
    ) -> Result<()> {
        self.registration(number)?.dropped = function;
        Ok(())
    }

    /// Carries out MPI_T_event_handle_free.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE.
    pub fn drop_registration(&mut self, number: usize) -> Result<()> {
        self.registrations.remove(&number).ok_or_else(stale)?;
        self.note_wanted();
        Ok(())
    }

    fn note_wanted(&self) {
        let wanted = self.registrations.values().any(|registration| !registration.callbacks.is_empty());
        WANTED.store(wanted, Ordering::Relaxed);
    }
}

type Registrations = Map<usize, Registration>;

/// Finds the callbacks to tell of an event.
fn deliveries_of(registrations: &Registrations, instance: Instance, out: &mut Vec<Delivery>) {
    for (&registration, found) in registrations.iter().filter(|(_, found)| found.event == instance.event) {
        // The callback that asks for least may do most, and Weft calls callbacks where everything is allowed.
        if let Some(&callback) = found.callbacks.values().next() {
            out.push(Delivery::Event { registration, callback, instance });
        }
    }
}

/// Finds the callbacks to tell of dropped events.
fn dropped_of(registrations: &Registrations, event: usize, count: u64, out: &mut Vec<Delivery>) {
    for (&registration, found) in registrations.iter().filter(|(_, found)| found.event == event) {
        if let (Some(function), Some(&callback)) = (found.dropped, found.callbacks.values().next()) {
            out.push(Delivery::Dropped { registration, function, callback, count });
        }
    }
}

/// Checks that a level of safety is one of the four.
///
/// # Errors
/// MPI_T_ERR_INVALID.
pub fn check_safety(safety: i32) -> Result<()> {
    if SAFETY.contains(&safety) {
        return Ok(());
    }
    Err(wrong(MPI_T_ERR_INVALID, format!("{safety} is no level of callback safety (MPI_T_CB_REQUIRE_*)")))
}

/// Sets the function by which the boundary calls callbacks.
pub fn set_deliver(deliver: fn(&Delivery)) {
    let _ = DELIVER.set(deliver);
    let _ = process::LISTENERS.set(tell);
}

/// Begins or ends to note events, as tools want it. A process that has not started begins when it does.
pub fn follow() {
    process::with(Process::follow_events);
}

/// Returns the event with this number, which this thread is telling right now.
///
/// # Errors
/// MPI_T_ERR_INVALID_HANDLE: events can be looked at inside their callback only.
pub fn current(number: usize) -> Result<Instance> {
    let found = CURRENT.get().filter(|(current, _)| *current == number);
    found.map(|(_, instance)| instance).ok_or_else(|| {
        wrong(
            MPI_T_ERR_INVALID_HANDLE,
            "the event instance is none that is being told: it can be read inside its callback only",
        )
    })
}

/// The clock of the source.
pub fn now() -> i64 {
    clock::now().0 as i64
}

impl Process {
    /// Begins or ends to note events, as tools want it.
    pub(crate) fn follow_events(&mut self) {
        let wanted = WANTED.load(Ordering::Relaxed);
        let Ok(messages) = self.messages() else { return };
        if wanted != messages.events.is_some() {
            messages.events = wanted.then(|| Box::new(Events::new(|| clock::now().0)));
        }
    }

    /// Returns whether there is an event to tell, and no thread tells it.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        let engine = self.engine.as_deref();
        engine.and_then(|engine| engine.messages.events.as_ref()).is_some_and(|events| !events.is_empty())
            && !TELLING.load(Ordering::Relaxed)
    }

    /// Notes the packets sent again and the paths failed since the last look.
    pub(crate) fn note_packets(&mut self) {
        let Some(engine) = self.engine.as_deref_mut().filter(|engine| engine.messages.events.is_some()) else { return };
        let counters = engine.counters();
        let resent = counters.resent();
        let failures = engine.rail_traffic().iter().map(|rail| u64::from(rail.failures)).sum();
        let last = std::mem::replace(&mut self.packets_seen, [resent, failures]);
        let envelope = weft_core::matching::Envelope { context: 0, source: 0, tag: 0 };
        let Some(events) = &mut engine.messages.events else { return };
        for ((kind, now), last) in [Kind::Resent, Kind::PathFailed].into_iter().zip([resent, failures]).zip(last) {
            if now > last {
                events.note(kind, None, envelope, now - last);
            }
        }
    }

    fn take_events(&mut self) -> (Vec<Instance>, Vec<(usize, u64)>) {
        let Some(engine) = self.engine.as_deref_mut() else { return (Vec::new(), Vec::new()) };
        let Some(events) = &mut engine.messages.events else { return (Vec::new(), Vec::new()) };
        let (taken, dropped) = events.take();
        let index = |kind: Kind| EVENTS.iter().position(|event| event.kind == kind).unwrap_or(0);
        let instance = |event: &Event| Instance {
            time: event.time_ns as i64,
            event: index(event.kind),
            source: event.peer.and_then(|peer| engine.peers.get(peer)).map_or(-1, |peer| peer.number() as i32),
            tag: event.envelope.tag,
            amount: event.amount,
        };
        let dropped = Kind::ALL.into_iter().zip(dropped).filter(|(_, count)| *count > 0);
        (taken.iter().map(instance).collect(), dropped.map(|(kind, count)| (index(kind), count)).collect())
    }
}

/// Tells tools of all noted events. The caller does not hold the library's lock. Events that happen in
/// callbacks are told by the next call.
fn tell() {
    let Some(deliver) = DELIVER.get() else { return };
    // A tool's call that looks at a variable holds the tools' lock: a later call tells the events.
    let registrations = match super::TOOLS.try_lock() {
        Ok(tools) => tools.as_ref().map(|tools| tools.registrations.clone()).unwrap_or_default(),
        Err(_) => return,
    };
    if TELLING.swap(true, Ordering::Acquire) {
        return;
    }
    let (events, dropped) = process::lock().take_events();
    let mut deliveries = Vec::new();
    events.into_iter().for_each(|instance| deliveries_of(&registrations, instance, &mut deliveries));
    dropped.into_iter().for_each(|(event, count)| dropped_of(&registrations, event, count, &mut deliveries));
    for (number, delivery) in (2..).zip(&deliveries) {
        // A registration that a callback has freed meanwhile is told nothing more.
        let (Delivery::Event { registration, .. } | Delivery::Dropped { registration, .. }) = delivery;
        let lives = super::lock().as_ref().is_some_and(|tools| tools.registrations.contains_key(registration));
        if !lives {
            continue;
        }
        if let Delivery::Event { instance, .. } = delivery {
            CURRENT.set(Some((number, *instance)));
        }
        deliver(delivery);
        CURRENT.set(None);
    }
    TELLING.store(false, Ordering::Release);
}

/// The number of the event that this thread is telling; 0 when it tells none.
pub fn telling() -> usize {
    CURRENT.get().map_or(0, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;

    #[test]
    fn types_stand_in_the_order_of_their_kinds_with_elements_that_do_not_overlap() {
        for (event, kind) in EVENTS.iter().zip(Kind::ALL) {
            assert_eq!(event.kind, kind);
            assert!(event.name.starts_with(super::super::CATEGORIES[event.category].0));
            let mut end = 0;
            for element in event.elements {
                assert!(element.displacement >= end);
                end = element.displacement + if element.is_wide { 8 } else { 4 };
            }
            assert_eq!(length(event.elements), end);
        }
    }

    #[test]
    fn a_callback_hears_of_its_event_only_and_a_dropped_handler_of_how_many() {
        let mut tools = Tools { users: 1, ..Tools::default() };
        let (one, two) = (tools.register_event(0).unwrap(), tools.register_event(2).unwrap());
        extern "C" fn hears(_: usize, _: usize, _: i32, _: *mut c_void) {}
        extern "C" fn hears_of_dropped(_: i64, _: usize, _: i32, _: i32, _: *mut c_void) {}
        let set = |tools: &mut Tools, number, safety| tools.set_callback(number, safety, Some(hears), 5);
        set(&mut tools, one, MPI_T_CB_REQUIRE_NONE).unwrap();
        set(&mut tools, two, MPI_T_CB_REQUIRE_NONE).unwrap();
        tools.set_dropped_handler(one, Some(hears_of_dropped)).unwrap();
        let instance = Instance { time: 1, event: 0, source: 3, tag: 4, amount: 5 };
        let mut out = Vec::new();
        deliveries_of(&tools.registrations, instance, &mut out);
        dropped_of(&tools.registrations, 0, 9, &mut out);
        dropped_of(&tools.registrations, 2, 9, &mut out);
        assert!(
            matches!(&out[..], [Delivery::Event { registration, .. }, Delivery::Dropped { count: 9, callback, .. }]
            if *registration == one && callback.user_data == 5)
        );
        assert_eq!(instance.element(2).unwrap().1, 5);
        assert_eq!(instance.element(3).unwrap_err().class, MPI_T_ERR_INVALID_INDEX);
        tools.drop_registration(one).unwrap();
        let error = |set: Result<()>| set.unwrap_err().class;
        assert_eq!(error(set(&mut tools, one, MPI_T_CB_REQUIRE_NONE)), MPI_T_ERR_INVALID_HANDLE);
        assert_eq!(error(set(&mut tools, two, 1)), MPI_T_ERR_INVALID);
    }

    #[test]
    fn an_event_can_be_read_inside_its_callback_only() {
        let instance = Instance { time: 1, event: 0, source: 3, tag: 4, amount: 5 };
        CURRENT.set(Some((2, instance)));
        assert_eq!(current(2).unwrap().element(0).unwrap().1, 3);
        assert!(current(3).is_err());
        CURRENT.set(None);
        assert_eq!(current(2).unwrap_err().class, MPI_T_ERR_INVALID_HANDLE);
    }
}
