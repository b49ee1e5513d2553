//! The findings about the packets from one host to another.

use super::{Finding, Level, PairSeen};
use crate::doctor::protocol::{LinkPath, SHORT_BYTES, UDP_ON_OTHERS, Unanswered};

/// The findings about all directions between hosts. A link that fails where another link works does not stop
/// programs, unless that is TCP beside UDP, which brings large messages only. The second pair of interfaces
/// does not matter then.
pub(in crate::doctor) fn of_pairs(pairs: &[&PairSeen]) -> Vec<Finding> {
    let works = |pair: &PairSeen| pair.short_arrived && pair.full_arrived;
    let mut all = Vec::new();
    for pair in pairs {
        let same = || pairs.iter().filter(|other| other.from == pair.from && other.to == pair.to);
        let is_beside = |other: &PairSeen| other.link == "tcp" && same().any(|other| other.link == "udp");
        let is_helped = same().any(|other| works(other) && !is_beside(other));
        let has_tcp = same().any(|other| works(other) && is_beside(other));
        let mut own = of_pair(pair);
        for finding in own.iter_mut().filter(|finding| finding.level == Level::Fault) {
            if is_helped {
                finding.level = if pair.link == UDP_ON_OTHERS { Level::Note } else { Level::Warning };
            } else if has_tcp {
                finding.cure += "; or use TCP, which passes: `WEFT_LINK=shared,tcp`";
            }
        }
        all.extend(own);
    }
    all
}

/// The findings about one direction between two hosts over one link.
pub(super) fn of_pair(seen: &PairSeen) -> Vec<Finding> {
    let subject = format!("{} → {}", seen.from, seen.to);
    let path = match &seen.path {
        None => return Vec::new(),
        // A second pair is not needed.
        Some(Err(_)) if seen.link == UDP_ON_OTHERS => return Vec::new(),
        Some(Err(why)) => {
            let cure =
                "let WEFT_INTERFACE name the interface that joins them; `ip address` on both shows what they have";
            return vec![Finding::new(Level::Fault, "no-path", &subject, format!("{}: {why}", seen.link), cure)];
        }
        Some(Ok(path)) => path,
    };
    let mut all = Vec::new();
    let between = format!("{} to {}", path.own, path.peer);
    match (seen.short_arrived, seen.full_arrived) {
        (false, _) => all.push(short_lost(seen, path, &subject)),
        (true, false) => all.push(full_lost(seen, path, &subject)),
        (true, true) => {
            let what =
                format!("{}: packets of {SHORT_BYTES} and {} bytes arrive, {between}", seen.link, path.packet_bytes);
            all.push(Finding::ok("packets-arrive", &subject, what));
        }
    }
    if path.own_bytes != path.peer_bytes {
        let what = format!(
            "{}: packets may have {} bytes here and {} there, so {} are used",
            seen.link, path.own_bytes, path.peer_bytes, path.packet_bytes
        );
        let cure = "`ip link set IF mtu N` with the same N on both, when the switch carries it";
        all.push(Finding::new(Level::Warning, "mtu-differs", &subject, what, cure));
    }
    all
}

fn short_lost(seen: &PairSeen, path: &LinkPath, subject: &str) -> Finding {
    let link = &seen.link;
    let between = format!("from {} to {}", path.own, path.peer);
    if let Some((_, why)) = seen.refused.iter().find(|(size, _)| *size == SHORT_BYTES) {
        let what = format!("{link}: this machine refuses packets {between}: {why}");
        let cure =
            format!("`ip route get {}` says by which way; look at the firewall's output rules too", ip_of(&path.peer));
        return Finding::new(Level::Fault, "packets-refused-here", subject, what, cure);
    }
    let (protocol, dport) = if link == "tcp" { ("TCP", "tcp") } else { ("UDP", "udp") };
    let pass = format!("`nft add rule inet filter input ip saddr SUBNET {dport} dport 1024-65535 accept`");
    let (name, text, cure) = match (seen.unanswered, &seen.firewall) {
        (Some(Unanswered::Refused), _) => {
            let cure = format!(
                "look for a rule that rejects on {}, and for a second host with the address {}",
                seen.to, path.peer
            );
            ("packets-rejected", "the other side answers that nobody listens there".to_owned(), cure)
        }
        (Some(Unanswered::Prohibited), _) => {
            let cure = format!("let {protocol} pass, on {} or the router between: {pass}", seen.to);
            ("packets-prohibited", "a firewall answers that it is prohibited".to_owned(), cure)
        }
        (Some(Unanswered::NoRoute), _) => {
            let cure = format!("`ip route get {}` on {}", ip_of(&path.peer), seen.from);
            ("packets-no-route", "there is no route".to_owned(), cure)
        }
        (Some(Unanswered::HostDown), _) => {
            let cure = format!("`ip neighbour` on {}, and the cable or VLAN between", seen.from);
            ("packets-lost", "the other side does not answer on its link".to_owned(), cure)
        }
        (_, Some(rule)) => {
            let cure = format!("{} has a rule `{rule}`; let {protocol} pass: {pass}", seen.to);
            ("packets-dropped", "nothing answers, as where a firewall drops".to_owned(), cure)
        }
        (_, None) => {
            let cure = format!(
                "is the interface up that has {} on {}, and the same network? else a firewall between",
                path.peer, seen.to
            );
            ("packets-lost", "nothing answers".to_owned(), cure)
        }
    };
    Finding::new(Level::Fault, name, subject, format!("{link}: no packet arrives {between}: {text}"), cure)
}

fn full_lost(seen: &PairSeen, path: &LinkPath, subject: &str) -> Finding {
    let link = &seen.link;
    let size = path.packet_bytes;
    let largest = seen.largest_arrived.map_or(String::new(), |largest| format!("; {largest} bytes still arrive"));
    let what = format!("{link}: packets of {size} bytes do not arrive from {} to {}{largest}", path.own, path.peer);
    let what = match seen.refused.iter().find(|(refused, _)| *refused == size) {
        Some((_, why)) => format!("{what}; {why}"),
        None => what,
    };
    // The largest size that was tried is a payload: the headers of IPv4 and UDP are added.
    let mtu = seen.largest_arrived.map_or("N".to_owned(), |largest| (largest + 28).to_string());
    let cure = format!(
        "something between carries less than the interfaces say; jobs find that out and go on with smaller packets, but lose time: \
         raise its MTU, or `ip link set IF mtu {mtu}` on both"
    );
    Finding::new(Level::Warning, "full-size-lost", subject, what, cure)
}

fn ip_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(ip, _)| ip.trim_matches(['[', ']']))
}
