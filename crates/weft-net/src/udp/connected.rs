//! Connected UDP sockets for the peers with the most traffic.
//!
//! For each packet of the shared socket the kernel looks up the route, at the sender and again at the
//! receiver. A connected socket remembers the route. All sockets are bound to the port that peers know. The
//! kernel gives a packet to the socket whose addresses fit, and every other packet to the shared socket. So
//! peers notice no difference, and a process with many peers has few sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use super::socket;

/// Most sockets beside the shared one: each is another one to look at.
const CONNECTED_MAX: usize = 4;
/// Most peers without a socket of their own whose packets are counted.
const CONTENDERS_MAX: usize = 8;
/// Packets to a peer, beyond its share if all peers were alike, after which the peer gets a socket.
const VOTES: u32 = 64;
/// Looks at the shared socket after a change. Packets that it got from the peer before must be taken first,
/// or they would seem overtaken.
const LOOKS_AFTER_CHANGE: u32 = 1024;
/// While a single socket brings all datagrams, the others are looked at once in so many passes.
const OTHERS_EVERY: u32 = 4;
/// Looks in vain at the other sockets after which they are looked at less often.
const QUIET_LOOKS: u32 = 64;

/// A socket for one peer.
struct Line {
    socket: UdpSocket,
    to: SocketAddr,
    /// Packets and trains that were sent, halved each time that another peer gets a socket.
    sent: u32,
}

/// Index of a socket; `None` is the shared one.
pub(super) type SocketIndex = Option<usize>;

/// The connected sockets, and where to look next.
#[derive(Default)]
pub(super) struct Connected {
    lines: Vec<Line>,
    /// Frequent peers without a socket (Misra and Gries 1982: a peer that is not among them has less than a
    /// ninth of all packets).
    contenders: Vec<(SocketAddr, u32)>,
    /// True if the machine gives no more sockets.
    refused: bool,
    /// The socket where a datagram was found last.
    hot: SocketIndex,
    turn: u32,
    /// Looks in vain at other sockets since a datagram was found there.
    quiet: u32,
    looks_after_change: u32,
}

impl Connected {
    /// Returns the socket of a peer; `None` for the shared one.
    #[inline]
    pub(super) fn to(&mut self, peer: &SocketAddr) -> SocketIndex {
        let index = self.lines.iter().position(|line| line.to == *peer)?;
        let sent = &mut self.lines[index].sent;
        *sent = sent.saturating_add(1);
        Some(index)
    }

    #[cfg(test)]
    pub(super) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.lines.iter().map(|line| &line.socket)
    }

    #[inline]
    pub(super) fn socket(&self, index: usize) -> &UdpSocket {
        &self.lines[index].socket
    }

    /// Counts a packet for a peer without a socket of its own, and returns whether the peer should get one.
    #[inline]
    pub(super) fn vote(&mut self, peer: &SocketAddr) -> bool {
        if self.refused {
            return false;
        }
        if let Some((_, votes)) = self.contenders.iter_mut().find(|(known, _)| known == peer) {
            *votes += 1;
            return *votes >= VOTES;
        }
        if self.contenders.len() < CONTENDERS_MAX {
            self.contenders.push((*peer, 1));
            return false;
        }
        self.contenders.retain_mut(|(_, votes)| {
            *votes -= 1;
            *votes > 0
        });
        false
    }

    /// Gives `peer` a socket: a new one, or that of a peer with hardly any traffic left. `prepare` sets the
    /// options of a new one.
    pub(super) fn connect(
        &mut self,
        shared: &UdpSocket,
        peer: &SocketAddr,
        prepare: impl FnOnce(&UdpSocket) -> io::Result<()>,
    ) -> io::Result<()> {
        self.contenders.retain(|(known, _)| known != peer);
        // Where the machine refuses, datagrams that have arrived at a socket meanwhile are lost like any
        // packet.
        if self.lines.len() < CONNECTED_MAX {
            let socket = socket::beside(shared)?;
            prepare(&socket)?;
            socket::connect(&socket, peer)?;
            self.lines.push(Line { socket, to: *peer, sent: 2 * VOTES });
        } else if let Some(least) = (0..self.lines.len()).min_by_key(|line| self.lines[*line].sent)
            && self.lines[least].sent < VOTES
        {
            let line = self.lines.swap_remove(least);
            socket::connect(&line.socket, peer)?;
            self.lines.push(Line { to: *peer, sent: 2 * VOTES, ..line });
        }
        self.lines.iter_mut().for_each(|line| line.sent /= 2);
        (self.hot, self.looks_after_change) = (None, LOOKS_AFTER_CHANGE);
        Ok(())
    }

    /// Stops making sockets, because the machine refuses.
    pub(super) fn give_up(&mut self) {
        (self.refused, self.contenders, self.hot) = (true, Vec::new(), None);
    }

    /// Returns the sockets to look at, in this order: the one where a datagram was found last, and the others
    /// in turn.
    #[inline]
    pub(super) fn where_to_look(&mut self) -> [Option<SocketIndex>; 2] {
        if self.lines.is_empty() || self.looks_after_change > 0 {
            return [Some(None), None];
        }
        self.turn = self.turn.wrapping_add(1);
        if self.quiet >= QUIET_LOOKS && !self.turn.is_multiple_of(OTHERS_EVERY) {
            return [Some(self.hot), None];
        }
        // All sockets but the hot one in turn; 0 is the shared one.
        let (hot, each) =
            (self.hot.map_or(0, |index| index + 1), if self.quiet >= QUIET_LOOKS { OTHERS_EVERY } else { 2 });
        let nth = (self.turn / each) as usize % self.lines.len();
        let other = (nth + usize::from(nth >= hot)).checked_sub(1);
        // When the hot socket always has a datagram, others come first now and then.
        if self.turn.is_multiple_of(2) { [Some(other), Some(self.hot)] } else { [Some(self.hot), Some(other)] }
    }

    /// Notes whether a look found a datagram.
    #[inline]
    pub(super) fn looked(&mut self, index: SocketIndex, found: bool) {
        self.looks_after_change = if found { self.looks_after_change.saturating_sub(1) } else { 0 };
        match (index == self.hot, found) {
            (true, _) => {}
            (false, true) => (self.hot, self.quiet) = (index, 0),
            (false, false) => self.quiet = self.quiet.saturating_add(1),
        }
    }
}
