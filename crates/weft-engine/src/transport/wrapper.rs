//! Carriers that wrap another carrier. A method that the wrapper does not change does the same as the inner
//! carrier's.

use std::io;

use weft_core::flow::LongPath;

use super::{Address, Arrival, Carrier, CarrierAttributes, Diagnostics, Multicast, Outcome, RemoteMemoryAccess};

/// A carrier that wraps another one, such as one that injects faults or writes the packets that pass to a
/// file.
///
/// Each method does what the inner carrier does, unless the wrapper defines it anew. A new method of
/// [`Carrier`] has to be added to the one implementation below, and reaches all wrappers by that.
///
/// Code that calls the methods of a wrapper has only [`Carrier`] in scope: both have the same names.
pub trait Wrapper {
    /// The kind of carrier inside.
    type Inner: Carrier + ?Sized;

    /// The carrier inside.
    fn inner(&self) -> &Self::Inner;

    /// The carrier inside, to be changed.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// [`Carrier::attributes`].
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        self.inner().attributes()
    }

    /// [`Carrier::send`].
    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        self.inner_mut().send(to, packet)
    }

    /// [`Carrier::send_train`].
    #[inline]
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        self.inner_mut().send_train(to, train, segment)
    }

    /// [`Carrier::receive`].
    #[inline]
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.inner_mut().receive(on_arrival, limit)
    }

    /// [`Carrier::prepare_sleep`].
    #[inline]
    fn prepare_sleep(&mut self) -> bool {
        self.inner_mut().prepare_sleep()
    }

    /// [`Carrier::diagnostics`].
    fn diagnostics(&self) -> Diagnostics {
        self.inner().diagnostics()
    }

    /// [`Carrier::under_way`].
    #[inline]
    fn under_way(&self, to: &Address) -> usize {
        self.inner().under_way(to)
    }

    /// [`Carrier::take_broken`].
    #[inline]
    fn take_broken(&mut self) -> Option<Address> {
        self.inner_mut().take_broken()
    }

    /// [`Carrier::long_path`].
    fn long_path(&mut self, to: &Address) -> LongPath {
        self.inner_mut().long_path(to)
    }

    /// [`Carrier::let_go`].
    fn let_go(&mut self, to: &Address) {
        self.inner_mut().let_go(to);
    }

    /// [`Carrier::rma`].
    #[inline]
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        self.inner_mut().rma()
    }

    /// [`Carrier::multicast`].
    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        self.inner_mut().multicast()
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is left out here does not pass any wrapper")]
impl<W: Wrapper> Carrier for W {
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        Wrapper::attributes(self)
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
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        Wrapper::receive(self, on_arrival, limit)
    }

    #[inline]
    fn prepare_sleep(&mut self) -> bool {
        Wrapper::prepare_sleep(self)
    }

    fn diagnostics(&self) -> Diagnostics {
        Wrapper::diagnostics(self)
    }

    #[inline]
    fn under_way(&self, to: &Address) -> usize {
        Wrapper::under_way(self, to)
    }

    #[inline]
    fn take_broken(&mut self) -> Option<Address> {
        Wrapper::take_broken(self)
    }

    fn long_path(&mut self, to: &Address) -> LongPath {
        Wrapper::long_path(self, to)
    }

    fn let_go(&mut self, to: &Address) {
        Wrapper::let_go(self, to);
    }

    #[inline]
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        Wrapper::rma(self)
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        Wrapper::multicast(self)
    }
}

impl<D: Carrier + ?Sized> Wrapper for &mut D {
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

impl<D: Carrier + ?Sized> Wrapper for Box<D> {
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
