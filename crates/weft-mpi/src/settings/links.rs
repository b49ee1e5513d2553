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
    /// The user has named the links, so they are not chosen by what is possible.
    pub named: bool,
}

impl Links {
    pub(super) const NONE: Self =
        Self { shared: false, udp: false, ethernet: false, xdp: false, fabric: false, verbs: false, named: false };
    pub(super) const AUTO: Self = Self { shared: true, udp: true, ethernet: true, ..Self::NONE };
}

/// Every link of this version: its name in `WEFT_LINK`, and a description.
pub const LINKS: [(&str, &str); 6] = [
    ("shared", "rings in shared memory, between ranks of one host"),
    ("udp", "UDP over IPv4 or IPv6, between hosts"),
    ("ethernet", "frames on the interface itself (AF_PACKET), between hosts of one segment"),
    ("xdp", "the same frames, received before the host's network sees them (AF_XDP)"),
    ("fabric", "endpoints of libfabric, over whatever its provider leads to, between hosts"),
    ("verbs", "an RDMA device (InfiniBand, RoCE or iWARP) by rdma-core, between hosts"),
];

pub(super) fn links(value: &str) -> Result<Links, String> {
    let mut links = Links { named: true, ..Links::NONE };
    for name in value.split(',').map(str::trim) {
        match name {
            "auto" => links = Links { xdp: links.xdp, fabric: links.fabric, verbs: links.verbs, ..Links::AUTO },
            "shared" => links.shared = true,
            "udp" => links.udp = true,
            "ethernet" => links.ethernet = true,
            // Without AF_XDP the frames are still the same.
            "xdp" => links = Links { ethernet: true, xdp: true, ..links },
            "fabric" => links.fabric = true,
            "verbs" => links.verbs = true,
            _ => return Err(LINK.says(value, &format!("names the link '{name}', which Weft does not have"))),
        }
    }
    if links.fabric && links.verbs {
        return Err(LINK.says(value, "names fabric and verbs, which are both in the place of UDP: one of them"));
    }
    links.udp &= !(links.fabric || links.verbs);
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rdma_device_takes_the_place_of_udp_and_libfabric_is_not_beside_it() {
        let links = |value: &str| links(value).unwrap();
        assert_eq!(links("shared,verbs"), Links { shared: true, verbs: true, named: true, ..Links::NONE });
        assert!(!links("auto,verbs").udp && links("auto,verbs").ethernet);
        assert!(super::links("shared,verbs,fabric").is_err());
    }

    #[test]
    fn every_link_has_a_name_that_is_understood() {
        for (name, _) in LINKS {
            assert!(links(name).is_ok(), "{name}");
            assert!(LINK.allowed.contains(name) && LINK.meaning.contains(name), "{name}");
        }
    }
}
