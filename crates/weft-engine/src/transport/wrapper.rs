//! Links that wrap another link: what they do not change is what the link inside does, whatever a link may do.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

use super::placement::{Begun, Exposure, Placement, RemoteMemory};
use super::{Address, Arrival, Datagrams, Outcome};
use crate::memory::UserData;

/// A link that wraps another one, such as one that injects faults or writes what passes to a file. Each method does what the link inside does, unless
/// the wrapper says otherwise: what is added to [`Datagrams`] has to be added to the one implementation below, and reaches all wrappers by that.
///
/// Code that calls the methods of a wrapper has only [`Datagrams`] in scope: both have the same names.
pub trait Wrapper {
    /// What it wraps.
    type Inner: Datagrams + ?Sized;

    /// The link inside.
    fn inner(&self) -> &Self::Inner;

    /// The link inside, to be changed.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// [`Datagrams::name`].
    #[inline]
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    /// [`Datagrams::send`].
    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        self.inner_mut().send(to, packet)
    }

    /// [`Datagrams::send_train`].
    #[inline]
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        self.inner_mut().send_train(to, train, segment)
    }

    /// [`Datagrams::train_bytes`].
    #[inline]
    fn train_bytes(&self) -> usize {
        self.inner().train_bytes()
    }

    /// [`Datagrams::receive`].
    #[inline]
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        self.inner_mut().receive(on_packet, limit)
    }

    /// [`Datagrams::receive_trains`].
    #[inline]
    fn receive_trains(&mut self, on_train: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.inner_mut().receive_trains(on_train, limit)
    }

    /// [`Datagrams::fd`].
    #[inline]
    fn fd(&self) -> RawFd {
        self.inner().fd()
    }

    /// [`Datagrams::arm`].
    #[inline]
    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    /// [`Datagrams::rejected`].
    #[inline]
    fn rejected(&self) -> u64 {
        self.inner().rejected()
    }

    /// [`Datagrams::written`].
    #[inline]
    fn written(&self) -> u64 {
        self.inner().written()
    }

    /// [`Datagrams::last_refusal`].
    #[inline]
    fn last_refusal(&self) -> Option<String> {
        self.inner().last_refusal()
    }

    /// [`Datagrams::under_way`].
    #[inline]
    fn under_way(&self, to: &Address) -> usize {
        self.inner().under_way(to)
    }

    /// [`Datagrams::take_broken`].
    #[inline]
    fn take_broken(&mut self) -> Option<Address> {
        self.inner_mut().take_broken()
    }

    /// [`Datagrams::packet_size`].
    #[inline]
    fn packet_size(&self) -> usize {
        self.inner().packet_size()
    }

    /// [`Datagrams::placement`].
    #[inline]
    fn placement(&self) -> Option<Placement> {
        self.inner().placement()
    }

    /// [`Datagrams::expose`].
    #[inline]
    fn expose(&mut self, data: &UserData, length: u64) -> Option<(Exposure, RemoteMemory)> {
        self.inner_mut().expose(data, length)
    }

    /// [`Datagrams::conceal`].
    #[inline]
    fn conceal(&mut self, exposure: Exposure) {
        self.inner_mut().conceal(exposure);
    }

    /// [`Datagrams::write`].
    #[inline]
    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.inner_mut().write(to, data, range, target, number)
    }

    /// [`Datagrams::read`].
    #[inline]
    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.inner_mut().read(to, data, range, target, number)
    }

    /// [`Datagrams::poll_placed`].
    #[inline]
    fn poll_placed(&mut self) -> Option<u64> {
        self.inner_mut().poll_placed()
    }

    /// [`Datagrams::group`].
    #[inline]
    fn group(&self, job: u64, group: u64) -> Option<Address> {
        self.inner().group(job, group)
    }

    /// [`Datagrams::group_packet_size`].
    #[inline]
    fn group_packet_size(&self) -> usize {
        self.inner().group_packet_size()
    }

    /// [`Datagrams::group_receives`].
    #[inline]
    fn group_receives(&self) -> usize {
        self.inner().group_receives()
    }

    /// [`Datagrams::join`].
    #[inline]
    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        self.inner_mut().join(group, receives)
    }

    /// [`Datagrams::leave`].
    #[inline]
    fn leave(&mut self, group: &Address) {
        self.inner_mut().leave(group);
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is left out here does not pass any wrapper")]
impl<W: Wrapper> Datagrams for W {
    #[inline]
    fn name(&self) -> &'static str {
        Wrapper::name(self)
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        Wrapper::send(self, to, packet)
    }

    #[inline]
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        Wrapper::send_train(self, to, train, segment)
    }

    #[inline]
    fn train_bytes(&self) -> usize {
        Wrapper::train_bytes(self)
    }

    #[inline]
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        Wrapper::receive(self, on_packet, limit)
    }

    #[inline]
    fn receive_trains(&mut self, on_train: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        Wrapper::receive_trains(self, on_train, limit)
    }

    #[inline]
    fn fd(&self) -> RawFd {
        Wrapper::fd(self)
    }

    #[inline]
    fn arm(&mut self) -> bool {
        Wrapper::arm(self)
    }

    #[inline]
    fn rejected(&self) -> u64 {
        Wrapper::rejected(self)
    }

    #[inline]
    fn written(&self) -> u64 {
        Wrapper::written(self)
    }

    #[inline]
    fn last_refusal(&self) -> Option<String> {
        Wrapper::last_refusal(self)
    }

    #[inline]
    fn under_way(&self, to: &Address) -> usize {
        Wrapper::under_way(self, to)
    }

    #[inline]
    fn take_broken(&mut self) -> Option<Address> {
        Wrapper::take_broken(self)
    }

    #[inline]
    fn packet_size(&self) -> usize {
        Wrapper::packet_size(self)
    }

    #[inline]
    fn placement(&self) -> Option<Placement> {
        Wrapper::placement(self)
    }

    #[inline]
    fn expose(&mut self, data: &UserData, length: u64) -> Option<(Exposure, RemoteMemory)> {
        Wrapper::expose(self, data, length)
    }

    #[inline]
    fn conceal(&mut self, exposure: Exposure) {
        Wrapper::conceal(self, exposure);
    }

    #[inline]
    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        Wrapper::write(self, to, data, range, target, number)
    }

    #[inline]
    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        Wrapper::read(self, to, data, range, target, number)
    }

    #[inline]
    fn poll_placed(&mut self) -> Option<u64> {
        Wrapper::poll_placed(self)
    }

    #[inline]
    fn group(&self, job: u64, group: u64) -> Option<Address> {
        Wrapper::group(self, job, group)
    }

    #[inline]
    fn group_packet_size(&self) -> usize {
        Wrapper::group_packet_size(self)
    }

    #[inline]
    fn group_receives(&self) -> usize {
        Wrapper::group_receives(self)
    }

    #[inline]
    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        Wrapper::join(self, group, receives)
    }

    #[inline]
    fn leave(&mut self, group: &Address) {
        Wrapper::leave(self, group);
    }
}

impl<D: Datagrams + ?Sized> Wrapper for &mut D {
    type Inner = D;

    #[inline]
    fn inner(&self) -> &D {
        self
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut D {
        self
    }
}

impl<D: Datagrams + ?Sized> Wrapper for Box<D> {
    type Inner = D;

    #[inline]
    fn inner(&self) -> &D {
        self
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut D {
        self
    }
}
