//! Carriers: the same transfers between two processes without MPI, which bound the figures that any library
//! can reach.

use std::path::Path;

use super::launch::Invocation;
use super::place::{Net, PlannedPlace};

/// A program in bench/carriers.
#[derive(Debug)]
pub(crate) struct Carrier {
    /// The program's argument that names the carrier.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Says whether the carrier works within one host; otherwise it works between two.
    is_local: bool,
    /// The measurements for which the carrier has a figure.
    measurements: &'static [&'static str],
    /// The form of the server's address.
    address: Address,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Address {
    /// The carrier runs in one process, or makes its second process itself.
    None,
    Ip,
    /// The client finds the server by asking the wire.
    Any,
}

pub(crate) const CARRIERS: &[Carrier] = &[
    local("shared-memory", "shared memory", &["pingpong", "bandwidth"]),
    local("memcpy", "memcpy", &["bandwidth"]),
    local("process-vm-readv", "process_vm_readv", &["bandwidth"]),
    remote("udp", "UDP", &["pingpong", "bandwidth"], Address::Ip),
    remote("udp-offload", "UDP with segmentation offload", &["bandwidth"], Address::Ip),
    remote("packet", "AF_PACKET", &["pingpong", "bandwidth"], Address::Any),
    remote("xdp", "AF_XDP", &["pingpong", "bandwidth"], Address::Any),
];

const fn local(name: &'static str, title: &'static str, measurements: &'static [&'static str]) -> Carrier {
    Carrier { name, title, is_local: true, measurements, address: Address::None }
}

const fn remote(
    name: &'static str,
    title: &'static str,
    measurements: &'static [&'static str],
    address: Address,
) -> Carrier {
    Carrier { name, title, is_local: false, measurements, address }
}

impl Carrier {
    pub(crate) fn id(&self) -> String {
        format!("carrier-{}", self.name)
    }

    /// Returns whether the carrier is a floor under `measurement` in `place`.
    pub(crate) fn fits(&self, measurement: &str, place: &PlannedPlace) -> bool {
        let has_hosts = if self.is_local { place.hosts == 1 } else { place.has_virtual_hosts() };
        has_hosts && place.ranks >= 2 && self.measurements.contains(&measurement)
    }

    /// The command of the side that measures, and that of the side that answers it.
    pub(crate) fn invocations(
        &self,
        program: &Path,
        measurement: &str,
        net: Option<&Net>,
        options: &[String],
    ) -> (Invocation, Option<Invocation>) {
        let base = [program.display().to_string(), self.name.to_owned()];
        let mut client: Vec<String> = Vec::new();
        let mut server = None;
        if let Some(net) = net {
            let interface = ["--interface", "e0"].map(str::to_owned);
            let mut words = net.enter(1);
            words.extend(base.iter().cloned().chain(["--server".into(), "any".into()]).chain(interface.clone()));
            server = Some(Invocation { words, ..Invocation::default() });
            let address = if self.address == Address::Ip { net.addresses().swap_remove(1) } else { "any".into() };
            client = net.enter(0);
            client.extend(base.iter().cloned().chain(["--client".into(), address]).chain(interface));
        } else {
            client.extend(base);
        }
        client.extend(["--only".to_owned(), measurement.to_owned()].into_iter().chain(options.iter().cloned()));
        (Invocation { words: client, ..Invocation::default() }, server)
    }
}
