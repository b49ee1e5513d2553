//! Lets this process know processes of other jobs: opens a link to them, writes what this process tells of
//! itself, and adds those that have told the same. `crate::processes` carries the words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::meeting::{self, Half};
use weft_core::process::{JobId, ProcessName};
use weft_engine::group::PeerId;
use weft_net::carrier::Carrier as _;
use weft_net::shared::SharedLink;
use weft_net::udp::{self, Udp};

use super::join::sign_of_life;
use super::{carriers, other, rails, warn};
use crate::business_card::BusinessCard;
use crate::context::FAREWELL_CONTEXT;
use crate::engine::{BoxedCarrier, CarrierId, NewPeer, Route};
use crate::error::{Error, Result};
use crate::job::{Introduction, Link, NearLink};
use crate::process::{self, Process};
use crate::settings::Settings;

/// The most processes of a job: packets carry their indices in 24 bits.
const PROCESSES_MAX: u32 = 1 << 24;

/// A process of another job, and what it has told this one.
pub(crate) struct Stranger<'a> {
    pub(crate) name: ProcessName,
    /// The index by which it knows this process.
    pub(crate) own_index: u32,
    /// Its card as text.
    pub(crate) card: String,
    /// It takes turns with others on its processors.
    pub(crate) is_crowded: bool,
    /// The segment that it shares with this process, and its number there.
    pub(crate) near: Option<(&'a NearPlace, usize)>,
}

/// A place of this process in a segment that it shares with processes of other jobs.
pub(crate) struct NearPlace {
    near: NearLink,
    segment: u32,
}

impl NearPlace {
    /// Gives the segment back if nobody is reached by it.
    pub(crate) fn leave_unused(&self) {
        self.near.link.leave_unused(self.segment);
    }
}

/// Opens the link to processes of other jobs on other nodes, where there is none. Between jobs, messages take
/// UDP, with raw frames beside it where both ends have them.
///
/// # Errors
/// No interface, or no socket.
pub(crate) fn open_link() -> Result<()> {
    let is_open = |process: &Process| process.introduction().map(|introduction| introduction.link.is_some());
    open(is_open, |settings| {
        let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
        let udp = Udp::bind(&wanted).map_err(|error| other(error.to_string()))?;
        Ok(|process: &mut Process, settings: &Settings| process.add_link(settings, udp))
    })
}

/// Joins a segment of `size` processes of this node and of several jobs, as its process `own`; process 0
/// creates it. `key` is its name, which nobody else can guess.
///
/// # Errors
/// The segment cannot be made, or is not there.
pub(crate) fn join_near(key: &str, own: usize, size: usize) -> Result<NearPlace> {
    let is_open = |process: &Process| process.introduction().map(|introduction| introduction.near.is_some());
    open(is_open, |_| {
        let link = SharedLink::open().map_err(|error| other(error.to_string()))?;
        Ok(|process: &mut Process, _: &Settings| process.add_near_link(link))
    })?;
    let (near, directory) = process::with(|process| {
        let Introduction { near, settings, .. } = process.introduction()?;
        let near = near.clone().ok_or_else(|| other("there is no link to other jobs"))?;
        Ok::<_, Error>((near, settings.shm_dir.clone()))
    })?;
    let segment = near.link.join(key, own, size, directory).map_err(|error| other(error.to_string()))?;
    Ok(NearPlace { near, segment })
}

/// Tells the user, once, that messages to processes of other jobs on this node take the network.
pub(crate) fn say_that_no_memory_is_shared(reason: &str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        let rank = process::with(|process| process.job.as_ref().map_or(0, |job| job.rank));
        let sentence = "this process shares no memory with another job on its host, so their messages take the network";
        warn(rank, &format!("{sentence}: {reason}"));
    }
}

/// Opens a carrier more, unless `is_open`. `make` opens it without the lock, and what it returns adds it.
fn open<A: FnOnce(&mut Process, &Settings) -> Result<()>>(
    is_open: impl Fn(&Process) -> Result<bool>,
    make: impl FnOnce(&Settings) -> Result<A>,
) -> Result<()> {
    let mut process = process::lock();
    if is_open(&process)? {
        return Ok(());
    }
    let settings = process.introduction()?.settings.clone();
    // The thread that watches the network must learn of one descriptor more.
    let thread = process.dismiss_progress_thread();
    process.announce();
    drop(process);
    if let Some(thread) = thread {
        // The thread can only have panicked, which has been reported; nothing depends on it any more.
        let _ = thread.join();
    }
    let made = make(&settings);
    let mut process = process::lock();
    // Another thread may have opened one meanwhile, and has brought the progress thread back.
    if is_open(&process)? {
        return Ok(());
    }
    let result = made.and_then(|add| add(&mut process, &settings));
    if settings.progress_thread {
        process.allow_progress_thread();
    }
    if let Some(period) = sign_of_life(settings.peer_timeout) {
        process.give_signs_of_life(period);
    }
    result
}

impl Process {
    /// Adds `udp` as the link to processes of other jobs on other nodes.
    fn add_link(&mut self, settings: &Settings, udp: Udp) -> Result<()> {
        let (addresses, candidates) = (udp.endpoint_address(), udp.candidates().to_vec());
        let rank = self.job.as_ref().map_or(0, |job| job.rank);
        // No other carrier has this number: it tells the faults of carriers apart.
        let carrier = carriers::with_faults(settings, rank, u64::from(u32::MAX), Box::new(udp));
        let carrier = self.add_carrier(carrier)?;
        if let Some(job) = &mut self.job {
            job.introduction.link = Some(Link { carrier, candidates });
            job.introduction.card.addresses = Some(addresses);
        }
        Ok(())
    }

    /// Adds the link to processes of other jobs on this node.
    fn add_near_link(&mut self, link: SharedLink) -> Result<()> {
        let carrier = self.add_carrier(Box::new(link.clone()))?;
        if let Some(job) = &mut self.job {
            job.introduction.near = Some(NearLink { carrier, link });
        }
        Ok(())
    }

    fn add_carrier(&mut self, carrier: BoxedCarrier) -> Result<CarrierId> {
        let carrier = self.engine()?.add_carrier(carrier);
        self.learn_of_network();
        carrier.ok_or_else(|| other("this process has too many links already"))
    }

    fn introduction(&self) -> Result<&Introduction> {
        self.job.as_ref().map(|job| &job.introduction).ok_or_else(|| other("MPI is not initialised"))
    }

    /// The name of this process, and the number of processes of its job.
    pub(crate) fn own_name(&mut self) -> Result<(ProcessName, u32)> {
        let own = self.own();
        let size = self.job.as_ref().map_or(0, |job| job.size);
        let name = self.engine()?.name_of(own).ok_or_else(|| other("this process is in no job"))?;
        Ok((name, size))
    }

    /// The half of this process's job in the secret with job `other`.
    pub(crate) fn half_for(&self, other: JobId) -> Result<Half> {
        Ok(meeting::half(&self.introduction()?.secret, other))
    }

    /// Meets a job of `size` processes, unless it is known. Returns the index by which this process knows the
    /// process number 0 of that job.
    ///
    /// # Errors
    /// There are too many jobs, or too many processes for the packets.
    pub(crate) fn meet_job(&mut self, met: JobId, size: u32) -> Result<u32> {
        let engine = self.engine()?;
        if let Some(index) = engine.index_of_job(met) {
            return Ok(index);
        }
        let too_many = |_| other(format!("a job of {size} processes is too large to be met: at most {PROCESSES_MAX}"));
        engine.meet_job(met, size).map_err(too_many)
    }

    /// Makes the secret in common with a job that has been met; `half` is that job's half of it.
    ///
    /// # Errors
    /// This process is in no job.
    pub(crate) fn agree_with(&mut self, met: JobId, half: Half) -> Result<()> {
        let (own, _) = self.own_name()?;
        let secret = meeting::common((own.job, self.half_for(met)?), (met, half));
        self.engine()?.agree_with_job(met, secret);
        Ok(())
    }

    /// Returns whether a process is a peer of this one.
    pub(crate) fn knows(&mut self, name: ProcessName) -> bool {
        self.engine.as_deref().is_some_and(|engine| engine.find_process(name).is_some())
    }

    /// Forgets processes that a meeting which has failed has added, and jobs of which no process is known.
    pub(crate) fn forget_added(&mut self, added: &[PeerId]) {
        let Some(engine) = &mut self.engine else { return };
        let over: Vec<PeerId> =
            added.iter().copied().filter(|peer| engine.forget_stranger(FAREWELL_CONTEXT, *peer)).collect();
        engine.part_from_jobs();
        over.into_iter().for_each(|peer| self.forget_facts_of(peer));
    }

    /// Forgets what is known of a process of another job beside the engine.
    pub(crate) fn forget_facts_of(&mut self, peer: PeerId) {
        if let Some(job) = &mut self.job {
            job.nodes.remove(&peer);
            job.crowded.remove(&peer);
        }
    }

    /// The node of this process, the same number at all processes that can share memory; 0 if it shares none.
    pub(crate) fn near_node(&self) -> Result<u64> {
        let Introduction { settings, card, .. } = self.introduction()?;
        Ok(if settings.links.shared { card.node } else { 0 })
    }

    /// The card of this process, as text.
    pub(crate) fn own_card(&self) -> Result<String> {
        Ok(self.introduction()?.card.encode())
    }

    /// Adds a process of a job that has been met. `size` is the number of processes of both jobs.
    ///
    /// # Errors
    /// Its card makes no sense, or no link leads there, or its settings do not fit those of this process.
    pub(crate) fn add_stranger(&mut self, stranger: &Stranger<'_>, size: u32) -> Result<PeerId> {
        let name = stranger.name;
        let (own, _) = self.own_name()?;
        let card = BusinessCard::decode(name.number, &stranger.card).map_err(other)?;
        let Introduction { settings, card: own_card, link, .. } = self.introduction()?;
        if card.choices != own_card.choices {
            return Err(other(
                "the two jobs would choose algorithms of collectives in different ways: WEFT_COLLECTIVES_TABLE, WEFT_REPRODUCIBLE, \
                 WEFT_CLUSTERS, WEFT_BCAST and the other settings of that kind must be the same for both",
            ));
        }
        let delay = rails::ack_delay(settings, self.is_crowded || stranger.is_crowded);
        let route = match (&stranger.near, link) {
            (Some((place, member)), _) => {
                let to = place.near.link.reach(place.segment, *member, card.pid);
                rails::by_shared_memory(settings, (place.near.carrier, to), place.near.link.attributes())
            }
            (None, Some(link)) => rails::between_jobs((settings, delay), size, (own_card, &card), link, own < name),
            (None, None) => Route::None("no link leads to processes of other jobs there".to_owned()),
        };
        if let Route::None(reason) = &route {
            return Err(other(format!("process {} of the other job cannot be reached: {reason}", name.number)));
        }
        // Collectives share no memory between jobs, so the processes of another job count as on another node,
        // in the same way at both ends.
        let node = card.node ^ weft_net::node::hash(&name.job.0.to_le_bytes());
        let new = NewPeer {
            name,
            own_index: stranger.own_index,
            route,
            process: 0,
            host: Some(Arc::from(card.host.as_str())),
        };
        let peer = self.engine()?.add_peer(new);
        if let Some(job) = &mut self.job {
            job.nodes.insert(peer, node);
            if stranger.is_crowded {
                job.crowded.insert(peer);
            }
        }
        Ok(peer)
    }
}
