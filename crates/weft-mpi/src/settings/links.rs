//! `WEFT_LINK`: the links that a run may use, as the user names them.

use super::table::LINK;

/// Links that a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Shared memory, between ranks of one node.
    pub shared: bool,
    /// UDP.
    pub udp: bool,
    /// Raw frames.
    pub ethernet: bool,
    /// Raw frames, received by AF_XDP where that is possible.
    pub xdp: bool,
    /// libfabric, in the place of UDP.
    pub fabric: bool,
    /// An RDMA device by rdma-core, in the place of UDP.
    pub verbs: bool,
    /// Kernel TCP: beside UDP for large messages, or in its place.
    pub tcp: bool,
    /// The user has named the links, so they are not chosen by what is possible.
    pub named: bool,
}

impl Links {
    pub(super) const NONE: Self = Self {
        shared: false,
        udp: false,
        ethernet: false,
        xdp: false,
        fabric: false,
        verbs: false,
        tcp: false,
        named: false,
    };
    pub(super) const AUTO: Self = Self { shared: true, udp: true, ethernet: true, tcp: true, ..Self::NONE };

    /// The names of the links that are named and carry bulk data in the place of UDP.
    pub fn in_place_of_udp(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [(self.fabric, "fabric"), (self.verbs, "verbs"), (self.tcp && !self.udp, "tcp")];
        all.into_iter().filter_map(|(is_named, name)| is_named.then_some(name))
    }
}

/// Every link of this version: its name in `WEFT_LINK`, and a description.
pub const LINKS: [(&str, &str); 7] = [
    ("shared", "rings in shared memory, between ranks of one host"),
    ("udp", "UDP over IPv4 or IPv6, between hosts"),
    ("ethernet", "frames on the interface itself (AF_PACKET), between hosts of one segment"),
    ("xdp", "the same frames, received before the host's network sees them (AF_XDP)"),
    ("fabric", "endpoints of libfabric, over whatever its provider leads to, between hosts"),
    ("verbs", "an RDMA device (InfiniBand, RoCE or iWARP) by rdma-core, between hosts"),
    ("tcp", "kernel TCP, between hosts, also where nothing else passes"),
];

pub(super) fn links(value: &str) -> Result<Links, String> {
    let mut links = Links { named: true, ..Links::NONE };
    let mut names_tcp = false;
    for name in value.split(',').map(str::trim) {
        match name {
            "auto" => {
                let Links { xdp, fabric, verbs, .. } = links;
                links = Links { xdp, fabric, verbs, ..Links::AUTO };
            }
            "shared" => links.shared = true,
            "udp" => links.udp = true,
            "ethernet" => links.ethernet = true,
            // Without AF_XDP the frames are still the same.
            "xdp" => links = Links { ethernet: true, xdp: true, ..links },
            "fabric" => links.fabric = true,
            "verbs" => links.verbs = true,
            "tcp" => (links.tcp, names_tcp) = (true, true),
            _ => return Err(LINK.says(value, &format!("names the link '{name}', which Weft does not have"))),
        }
    }
    let has_udp = links.udp;
    let others = [(links.fabric, "fabric"), (links.verbs, "verbs"), (names_tcp, "tcp")];
    let named: Vec<&str> = others.into_iter().filter_map(|(is_named, name)| is_named.then_some(name)).collect();
    if let [one, other, ..] = named[..] {
        let both = format!("names {one} and {other}, which are both in the place of UDP: one of them");
        return Err(LINK.says(value, &both));
    }
    // TCP is beside UDP, and the others are in the place of both.
    let has_other = links.fabric || links.verbs;
    (links.udp, links.tcp) = (has_udp && !has_other, links.tcp && !has_other);
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_link_may_take_the_place_of_udp() {
        let links = |value: &str| links(value).unwrap();
        assert_eq!(links("shared,verbs"), Links { shared: true, verbs: true, named: true, ..Links::NONE });
        let verbs = Links { shared: true, ethernet: true, verbs: true, ..Links::NONE };
        assert_eq!((links("auto,verbs"), links("verbs,auto")), (verbs, verbs));
        assert_eq!(links("tcp,shared").in_place_of_udp().collect::<Vec<_>>(), ["tcp"]);
        assert_eq!(links("tcp,auto"), Links::AUTO);
        assert!(links("tcp,udp").udp && links("tcp,udp").in_place_of_udp().next().is_none());
        for two in ["shared,verbs,fabric", "tcp,verbs", "fabric,auto,tcp"] {
            assert!(super::links(two).is_err(), "{two}");
        }
    }

    #[test]
    fn every_link_has_a_name_that_is_understood() {
        for (name, _) in LINKS {
            assert!(links(name).is_ok(), "{name}");
            assert!(LINK.allowed.contains(name) && LINK.meaning.contains(name), "{name}");
        }
    }
}
