//! Lets this process know processes of other jobs: opens a link to them, writes what this process tells of
//! itself, and adds those that have told the same. `crate::processes` carries the words.

use std::sync::Arc;

use weft_core::meeting::{self, Half};
use weft_core::process::{JobId, ProcessName};
use weft_engine::group::PeerId;
use weft_net::udp::{self, Udp};

use super::join::sign_of_life;
use super::{carriers, other, rails};
use crate::business_card::BusinessCard;
use crate::engine::{NewPeer, Route};
use crate::error::Result;
use crate::job::{Introduction, Link};
use crate::process::{self, Process};
use crate::settings::Settings;

/// The most processes of a job: packets carry their indices in 24 bits.
const PROCESSES_MAX: u32 = 1 << 24;

/// A process of another job, and what it has told this one.
pub(crate) struct Stranger {
    pub(crate) name: ProcessName,
    /// The index by which it knows this process.
    pub(crate) own_index: u32,
    /// Its card as text.
    pub(crate) card: String,
    /// It takes turns with others on its processors.
    pub(crate) is_crowded: bool,
}

/// Opens the link to processes of other jobs, where there is none. Between jobs, messages take UDP, with raw
/// frames beside it where both ends have them.
///
/// # Errors
/// No interface, or no socket.
pub(crate) fn open_link() -> Result<()> {
    let mut process = process::lock();
    let Some(job) = &process.job else { return Err(other("MPI is not initialised")) };
    if job.introduction.link.is_some() {
        return Ok(());
    }
    let (rank, settings) = (job.rank, job.introduction.settings.clone());
    // The thread that watches the network must learn of one descriptor more.
    let thread = process.dismiss_progress_thread();
    process.announce();
    drop(process);
    if let Some(thread) = thread {
        // The thread can only have panicked, which has been reported; nothing depends on it any more.
        let _ = thread.join();
    }
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    let opened = Udp::bind(&wanted).map_err(|error| other(error.to_string()));
    let mut process = process::lock();
    // Another thread may have opened one meanwhile, and has brought the progress thread back.
    if process.job.as_ref().is_some_and(|job| job.introduction.link.is_some()) {
        return Ok(());
    }
    let result = opened.and_then(|udp| process.add_link(&settings, rank, udp));
    if settings.progress_thread {
        process.allow_progress_thread();
    }
    if let Some(period) = sign_of_life(settings.peer_timeout) {
        process.give_signs_of_life(period);
    }
    result
}

impl Process {
    /// Adds `udp` as the link to processes of other jobs.
    fn add_link(&mut self, settings: &Settings, rank: u32, udp: Udp) -> Result<()> {
        let (addresses, candidates) = (udp.endpoint_address(), udp.candidates().to_vec());
        // No other carrier has this number: it tells the faults of carriers apart.
        let carrier = carriers::with_faults(settings, rank, u64::from(u32::MAX), Box::new(udp));
        let carrier = self.engine()?.add_carrier(carrier);
        let carrier = carrier.ok_or_else(|| other("this process has too many links already"))?;
        if let Some(job) = &mut self.job {
            job.introduction.link = Some(Link { carrier, candidates });
            job.introduction.card.addresses = Some(addresses);
        }
        self.learn_of_network();
        Ok(())
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

    /// Meets a job of `size` processes, unless it is known; `half` is that job's half of the common secret.
    /// Returns the index by which this process knows the process number 0 of that job.
    ///
    /// # Errors
    /// There are too many jobs, or too many processes for the packets.
    pub(crate) fn meet_job(&mut self, met: JobId, size: u32, half: Half) -> Result<u32> {
        let (own, _) = self.own_name()?;
        let own_half = self.half_for(met)?;
        let engine = self.engine()?;
        if let Some(index) = engine.index_of_job(met) {
            return Ok(index);
        }
        let secret = meeting::common((own.job, own_half), (met, half));
        let too_many = |_| other(format!("a job of {size} processes is too large to be met: at most {PROCESSES_MAX}"));
        engine.meet_job(met, size, secret).map_err(too_many)
    }

    /// The card of this process, as text.
    pub(crate) fn own_card(&self) -> Result<String> {
        Ok(self.introduction()?.card.encode())
    }

    /// Adds a process of a job that has been met, unless it is known. `size` is the number of processes of
    /// both jobs.
    ///
    /// # Errors
    /// Its card makes no sense, or no link leads there, or its settings do not fit those of this process.
    pub(crate) fn add_stranger(&mut self, stranger: &Stranger, size: u32) -> Result<PeerId> {
        let name = stranger.name;
        if let Some(known) = self.engine()?.find_process(name) {
            return Ok(known);
        }
        let (own, _) = self.own_name()?;
        let card = BusinessCard::decode(name.number, &stranger.card).map_err(other)?;
        let Introduction { settings, card: own_card, link, .. } = self.introduction()?;
        let link = link.as_ref().ok_or_else(|| other("there is no link to other jobs"))?;
        if card.choices != own_card.choices {
            return Err(other(
                "the two jobs would choose algorithms of collectives in different ways: WEFT_COLLECTIVES_TABLE, WEFT_REPRODUCIBLE, \
                 WEFT_CLUSTERS, WEFT_BCAST and the other settings of that kind must be the same for both",
            ));
        }
        let delay = rails::ack_delay(settings, self.is_crowded || stranger.is_crowded);
        let route = rails::between_jobs((settings, delay), size, (own_card, &card), link, own < name);
        if let Route::None(reason) = &route {
            return Err(other(format!("process {} of the other job cannot be reached: {reason}", name.number)));
        }
        // Memory is not shared between jobs, so the processes of another job count as on another node, in the
        // same way at both ends.
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
