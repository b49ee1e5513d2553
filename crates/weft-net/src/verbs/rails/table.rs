//! The table of paths: which of this process's rails leads to which rail of a peer, and which of them carries
//! the peer's packets. Both ends come to the same result, because both know both cards.

use crate::carrier::{Address, VerbsAddress};
use crate::udp::{self, Pair};
use crate::verbs::{EndpointAddress, RAILS_MAX};

/// A rail of this process, and the peer's rail that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Index of this process's rail.
    pub(super) rail: usize,
    /// Index of the peer's rail.
    pub(super) far: usize,
    /// The peer's rail, as this process's rail knows it.
    pub(super) to: VerbsAddress,
    /// Speed of the path in Mb/s; 0 when it is not known.
    pub(super) speed: u32,
    /// True if nothing goes to the peer by this path any more.
    pub(super) is_dead: bool,
    /// True if nothing comes from the peer by this path: the peer has said that it has dropped its end.
    pub(super) peer_dropped: bool,
}

impl Path {
    /// Returns the address of the peer's rail, for the rail of this process.
    pub(super) fn address(&self) -> Address {
        Address::Verbs(self.to)
    }
}

/// A peer, with the paths that lead to it.
#[derive(Debug)]
pub(super) struct Peer {
    /// The paths, at least one.
    pub(super) paths: Vec<Path>,
    /// Index of the path that carries packets and small accesses.
    pub(super) first: usize,
    /// True if the path `first` has taken a packet or an access. From then on no other path can take its
    /// place.
    pub(super) has_used: bool,
    /// True if the peer is lost.
    pub(super) is_lost: bool,
    /// The peer's rails that this end has dropped and has not told the peer of yet.
    pub(super) to_tell: u16,
    /// Stripes to the peer that are under way, or that wait.
    pub(super) stripes: usize,
    /// The peer's address in this process.
    pub(super) address: Address,
}

impl Peer {
    /// Returns the path of the peer's packets.
    pub(super) fn first_path(&self) -> &Path {
        &self.paths[self.first]
    }

    /// Returns the paths by which memory with this key is reached: the path of packets first.
    pub(super) fn paths_to(&self, key: u64) -> impl Iterator<Item = (usize, u32)> + '_ {
        let rest = (0..self.paths.len()).filter(|path| *path != self.first);
        let all = std::iter::once(self.first).chain(rest);
        all.filter_map(move |path| {
            let Path { far, is_dead, .. } = self.paths[path];
            Some((path, key_of(key, far)?)).filter(|_| !is_dead)
        })
    }
}

/// The peers that this process has learnt of.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) peers: Vec<Peer>,
    /// For each rail, the peer and the path that each of its own peers belongs to.
    behind: [Vec<(usize, usize)>; RAILS_MAX],
}

impl Table {
    /// Returns the peer that has this address.
    #[inline]
    pub(super) fn find(&self, to: &Address) -> Option<usize> {
        let Address::Verbs(to) = to else { return None };
        Some(to.peer as usize).filter(|peer| *peer < self.peers.len())
    }

    /// Returns the peer, and its path, that a rail's own peer belongs to.
    pub(super) fn behind(&self, rail: usize, peer: u32) -> Option<(usize, usize)> {
        self.behind.get(rail)?.get(peer as usize).copied().filter(|(peer, _)| *peer < self.peers.len())
    }

    /// Learns the paths to a peer, the first of which was not known before, and returns the peer's address.
    pub(super) fn insert(&mut self, paths: Vec<Path>, first: usize) -> Address {
        let peer = self.peers.len();
        for (number, path) in paths.iter().enumerate() {
            let behind = &mut self.behind[path.rail];
            behind.resize(behind.len().max(path.to.peer as usize + 1), (usize::MAX, 0));
            behind[path.to.peer as usize] = (peer, number);
        }
        let listens = paths[first].to.listens;
        let address = Address::Verbs(VerbsAddress { peer: peer as u32, listens });
        let (has_used, is_lost, to_tell, stripes) = (false, false, 0, 0);
        self.peers.push(Peer { paths, first, has_used, is_lost, to_tell, stripes, address });
        address
    }
}

/// Returns the rails of two processes that lead to each other, in the same order at both ends. Rails are
/// paired as interfaces are for UDP. The error, if there are none, is a sentence.
pub(super) fn pairs(own: &EndpointAddress, peer: &EndpointAddress) -> Result<Vec<Pair>, String> {
    let name = |endpoint_address: &EndpointAddress| {
        (endpoint_address.rails.first().map(|rail| (rail.ip, rail.port)), endpoint_address.token)
    };
    let is_first = name(own) < name(peer);
    let mut pairs = udp::pair_rails(&own.rails, &peer.rails, is_first)?;
    pairs.truncate(RAILS_MAX);
    weft_ordered::sort_by_key(&mut pairs, |pair| if is_first { pair.own.rail } else { pair.peer.rail });
    Ok(pairs)
}

/// Returns which of `paths` paths carries packets. It spreads pairs of processes over the paths. `spread` is
/// half the sum of two ranks: so the peers of a process alternate, and among pairs of the same distance the
/// processes alternate.
pub(super) fn first(spread: u32, paths: usize) -> usize {
    spread as usize % paths.max(1)
}

/// Returns the keys of memory on each rail, as a single key: 0 for a rail without a key.
pub(super) fn join_keys(keys: [u32; RAILS_MAX]) -> u64 {
    keys.iter().rev().fold(0, |all, key| all << 32 | u64::from(*key))
}

/// Returns the key of a rail: the inverse of [`join_keys`].
pub(super) fn key_of(keys: u64, rail: usize) -> Option<u32> {
    let key = keys.checked_shr(32 * rail as u32)? as u32;
    Some(key).filter(|key| *key != 0)
}

const _: () = assert!(RAILS_MAX * 32 == u64::BITS as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Candidate;

    /// Returns the endpoint address of a process of host `host` with rails in these subnets of 24 bits.
    fn endpoint_address(host: u8, subnets: &[u8]) -> EndpointAddress {
        let rail = |(rail, subnet): (usize, &u8)| Candidate {
            ip: [10, 0, *subnet, host].into(),
            prefix: 24,
            port: 7,
            packet_size: 1472,
            host: host.into(),
            interface: 2,
            rail: rail as u8,
            speed: 0,
        };
        let rails = subnets.iter().enumerate().map(rail).collect();
        EndpointAddress { rails, token: host.into(), has_remote_memory: true, packet_size: 4088 }
    }

    fn ends(own: &EndpointAddress, peer: &EndpointAddress) -> Vec<(u8, u8)> {
        pairs(own, peer).expect("a path").iter().map(|pair| (pair.own.rail, pair.peer.rail)).collect()
    }

    #[test]
    fn rails_in_a_common_subnet_are_pairs_and_both_ends_have_them_in_the_same_order() {
        for (near, far, expected) in [
            (&[1, 2][..], &[1, 2][..], &[(0, 0), (1, 1)][..]),
            (&[1, 2], &[2, 1], &[(0, 1), (1, 0)]),
            (&[1, 2], &[2, 3], &[(1, 0)]),
            (&[1], &[2, 1], &[(0, 1)]),
            (&[1, 1], &[1, 1], &[(0, 0), (1, 1)]),
            // No subnet is common: a single pair, by a router.
            (&[1, 2], &[3, 4], &[(0, 0)]),
        ] {
            let (near, far) = (endpoint_address(1, near), endpoint_address(2, far));
            assert_eq!(ends(&near, &far), expected);
            let back: Vec<_> = ends(&far, &near).into_iter().map(|(own, peer)| (peer, own)).collect();
            assert_eq!(back, expected, "the other end sees the same");
        }
    }

    /// Pairs of one process, of a ring, and of any distance that is a power of two.
    #[test]
    fn packets_of_many_pairs_are_spread_over_the_rails() {
        let of = |a: u32, b: u32| first(u32::midpoint(a, b), 2);
        let on_second = |pairs: &mut dyn Iterator<Item = (u32, u32)>| pairs.filter(|(a, b)| of(*a, *b) == 1).count();
        assert_eq!(on_second(&mut (1..33).map(|peer| (0, peer))), 16);
        for distance in [1, 2, 4, 8, 16] {
            assert_eq!(on_second(&mut (0..32).map(|rank| (rank, rank + distance))), 16, "{distance}");
        }
        for rank in 1..32 {
            assert_ne!(of(rank - 1, rank), of(rank, rank + 1), "both neighbours of {rank}");
            assert_eq!(of(rank, 5), of(5, rank), "both ends of {rank}");
        }
        assert_eq!(first(u32::MAX, 1), 0);
    }

    #[test]
    fn keys_are_told_together_and_found_again() {
        let keys = join_keys([0x1234_5678, u32::MAX]);
        assert_eq!((key_of(keys, 0), key_of(keys, 1), key_of(keys, 2)), (Some(0x1234_5678), Some(u32::MAX), None));
        let keys = join_keys([0, 7]);
        assert_eq!((key_of(keys, 0), key_of(keys, 1)), (None, Some(7)));
    }

    #[test]
    fn peers_are_found_by_their_address_and_by_what_a_rail_calls_them() {
        let mut table = Table::default();
        let path = |rail, peer| Path {
            rail,
            far: rail,
            to: VerbsAddress { peer, listens: ([192, 0, 2, peer as u8], 7).into() },
            speed: 0,
            is_dead: false,
            peer_dropped: false,
        };
        let one = table.insert(vec![path(0, 0), path(1, 0)], 1);
        let other = table.insert(vec![path(1, 3)], 0);
        assert_eq!((table.find(&one), table.find(&other)), (Some(0), Some(1)));
        assert_eq!((table.behind(1, 0), table.behind(1, 3), table.behind(1, 2)), (Some((0, 1)), Some((1, 0)), None));
        assert_eq!(table.behind(0, 9), None);
        table.peers[0].paths[1].is_dead = true;
        let keys = join_keys([5, 6]);
        assert_eq!(table.peers[0].paths_to(keys).collect::<Vec<_>>(), [(0, 5)]);
        assert_eq!(table.peers[1].paths_to(join_keys([5, 0])).count(), 0, "that rail has no key");
    }
}
