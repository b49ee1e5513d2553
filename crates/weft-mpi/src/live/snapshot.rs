//! The reader of a rank's page for `weft info --live`. Another version of the library may have written the
//! page. The command `weft info` uses it.

use weft_core::flow::Counters;
use weft_launch::standing::Standing;
use weft_net::clock;

use super::{CARRIED_AT, ENTRY, GROUP, GROUPS_AT, LAYOUT, LAYOUT_AT, LINKS, PEER, PEERS_AT, WORLD_CONTEXT};
use crate::multicast::{Carried, Scheme};

/// The contents of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The state of the rank.
    pub standing: Standing,
    /// Peers with something to show.
    pub peers: Vec<Peer>,
    /// The knowledge whether the network carries multicast.
    pub carried: Carried,
    /// The multicast groups of communicators.
    pub groups: Vec<Group>,
}

/// The multicast group of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Hosts.
    pub hosts: u64,
    /// `MPI_COMM_WORLD`, or `communicator` with its context and number of ranks.
    pub communicator: String,
    /// The scheme by which members acknowledge.
    pub scheme: Scheme,
    /// The network loses most of what this rank multicasts, so the rank sends to each host separately.
    pub goes_straight: bool,
    /// Packets that this rank has multicast, sent again, and asked for.
    pub packets: [u64; 3],
}

/// The traffic between a rank and one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The index of the peer in the job.
    pub peer: u32,
    /// The way to reach it.
    pub link: &'static str,
    /// Messages sent to it.
    pub messages: u64,
    /// The payload of these messages, bytes.
    pub bytes: u64,
    /// The credit for eager messages to it, bytes.
    pub credit: u64,
    /// Counters in the order of [`COUNTERS`](super::COUNTERS); empty without a network between the two.
    pub counters: Vec<u64>,
    /// Gauges in the order of [`GAUGES`](super::GAUGES).
    pub gauges: Vec<u64>,
}

impl Snapshot {
    /// Reads the words of a rank's page.
    ///
    /// # Errors
    /// One sentence: another version wrote the page, or the page makes no sense.
    pub fn parse(words: &[u64]) -> Result<Self, String> {
        let standing = Standing::parse(words, clock::now().0)?;
        let same = words.get(LAYOUT_AT) == Some(&LAYOUT);
        let carried = |word: &u64| Carried::ALL.get(usize::try_from(*word).ok()?);
        let groups = words.get(GROUPS_AT..PEERS_AT).filter(|_| same).unwrap_or_default().chunks_exact(GROUP);
        let entries = words.get(PEERS_AT..).filter(|_| same).unwrap_or_default().chunks_exact(ENTRY);
        Ok(Self {
            standing,
            peers: entries.enumerate().filter_map(|(peer, entry)| Peer::parse(peer as u32, entry)).collect(),
            carried: words.get(CARRIED_AT).filter(|_| same).and_then(carried).copied().unwrap_or_default(),
            groups: groups.filter_map(Group::parse).collect(),
        })
    }
}

impl Group {
    fn parse(words: &[u64]) -> Option<Self> {
        let [hosts, context, ranks, scheme, straight, packets, repairs, asked] = words.try_into().ok()?;
        (hosts > 0).then(|| Self {
            hosts,
            communicator: if context == WORLD_CONTEXT {
                "MPI_COMM_WORLD".to_owned()
            } else {
                format!("communicator {context} of {ranks}")
            },
            scheme: Scheme {
                blocking: scheme >> 63 != 0,
                co_roots: scheme as u32,
                aggregate: (scheme >> 32) as u32 & 0x3fff_ffff,
                written: scheme >> 62 & 1 != 0,
            },
            goes_straight: straight != 0,
            packets: [packets, repairs, asked],
        })
    }
}

impl Peer {
    /// Reads a peer; `None` for a peer with which nothing was exchanged.
    fn parse(peer: u32, entry: &[u64]) -> Option<Self> {
        let link = LINKS.get(entry[0] as usize).copied().unwrap_or_default();
        let (counters, gauges) = entry[PEER..].split_at(Counters::NAMES.len());
        let networked = counters.iter().any(|count| *count > 0);
        (entry[1] > 0 || networked || entry[0] == 4).then(|| Self {
            peer,
            link,
            messages: entry[1],
            bytes: entry[2],
            credit: entry[3],
            counters: if networked { counters.to_vec() } else { Vec::new() },
            gauges: if networked { gauges.to_vec() } else { Vec::new() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::GAUGES;
    use super::*;

    fn page() -> Vec<u64> {
        let standing = Standing { rank: 1, size: 2, ..Standing::default() };
        let mut words = standing.words(0);
        words.push(LAYOUT);
        words.resize(PEERS_AT + 2 * ENTRY, 0);
        words[PEERS_AT] = 3;
        words[PEERS_AT + 1] = 12;
        words[PEERS_AT + PEER] = 99;
        words[CARRIED_AT] = Carried::Yes as u64;
        let group = [3, WORLD_CONTEXT, 6, 1 << 62 | 10 << 32 | 2, 1, 500, 40, 30];
        words[GROUPS_AT..GROUPS_AT + GROUP].copy_from_slice(&group);
        words
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let snapshot = Snapshot::parse(&page()).unwrap();
        assert_eq!((snapshot.standing.rank, snapshot.standing.size), (1, 2));
        let [peer] = &snapshot.peers[..] else { panic!("{:?}", snapshot.peers) };
        assert_eq!(
            (peer.peer, peer.link, peer.messages, peer.counters[0], peer.gauges.len()),
            (0, "network", 12, 99, GAUGES.len())
        );
        let [group] = &snapshot.groups[..] else { panic!("{:?}", snapshot.groups) };
        let scheme = Scheme { co_roots: 2, aggregate: 10, written: true, ..Scheme::WINDOW };
        assert_eq!((snapshot.carried, group.scheme, group.packets), (Carried::Yes, scheme, [500, 40, 30]));
        assert!(group.goes_straight && group.communicator == "MPI_COMM_WORLD");
    }

    #[test]
    fn counters_of_another_version_are_not_shown_and_a_short_page_is_no_danger() {
        let mut words = page();
        words[LAYOUT_AT] ^= 1;
        assert!(Snapshot::parse(&words).unwrap().peers.is_empty());
        let words = page();
        for length in 0..words.len() {
            let _ = Snapshot::parse(&words[..length]);
        }
    }
}
