//! The meaning of the end of a rail to a peer, as a pure function.

/// The facts about a rail whose connection to a peer is gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// True if the rail carried the peer's packets.
    pub(super) is_first: bool,
    /// True if the rail has taken packets, or accesses that only later traffic on the same connection proves
    /// to be in place.
    pub(super) has_used: bool,
    /// True if another rail leads to the peer.
    pub(super) has_others: bool,
}

/// The consequence of a rail's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The peer is lost: nobody knows which packets have arrived, and reliable delivery is a promise.
    PeerLost,
    /// Another rail carries the peer's packets from now on, because this one never carried any.
    Moved,
    /// Accesses go by the other rails; accesses that were under way are repeated there.
    RailLost,
}

/// Returns the consequence of a rail's end.
pub(super) fn verdict(gone: Gone) -> Verdict {
    match gone {
        Gone { has_others: false, .. } | Gone { is_first: true, has_used: true, .. } => Verdict::PeerLost,
        Gone { is_first: true, has_used: false, .. } => Verdict::Moved,
        Gone { is_first: false, .. } => Verdict::RailLost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_lost_with_its_packets_or_with_its_last_rail_only() {
        for is_first in [false, true] {
            for has_used in [false, true] {
                let of = |has_others| verdict(Gone { is_first, has_used, has_others });
                assert_eq!(of(false), Verdict::PeerLost);
                let expected = match (is_first, has_used) {
                    (false, _) => Verdict::RailLost,
                    (true, false) => Verdict::Moved,
                    (true, true) => Verdict::PeerLost,
                };
                assert_eq!(of(true), expected);
            }
        }
    }
}
