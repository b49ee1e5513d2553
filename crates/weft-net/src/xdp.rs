//! AF_XDP: frames that the interface's driver hands to this process before the kernel's network code sees
//! them.
//!
//! The link contains an [`Ethernet`] link and uses the same frames, so peers need not know of it. Everything
//! is sent through the packet socket of that link. What the XDP program lets pass arrives there too: frames
//! of another receive queue, frames that are too long for a chunk, and all frames when the program is gone.
//!
//! All processes of a job on a host share one program, one receive queue and one memory: [`group`]. Needs the
//! privileges CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN in the first of them.

mod bpf;
mod group;
mod memory;
mod program;
mod socket;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::Error;
use crate::carrier::{self, Arrival, Carrier, CarrierAttributes, Diagnostics};
use crate::ethernet::{Ethernet, frame};
pub use group::Group;
use group::{QUEUE, Refusal, Seat};
use memory::Memory;
use socket::Receiver;

/// Frames that wait for a process at most; a power of two.
pub const RING_FRAMES: u32 = 1024;
/// Memory for one frame, bytes: a power of two, at most a page.
const CHUNK: usize = 2048;
/// linux/bpf.h: what the kernel keeps free in front of a frame.
const HEADROOM: usize = 256;
/// Largest frame that fits behind it.
const FRAME_MAX: u16 = (CHUNK - HEADROOM) as u16;
/// Chunks that are given back to the kernel together, since that takes a lock.
const GIVE_BATCH: usize = 32;

/// What happened on the link, beside what its [`Ethernet`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came by AF_XDP.
    pub packets_received: u64,
    /// Frames of ours that said something else than they were.
    pub malformed: u64,
    /// Times that another process had the lock when chunks were to be given back: they are kept until the
    /// next time.
    pub contended: u64,
}

/// A seat at an interface.
pub struct Xdp {
    below: Ethernet,
    attributes: CarrierAttributes,
    receiver: Receiver,
    memory: Memory,
    /// Chunks that the kernel has not got back yet.
    spent: Vec<u64>,
    port: u16,
    is_second_best: bool,
    counters: Counters,
    /// Readable when either socket is. Before the link: what is closed last lets the program go.
    _wake: OwnedFd,
    _link: OwnedFd,
}

/// AF_XDP is not to be had; the link over the packet socket is what it was.
pub struct Refused {
    /// The link.
    pub ethernet: Box<Ethernet>,
    /// Why. None: the first process of the group says it.
    pub why: Option<Error>,
}

impl Xdp {
    /// Receives what arrives at `ethernet` by AF_XDP. All processes of the group must call it, since they
    /// wait for each other, for at most ten seconds.
    ///
    /// # Errors
    /// A privilege is missing, another program is attached, or another member of the group did not come.
    pub fn open(ethernet: Ethernet, group: &Group) -> Result<Self, Refused> {
        let address = ethernet.endpoint_address().address;
        let seat = group::join(group, ethernet.interface(), address);
        let seat = seat.and_then(|seat| {
            let both: Vec<RawFd> = ethernet.attributes().descriptor.into_iter().chain([seat.receiver.fd()]).collect();
            let wake = crate::watch::any_of(&both);
            let wake = wake.map_err(|cause| Refusal::Because(Error::system("wait for two sockets at once", cause)))?;
            Ok((seat, wake))
        });
        match seat {
            Ok((Seat { receiver, memory, link, is_second_best }, wake)) => Ok(Self {
                attributes: CarrierAttributes {
                    name: "xdp",
                    descriptor: Some(wake.as_raw_fd()),
                    ..*ethernet.attributes()
                },
                below: ethernet,
                receiver,
                memory,
                spent: Vec::with_capacity(2 * GIVE_BATCH),
                port: address.port,
                is_second_best,
                counters: Counters::default(),
                _wake: wake,
                _link: link,
            }),
            Err(refusal) => {
                let why = match refusal {
                    Refusal::Because(why) => Some(why),
                    Refusal::First => None,
                };
                Err(Refused { ethernet: Box::new(ethernet), why })
            }
        }
    }

    /// What the user should know.
    pub fn warning(&self) -> Option<String> {
        self.is_second_best.then(|| {
            format!(
                "the driver of {} takes no XDP program: the kernel's generic place for them is used, which is hardly quicker \
                 than raw frames without AF_XDP",
                self.below.interface()
            )
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The link over the packet socket.
    pub fn ethernet(&self) -> &Ethernet {
        &self.below
    }

    /// Frames for this process for which there was no room, in all.
    pub fn losses(&self) -> u64 {
        self.receiver.losses()
    }

    /// Gives chunks back, unless another process does so just now.
    fn give_back(&mut self) {
        match self.memory.try_lock() {
            Some(lock) => self.receiver.give(&mut self.spent, &lock),
            None => self.counters.contended += 1,
        }
    }
}

/// Everything but the receiving is that of the packet socket. What comes to a group is not for this host's
/// address: the program passes it, and it arrives there.
impl carrier::Wrapper for Xdp {
    type Inner = Ethernet;

    #[inline]
    fn inner(&self) -> &Ethernet {
        &self.below
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut Ethernet {
        &mut self.below
    }

    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        let Self { receiver, memory, spent, counters, port, .. } = self;
        let mut handled = 0;
        let frames = receiver.take(limit, |address, length| {
            match memory.frame(address, length).and_then(|bytes| frame::parse(bytes, *port)) {
                Some(packet) => {
                    on_arrival(Arrival::packet(packet));
                    handled += 1;
                }
                None => counters.malformed += 1,
            }
            spent.push(address & !(CHUNK as u64 - 1));
        });
        counters.packets_received += handled as u64;
        if self.spent.len() >= GIVE_BATCH {
            self.give_back();
        }
        handled + self.below.receive(on_arrival, limit - frames)
    }

    fn diagnostics(&self) -> Diagnostics {
        let below = self.below.diagnostics();
        Diagnostics { rejected: below.rejected + self.counters.malformed, ..below }
    }
}

/// What AF_XDP would find here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Receive queues of the interface.
    pub queues: u32,
    /// The one whose frames AF_XDP would receive.
    pub queue: u32,
    /// Largest packet that it would, bytes.
    pub packet_size: usize,
}

/// Tries what `ethernet` needs for AF_XDP, and attaches nothing.
///
/// # Errors
/// One sentence: which privilege or facility is missing.
pub fn outlook(ethernet: &Ethernet) -> Result<Outlook, Error> {
    let interface = ethernet.interface();
    let group = Group::alone(ethernet.endpoint_address().address.port);
    group::rehearse(&group, interface)?;
    let packet_size = ethernet.attributes().packet_size.min(usize::from(FRAME_MAX) - frame::HEADER);
    Ok(Outlook { queues: socket::queues(interface), queue: QUEUE, packet_size })
}
