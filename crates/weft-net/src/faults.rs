//! A datagram link that damages what it carries, from a seed.
use crate::Error;
use crate::datagrams::{Datagrams, Outcome};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Probabilities of faults (`WEFT_FAULTS`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// Share of packets lost, 0–1.
    pub drop: f64,
    /// Share sent twice.
    pub duplicate: f64,
    /// Share that leaves after later ones.
    pub reorder: f64,
    /// Share with one damaged byte.
    pub corrupt: f64,
    /// Where the random numbers begin.
    pub seed: u64,
}
impl Plan {
    /// Parses "drop=5%,duplicate=1%,reorder=1%,corrupt=0.1%,seed=7".
    pub fn parse(_text: &str) -> Result<Self, Error> {
        todo!()
    }
    /// Nothing to do?
    pub fn is_clean(&self) -> bool {
        todo!()
    }
}

/// How many packets met which fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Lost.
    pub dropped: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Delayed behind later ones.
    pub reordered: u64,
    /// Damaged.
    pub corrupted: u64,
}

/// A link with faults.
pub struct Faults<D> {
    inner: D,
}
impl<D: Datagrams> Faults<D> {
    /// Wraps.
    pub fn new(_inner: D, _plan: Plan) -> Self {
        todo!()
    }
    /// The link inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }
    /// Counters.
    pub fn counters(&self) -> &Counters {
        todo!()
    }
}
impl<D: Datagrams> Datagrams for Faults<D> {
    fn send(&mut self, _to: &SocketAddr, _packet: &[u8]) -> io::Result<Outcome> {
        todo!()
    }
    fn receive(&mut self, _on_packet: &mut dyn FnMut(&[u8]), _limit: usize) -> usize {
        todo!()
    }
    fn fd(&self) -> RawFd {
        todo!()
    }
    fn packet_size(&self) -> usize {
        todo!()
    }
}
