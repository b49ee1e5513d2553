//! The ports that this process has open, at which processes of other jobs can come (MPI-5.0 §11.9.2).

use std::sync::Arc;

use weft_net::port::Port;

/// The open ports.
#[derive(Default)]
pub(crate) struct Ports(Vec<Arc<Port>>);

impl Ports {
    /// No ports.
    pub(crate) const NONE: Self = Self(Vec::new());

    /// Adds a port.
    pub(crate) fn add(&mut self, port: Port) {
        self.0.push(Arc::new(port));
    }

    /// The port with this name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Port>> {
        self.0.iter().find(|port| port.name() == name).cloned()
    }

    /// Closes the port with this name; returns false when none has it.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        let Some(at) = self.0.iter().position(|port| port.name() == name) else { return false };
        self.0.swap_remove(at).close();
        true
    }

    /// Closes all ports.
    pub(crate) fn close_all(&mut self) {
        self.0.drain(..).for_each(|port| port.close());
    }
}
