//! Experiments: each joins measurements, the settings of libraries, and places.

use weft_mpi::settings::{ACK, ACK_DELAY, BCAST, FABRIC_PROVIDER, LINK, LINKS};

use crate::measure::kind::Kind;
use crate::measure::library::Spec;

/// The range of the experiment with acknowledgements, in bytes, and the number of its sizes.
const ACK_SIZES: (u64, u64, u32) = (10_000, 4_000_000, 40);
/// Numbers of packets after which something happens to a stream: 64 is the receiver's bound in the middle of
/// data, 128 the longest train, 512 and 1024 half a window and a whole one. Sizes of one packet less and one
/// more are measured too.
const TURNING_POINTS: [u64; 4] = [64, 128, 512, 1024];
/// The payload of a packet of bulk data on Ethernet: 1472 bytes of UDP less 44 of ours.
const PACKET_BYTES: u64 = 1428;
/// The time for which the usNIC experiment deferred its acknowledgements, microseconds.
const LONG_DELAY_US: u32 = 5000;

/// The link that uses libfabric instead of a carrier of our own.
const FABRIC: &str = "fabric";

/// Measurements, settings and places that belong together.
pub(super) struct Experiment {
    pub(super) name: &'static str,
    pub(super) measurements: Vec<String>,
    pub(super) hosts: Vec<u32>,
    /// The libraries; the others are compared with the first.
    pub(super) libraries: Vec<Spec>,
    /// The sizes, if they are not each program's own.
    pub(super) sizes: Option<String>,
    pub(super) carriers: bool,
}

/// The experiment of that name.
pub(super) fn find(name: &str) -> Option<Experiment> {
    match name {
        "ack" => Some(ack()),
        "carriers" => Some(carriers()),
        "fabric" => Some(fabric()),
        "multicast" => Some(multicast("multicast", &["bcast", "bcast_throughput"])),
        "multicast-skew" => Some(multicast("multicast-skew", &["bcast_skew"])),
        _ => None,
    }
}

fn weft(environment: &[(&str, &str)], within_host: Option<bool>) -> Spec {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Spec { environment, within_host, ..Spec::plain(Kind::Weft) }
}

/// Sendrecv between two hosts under each scheme of acknowledgements. The deferred and the immediate scheme
/// run also with a long delay, as in J. Squyres' experiment with usNIC, where the end of a message waited for
/// a deferred acknowledgement.
fn ack() -> Experiment {
    let long = LONG_DELAY_US.to_string();
    let scheme = |name| weft(&[(ACK.name, name)], None);
    let with_long_delay = |name| weft(&[(ACK.name, name), (ACK_DELAY.name, &long)], None);
    Experiment {
        name: "ack",
        measurements: vec!["sendrecv".to_owned()],
        hosts: vec![2],
        libraries: vec![
            scheme("immediate"),
            scheme("deferred"),
            scheme("every-packet"),
            with_long_delay("deferred"),
            with_long_delay("immediate"),
        ],
        sizes: Some(list(&dense_sizes())),
        carriers: false,
    }
}

/// Weft over each of its own links beside the same link without MPI.
fn carriers() -> Experiment {
    let over = |(link, _): &(&str, &str)| weft(&[(LINK.name, *link)], Some(*link == "shared"));
    let measurements = ["pingpong", "sendrecv", "bandwidth"].map(str::to_owned).to_vec();
    let libraries = LINKS.iter().filter(|(link, _)| *link != FABRIC).map(over).collect();
    Experiment { name: "carriers", measurements, hosts: vec![1, 2], libraries, sizes: None, carriers: true }
}

/// Weft over its own links beside libfabric's datagrams and its reliable messages over TCP: PingPong and
/// Sendrecv between two hosts, the comparison of J. Squyres' article on the usNIC transport over libfabric.
/// AF_XDP takes part where the process has the privilege.
fn fabric() -> Experiment {
    let over = |provider| weft(&[(LINK.name, FABRIC), (FABRIC_PROVIDER.name, provider)], Some(false));
    let own = |link| weft(&[(LINK.name, link)], Some(false));
    Experiment {
        name: "fabric",
        measurements: ["pingpong", "sendrecv", "bandwidth", "rate"].map(str::to_owned).to_vec(),
        hosts: vec![2],
        libraries: vec![own("udp"), own("ethernet,udp"), own("xdp,udp"), over("udp"), over("tcp")],
        sizes: None,
        carriers: false,
    }
}

/// Broadcasts between eight hosts down trees and by each scheme of multicast, as in the paper of Liu,
/// Mamidala and Panda.
fn multicast(name: &'static str, measurements: &[&str]) -> Experiment {
    // The first way is the one that the table chooses where there is no multicast.
    const WAYS: [&str; 8] =
        ["tree", "binomial", "basic", "window", "coroot-2", "aggregate-10", "coroot-2+aggregate-10", "auto"];
    let by = |way| weft(&[(BCAST.name, way)], Some(false));
    Experiment {
        name,
        measurements: measurements.iter().map(|name| (*name).to_owned()).collect(),
        hosts: vec![8],
        libraries: WAYS.map(by).to_vec(),
        sizes: None,
        carriers: false,
    }
}

/// Sizes at equal distances on a logarithmic axis, and those around the turning points; ascending, each once.
fn dense_sizes() -> Vec<u64> {
    let (from, to, count) = ACK_SIZES;
    let step = (to as f64 / from as f64).ln() / f64::from(count - 1);
    let even = (0..count).map(|i| (from as f64 * (step * f64::from(i)).exp()).round() as u64);
    let around = TURNING_POINTS.iter().flat_map(|packets| [(packets - 1) * PACKET_BYTES, (packets + 1) * PACKET_BYTES]);
    let mut sizes: Vec<u64> = even.chain(around).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn list(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::catalogue;

    #[test]
    fn sizes_lie_close_and_in_order() {
        let sizes = dense_sizes();
        assert_eq!((sizes[0], sizes[sizes.len() - 1], sizes.len()), (10_000, 4_000_000, 48));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1] && pair[1] * 100 < pair[0] * 118), "{sizes:?}");
    }

    #[test]
    fn every_experiment_is_made_of_what_there_is() {
        for name in ["ack", "carriers", "fabric", "multicast", "multicast-skew"] {
            let experiment = find(name).unwrap();
            assert_eq!(experiment.name, name);
            assert!(experiment.measurements.iter().all(|measurement| catalogue::find(measurement).is_ok()));
            assert!(catalogue::find(name).is_err(), "a measurement has the name of the experiment {name}");
        }
        assert_eq!(carriers().libraries.len(), LINKS.len() - 1, "fabric has an experiment of its own");
    }
}
