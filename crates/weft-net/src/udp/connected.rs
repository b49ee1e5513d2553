//! Connected UDP sockets for the peers with the most traffic.
//!
//! For each packet of the shared socket the kernel looks up the route, at its sender and once more at its
//! receiver; a connected socket remembers it. All sockets are bound to the port that peers know. The kernel
//! gives a packet to the socket whose addresses fit, and everything else to the shared one, so peers notice
//! no difference, and a process with many peers has few sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use super::socket;

/// Sockets beside the shared one at most: each is one more to look at.
const CONNECTED_MAX: usize = 4;
/// Peers without a socket of their own whose packets are counted.
const CONTENDERS_MAX: usize = 8;
/// Packets to a peer, beyond its share if all were alike, after which it gets a socket.
const VOTES: u32 = 64;
/// Looks at the shared socket after a change: what it got from the peer before must be taken first, or it
/// would seem overtaken.
const LOOKS_AFTER_CHANGE: u32 = 1024;
/// While only one socket brings anything, the others are looked at once in so many passes …
const OTHERS_EVERY: u32 = 4;
/// … after so many looks at them in vain.
const QUIET_LOOKS: u32 = 64;

/// A socket for one peer.
struct Line {
    socket: UdpSocket,
    to: SocketAddr,
    /// Packets and trains sent, halved with each peer that wants it.
    sent: u32,
}

/// Which socket: `None` is the shared one.
pub(super) type SocketIndex = Option<usize>;

/// The connected sockets, and where to look next.
#[derive(Default)]
pub(super) struct Connected {
    lines: Vec<Line>,
    /// Frequent peers without one (Misra and Gries 1982: what is not among them is no ninth of all).
    contenders: Vec<(SocketAddr, u32)>,
    /// The machine gives no more sockets.
    refused: bool,
    /// Where something was found last.
    hot: SocketIndex,
    turn: u32,
    /// Looks in vain elsewhere since something was found there.
    quiet: u32,
    looks_after_change: u32,
}

impl Connected {
    /// The socket for a peer.
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

    /// A packet for a peer without a socket of its own; whether it should get one.
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

    /// Gives `peer` a socket, or that of one that is hardly talked to any more. `prepare` sets the options of
    /// a new one.
    pub(super) fn connect(
        &mut self,
        shared: &UdpSocket,
        peer: &SocketAddr,
        prepare: impl FnOnce(&UdpSocket) -> io::Result<()>,
    ) -> io::Result<()> {
        self.contenders.retain(|(known, _)| known != peer);
        // Where the machine refuses, what has arrived at a socket meanwhile is lost like any packet.
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

    /// No more sockets for anybody: the machine refuses.
    pub(super) fn give_up(&mut self) {
        (self.refused, self.contenders, self.hot) = (true, Vec::new(), None);
    }

    /// Where to look, in this order: where something was found last, and elsewhere in turn.
    #[inline]
    pub(super) fn where_to_look(&mut self) -> [Option<SocketIndex>; 2] {
        if self.lines.is_empty() || self.looks_after_change > 0 {
            return [Some(None), None];
        }
        self.turn = self.turn.wrapping_add(1);
        if self.quiet >= QUIET_LOOKS && !self.turn.is_multiple_of(OTHERS_EVERY) {
            return [Some(self.hot), None];
        }
        // All but the hot one in turn; 0 is the shared one.
        let (hot, each) =
            (self.hot.map_or(0, |index| index + 1), if self.quiet >= QUIET_LOOKS { OTHERS_EVERY } else { 2 });
        let nth = (self.turn / each) as usize % self.lines.len();
        let other = (nth + usize::from(nth >= hot)).checked_sub(1);
        // Where there is always something, others come first now and then.
        if self.turn.is_multiple_of(2) { [Some(other), Some(self.hot)] } else { [Some(self.hot), Some(other)] }
    }

    /// What a look brought.
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
