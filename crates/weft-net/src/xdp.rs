//! AF_XDP: frames that the interface's driver hands to this process before the kernel's network code sees
//! them.
//!
//! The link contains an [`Ethernet`] link and uses the same frames, so peers need not know of it. All packets
//! leave through the packet socket of that link. Some frames also arrive at that socket, because the XDP
//! program passes them: frames of another receive queue, frames that are too long for a chunk, and all frames
//! when the program is gone.
//!
//! All processes of a job on a host share one program, one receive queue and one memory: a [`Group`]. The
//! first process needs the privileges CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN.

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

/// Most frames that wait for a process; a power of two.
pub const RING_FRAMES: u32 = 1024;
/// Bytes of memory for a frame: a power of two, at most a page.
const CHUNK: usize = 2048;
/// Bytes that the kernel keeps free in front of a frame (linux/bpf.h).
const HEADROOM: usize = 256;
/// Longest frame that fits behind the headroom.
const FRAME_MAX: u16 = (CHUNK - HEADROOM) as u16;
/// Chunks that are given back to the kernel together, since that takes a lock.
const GIVE_BATCH: usize = 32;

/// Counters of the link's events, beside those of its [`Ethernet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came by AF_XDP.
    pub packets_received: u64,
    /// Frames of Weft whose header was wrong.
    pub malformed: u64,
    /// Times that another process had the lock when chunks were to be given back: the chunks are kept until
    /// the next time.
    pub contended: u64,
}

/// The AF_XDP link of this process at an interface: its seat in the group.
pub struct Xdp {
    below: Ethernet,
    attributes: CarrierAttributes,
    receiver: Receiver,
    memory: Memory,
    /// Chunks that this process has not given back to the kernel yet.
    spent: Vec<u64>,
    port: u16,
    is_second_best: bool,
    counters: Counters,
    /// Descriptor that is readable when either socket is. It is dropped before the link: the last one closed
    /// lets the program go.
    _wake: OwnedFd,
    _link: OwnedFd,
}

/// The result when AF_XDP cannot be used; the link over the packet socket is as before.
pub struct Refused {
    /// The link over the packet socket.
    pub ethernet: Box<Ethernet>,
    /// The reason. None when the first process of the group gives it.
    pub why: Option<Error>,
}

impl Xdp {
    /// Receives frames for `ethernet` by AF_XDP. All processes of the group must call this, because they wait
    /// for each other, for at most ten seconds.
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

    /// Returns a warning that the user should read, if there is one.
    pub fn warning(&self) -> Option<String> {
        self.is_second_best.then(|| {
            format!(
                "the driver of {} takes no XDP program: the kernel's generic place for them is used, which is hardly quicker \
                 than raw frames without AF_XDP",
                self.below.interface()
            )
        })
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the link over the packet socket.
    pub fn ethernet(&self) -> &Ethernet {
        &self.below
    }

    /// Returns how many frames for this process found no room, in all.
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

/// The packet socket does everything but receive. The program passes a frame to a group, because it is not
/// for this host's address, and the frame arrives at the packet socket.
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

/// The use that AF_XDP would have on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Receive queues of the interface.
    pub queues: u32,
    /// The receive queue whose frames AF_XDP would receive.
    pub queue: u32,
    /// Longest packet that AF_XDP would receive, in bytes.
    pub packet_size: usize,
}

/// Tries what `ethernet` needs for AF_XDP, and attaches nothing.
///
/// # Errors
/// A sentence that names the missing privilege or facility.
pub fn outlook(ethernet: &Ethernet) -> Result<Outlook, Error> {
    let interface = ethernet.interface();
    let group = Group::alone(ethernet.endpoint_address().address.port);
    group::rehearse(&group, interface)?;
    let packet_size = ethernet.attributes().packet_size.min(usize::from(FRAME_MAX) - frame::HEADER);
    Ok(Outlook { queues: socket::queues(interface), queue: QUEUE, packet_size })
}
