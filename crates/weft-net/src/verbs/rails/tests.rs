//! A link of rails that the tests play: a rail's work ends, or fails, when the test says so.

use std::collections::VecDeque;

use super::*;
use crate::carrier::{Delivery, Look, receive_packets};

const PEER_BYTES: usize = 128 << 10;
const LIMIT: Duration = Duration(1_000_000_000);

/// Work that a rail was given.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    kind: AccessKind,
    peer: u32,
    data: Vec<u8>,
    start: u64,
    at: u64,
    length: usize,
    number: u64,
}

/// A rail of this process that a test plays, and the peer's memory behind it.
struct Played {
    rail: u8,
    attributes: CarrierAttributes,
    /// The answers to the next accesses.
    answers: VecDeque<Begun>,
    under_way: Vec<(Given, UserData)>,
    /// The writes that were on their way when a connection broke: they may still arrive.
    ghosts: Vec<Given>,
    ended: VecDeque<u64>,
    exposes: bool,
    exposed: u32,
    concealed: Vec<u32>,
    sent: usize,
    gone: Vec<u32>,
    broken: VecDeque<Address>,
    told: Vec<u16>,
    hears: VecDeque<(u32, u16)>,
    met: Vec<SocketAddr>,
    _wake: OwnedFd,
}

impl Played {
    fn new(rail: u8, proof: Proof) -> Self {
        let wake = watch::timer().expect("a timer");
        let placement = Placement {
            writes: true,
            reads: true,
            bytes_max: 1 << 30,
            bytes_min: 1 << 14,
            eager_max: 1 << 15,
            one_sided_min: 1,
            proof,
            tells: false,
            unasked: false,
        };
        let attributes = CarrierAttributes {
            delivery: Delivery::Ordered,
            descriptor: Some(wake.as_raw_fd()),
            remote_memory: Some(placement),
            ..CarrierAttributes::packets("played", 4088, Look::Memory)
        };
        Self {
            rail,
            attributes,
            answers: VecDeque::new(),
            under_way: Vec::new(),
            ghosts: Vec::new(),
            ended: VecDeque::new(),
            exposes: true,
            exposed: 0,
            concealed: Vec::new(),
            sent: 0,
            gone: Vec::new(),
            broken: VecDeque::new(),
            told: Vec::new(),
            hears: VecDeque::new(),
            met: Vec::new(),
            _wake: wake,
        }
    }

    fn begin(
        &mut self,
        kind: AccessKind,
        to: &Address,
        data: &UserData,
        range: Range<u64>,
        there: RemoteMemory,
        number: u64,
    ) -> Begun {
        let Address::Verbs(to) = to else { panic!("another link's address") };
        assert_eq!(there.key, 100 + u64::from(self.rail), "the peer's key of this rail");
        if self.gone.contains(&to.peer) {
            return Begun::Never;
        }
        let begun = self.answers.pop_front().unwrap_or(Begun::Yes);
        if begun == Begun::Yes {
            let length = (range.end - range.start) as usize;
            let mut bytes = vec![0; if kind == AccessKind::Write { length } else { 0 }];
            if kind == AccessKind::Write {
                data.read(range.start, &mut bytes);
            }
            let given =
                Given { kind, peer: to.peer, data: bytes, start: range.start, at: there.address, length, number };
            self.under_way.push((given, data.clone()));
        }
        begun
    }

    /// Does a piece of the work that the rail was given.
    fn end(&mut self, rail: usize, memory: &mut [u8]) {
        let (given, data) = self.under_way.remove(rail);
        let there = given.at as usize..given.at as usize + given.length;
        match given.kind {
            AccessKind::Write => memory[there].copy_from_slice(&given.data),
            AccessKind::Read => data.write(given.start, &memory[there]),
        }
        self.ended.push_back(given.number);
    }

    /// Breaks the connection to a peer.
    fn close(&mut self, peer: u32) {
        self.gone.push(peer);
        let (gone, stays) = std::mem::take(&mut self.under_way).into_iter().partition(|(given, _)| given.peer == peer);
        self.under_way = stays;
        let gone: Vec<(Given, UserData)> = gone;
        self.ghosts.extend(gone.into_iter().map(|(given, _)| given).filter(|given| given.kind == AccessKind::Write));
    }

    fn break_off(&mut self, peer: u32) {
        self.close(peer);
        let listens = self.met[peer as usize];
        self.broken.push_back(Address::Verbs(VerbsAddress { peer, listens }));
    }
}

impl Carrier for Played {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, _packet: &[u8]) -> io::Result<Outcome> {
        let Address::Verbs(to) = to else { return Err(wrong_address()) };
        if self.gone.contains(&to.peer) {
            return Ok(Outcome::Dropped);
        }
        self.sent += 1;
        Ok(Outcome::Sent)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, _on_arrival: &mut dyn FnMut(Arrival<'_>), _limit: usize) -> usize {
        0
    }

    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics { last_refusal: Some(format!("rail {} says why", self.rail)), ..Diagnostics::default() }
    }

    fn under_way(&self, to: &Address) -> usize {
        let Address::Verbs(to) = to else { return 0 };
        self.under_way.iter().filter(|(given, _)| given.peer == to.peer).count()
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.broken.pop_front()
    }

    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        Some(self)
    }
}

impl RemoteMemoryAccess for Played {
    fn register(&mut self, _data: &UserData, _length: u64) -> Option<(Registration, RemoteMemory)> {
        if !self.exposes {
            return None;
        }
        self.exposed += 1;
        let key = 100 + u64::from(self.rail);
        Some((Registration(self.exposed), RemoteMemory { key, address: 0 }))
    }

    fn deregister(&mut self, Registration(number): Registration) {
        self.concealed.push(number);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.begin(AccessKind::Write, to, data, range, target, number)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.begin(AccessKind::Read, to, data, range, target, number)
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.ended.pop_front()
    }
}

impl Rail for Played {
    fn candidate(&self) -> Candidate {
        candidate(self.rail, 1)
    }

    fn meet(&mut self, listens: SocketAddr, _token: u64) -> VerbsAddress {
        let known = self.met.iter().position(|known| *known == listens);
        let peer = known.unwrap_or(self.met.len());
        if known.is_none() {
            self.met.push(listens);
        }
        VerbsAddress { peer: peer as u32, listens }
    }

    fn abandon(&mut self, peer: u32) {
        if !self.gone.contains(&peer) {
            self.close(peer);
        }
    }

    fn tell_dropped(&mut self, peer: u32, rails: u16) -> bool {
        if self.gone.contains(&peer) {
            return false;
        }
        self.told.push(rails);
        true
    }

    fn poll_dropped(&mut self) -> Option<(u32, u16)> {
        self.hears.pop_front()
    }
}

fn candidate(rail: u8, host: u8) -> Candidate {
    let ip = [10, 0, rail, host].into();
    Candidate { ip, prefix: 24, port: 7, packet_size: 1472, host: host.into(), interface: 0, rail, speed: 0 }
}

fn endpoint_address_of(host: u8, rails: u8) -> EndpointAddress {
    let rails = (0..rails).map(|rail| candidate(rail, host)).collect();
    EndpointAddress { rails, token: host.into(), has_remote_memory: true, packet_size: 4088 }
}

/// Makes a link of `rails` rails, and a peer that has as many.
fn link(rails: u8, proof: Proof) -> (VerbsRails<Played>, Address, RemoteMemory) {
    let all = (0..rails).map(|rail| Played::new(rail, proof)).collect();
    let mut link = VerbsRails::new(all, 1, LIMIT).expect("a link");
    let to = link.address_of(&endpoint_address_of(2, rails), 0).expect("a path");
    assert_eq!(link.address_of(&endpoint_address_of(2, rails), 0).expect("the same"), to);
    let keys = std::array::from_fn(|rail| if rail < usize::from(rails) { 100 + rail as u32 } else { 0 });
    (link, to, RemoteMemory { key: table::join_keys(keys), address: 0 })
}

fn data(byte: u8) -> UserData {
    let data = UserData::leaked(PEER_BYTES);
    data.write(0, &vec![byte; PEER_BYTES]);
    data
}

fn look(link: &mut VerbsRails<Played>) {
    assert_eq!(receive_packets(link, &mut |_| panic!("no packets come here"), 16), 0);
}

/// Ends all work of the rails, and the work that follows from it. Returns the accesses that are reported
/// complete.
fn end_all(link: &mut VerbsRails<Played>, memory: &mut [u8]) -> Vec<u64> {
    let mut done = Vec::new();
    for _ in 0..10 {
        for rail in &mut link.rails {
            while !rail.under_way.is_empty() {
                rail.end(0, memory);
            }
        }
        done.extend(std::iter::from_fn(|| link.poll_completion()));
    }
    done
}

const WHOLE: Range<u64> = 0..PEER_BYTES as u64;

#[test]
fn one_rail_takes_all_as_it_is_and_tells_once() {
    let (mut link, to, there) = link(1, Proof::Read);
    let mut memory = vec![0; PEER_BYTES];
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 99), Begun::Yes);
    assert_eq!((link.rails[0].under_way.len(), link.under_way(&to)), (1, 1));
    assert_eq!(link.poll_completion(), None);
    assert_eq!(end_all(&mut link, &mut memory), [99]);
    assert!(memory.iter().all(|byte| *byte == 7));
    assert_eq!(link.under_way(&to), 0);
    link.rails[0].answers.extend([Begun::NotNow, Begun::Never]);
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 1), Begun::NotNow);
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 1), Begun::Never);
    assert_eq!((link.under_way(&to), end_all(&mut link, &mut memory)), (0, Vec::new()));
}

#[test]
fn a_large_access_goes_by_both_rails_and_is_complete_with_its_last_stripe() {
    for kind in [AccessKind::Write, AccessKind::Read] {
        let (mut link, to, there) = link(2, Proof::Completion);
        let (mut memory, own) = (vec![9; PEER_BYTES], data(7));
        assert_eq!(link.access(&to, kind, (&own, WHOLE), there, 5), Begun::Yes);
        let lengths: Vec<usize> = link.rails.iter().map(|rail| rail.under_way[0].0.length).collect();
        assert_eq!(lengths, [PEER_BYTES / 2; 2]);
        link.rails[1].end(0, &mut memory);
        assert_eq!(link.poll_completion(), None, "half of it is missing");
        link.rails[0].end(0, &mut memory);
        assert_eq!((link.poll_completion(), link.poll_completion()), (Some(5), None));
        let mut here = vec![0; PEER_BYTES];
        own.read(0, &mut here);
        let expected = if kind == AccessKind::Write { 7 } else { 9 };
        assert!(here == memory && memory.iter().all(|byte| *byte == expected));
        // A small access stays whole, on the rail of packets.
        assert_eq!(link.access(&to, kind, (&own, 5..9), there, 6), Begun::Yes);
        assert_eq!((link.rails[0].under_way.len(), link.rails[1].under_way.len()), (1, 0));
    }
}

/// A device may report a write that has only left. A packet behind the write goes by another rail, and would
/// overtake it.
#[test]
fn beside_the_rail_of_packets_a_write_is_complete_when_a_read_behind_it_is() {
    let (mut link, to, there) = link(2, Proof::Read);
    let mut memory = vec![0; PEER_BYTES];
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 5), Begun::Yes);
    link.rails[0].end(0, &mut memory);
    link.rails[1].end(0, &mut memory);
    assert_eq!(link.poll_completion(), None, "it has left, and nothing more is known");
    assert!(link.rails[0].under_way.is_empty(), "what follows on the same rail proves that one");
    let (proof, _) = &link.rails[1].under_way[0];
    assert_eq!((proof.kind, proof.length, proof.at), (AccessKind::Read, 1, PEER_BYTES as u64 / 2));
    link.rails[1].end(0, &mut memory);
    assert_eq!((link.poll_completion(), link.poll_completion()), (Some(5), None));
    // The write's rail has no room for the read at first.
    assert_eq!(link.write(&to, &data(8), WHOLE, there, 6), Begun::Yes);
    link.rails[1].answers.push_back(Begun::NotNow);
    assert_eq!(end_all(&mut link, &mut memory), [6]);
    // A read needs no proof.
    assert_eq!(link.read(&to, &data(8), WHOLE, there, 7), Begun::Yes);
    link.rails[0].end(0, &mut memory);
    link.rails[1].end(0, &mut memory);
    assert_eq!(link.poll_completion(), Some(7));
}

#[test]
fn what_one_rail_does_not_take_now_the_other_one_takes_and_what_none_takes_waits() {
    let (mut link, to, there) = link(2, Proof::Completion);
    let mut memory = vec![0; PEER_BYTES];
    // The second rail is not connected yet.
    link.rails[1].answers.push_back(Begun::NotNow);
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 1), Begun::Yes);
    assert_eq!((link.rails[0].under_way.len(), link.rails[1].under_way.len()), (2, 0));
    assert_eq!(end_all(&mut link, &mut memory), [1]);
    // The first rail has no room twice, and the second one has.
    link.rails[0].answers.extend([Begun::NotNow, Begun::NotNow]);
    assert_eq!(link.write(&to, &data(8), WHOLE, there, 2), Begun::Yes);
    assert_eq!(link.write(&to, &data(8), WHOLE, there, 3), Begun::NotNow, "others go first");
    assert_eq!(link.poll_completion(), None);
    assert_eq!(end_all(&mut link, &mut memory), [2]);
    assert!(memory.iter().all(|byte| *byte == 8));
    // No rail takes anything.
    for refusal in [Begun::NotNow, Begun::Never] {
        link.rails[1].answers.push_back(Begun::NotNow);
        link.rails[0].answers.push_back(refusal);
        assert_eq!(link.write(&to, &data(8), WHOLE, there, 4), refusal);
    }
    assert_eq!((link.under_way(&to), end_all(&mut link, &mut memory)), (0, Vec::new()));
}

#[test]
fn what_is_written_by_a_rail_that_fails_is_repeated_when_the_peer_has_dropped_its_end() {
    let (mut link, to, there) = link(2, Proof::Read);
    let mut memory = vec![0; PEER_BYTES];
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 5), Begun::Yes);
    link.rails[0].end(0, &mut memory);
    link.rails[1].break_off(0);
    look(&mut link);
    assert_eq!(link.rails[0].told, [0b10], "the peer's second rail");
    assert_eq!((link.poll_completion(), link.under_way(&to), link.take_broken()), (None, 1, None));
    assert!(link.rails[0].under_way.is_empty(), "it may still arrive");
    assert!(link.diagnostics().last_refusal.is_some_and(|why| why.contains("rail 1 says why")));
    link.rails[0].hears.push_back((0, 0b10));
    look(&mut link);
    assert_eq!(end_all(&mut link, &mut memory), [5]);
    assert!(memory.iter().all(|byte| *byte == 7));
    // From now on everything goes by the other rail.
    assert_eq!(link.write(&to, &data(8), WHOLE, there, 6), Begun::Yes);
    assert_eq!((link.rails[0].under_way.len(), end_all(&mut link, &mut memory)), (1, vec![6]));
    assert_eq!(link.send(&to, b"packet").expect("sent"), Outcome::Sent);
    assert_eq!((link.rails[0].told.len(), link.take_broken()), (1, None));
}

#[test]
fn what_is_read_by_a_rail_that_fails_is_repeated_at_once() {
    let (mut link, to, there) = link(2, Proof::Read);
    let (mut memory, own) = (vec![9; PEER_BYTES], data(7));
    assert_eq!(link.read(&to, &own, WHOLE, there, 5), Begun::Yes);
    link.rails[1].break_off(0);
    look(&mut link);
    assert_eq!(end_all(&mut link, &mut memory), [5]);
    let mut here = vec![0; PEER_BYTES];
    own.read(0, &mut here);
    assert!(here.iter().all(|byte| *byte == 9));
}

/// The peer has noticed first: it says so on another rail.
#[test]
fn a_rail_that_the_peer_has_dropped_is_dropped_here_too_and_the_peer_is_told() {
    let (mut link, to, there) = link(2, Proof::Completion);
    let mut memory = vec![0; PEER_BYTES];
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 5), Begun::Yes);
    link.rails[0].hears.push_back((0, 0b10));
    look(&mut link);
    assert_eq!((&link.rails[1].gone[..], &link.rails[0].told[..]), (&[0][..], &[0b10][..]));
    assert_eq!(end_all(&mut link, &mut memory), [5]);
    assert!(memory.iter().all(|byte| *byte == 7));
    // A peer's word about rails that are not there concerns no rail.
    link.rails[0].hears.extend([(0, 0b1111_1100), (7, 0b11)]);
    look(&mut link);
    assert_eq!(link.take_broken(), None);
}

#[test]
fn a_peer_whose_packets_may_be_lost_is_lost_and_nothing_of_the_program_is_accessed_any_more() {
    let (mut link, to, there) = link(2, Proof::Completion);
    assert_eq!(link.send(&to, b"packet").expect("sent"), Outcome::Sent);
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 5), Begun::Yes);
    link.rails[0].break_off(0);
    look(&mut link);
    assert_eq!((link.take_broken(), link.take_broken()), (Some(to), None));
    assert_eq!(link.rails[1].gone, [0], "the other one is closed, too");
    assert!(link.rails.iter().all(|rail| rail.under_way.is_empty() && rail.told.is_empty()));
    assert_eq!(link.diagnostics().last_refusal.as_deref(), Some("rail 0 says why"));
    assert_eq!((link.under_way(&to), link.poll_completion()), (0, None));
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 6), Begun::Never);
}

#[test]
fn packets_move_to_another_rail_if_theirs_never_took_one() {
    let (mut link, to, _) = link(2, Proof::Completion);
    link.rails[0].break_off(0);
    look(&mut link);
    assert_eq!(link.take_broken(), None);
    assert_eq!(link.send(&to, b"packet").expect("sent"), Outcome::Sent);
    assert_eq!((link.rails[1].sent, &link.rails[1].told[..]), (1, &[0b01][..]));
    link.rails[1].break_off(0);
    look(&mut link);
    assert_eq!(link.take_broken(), Some(to), "that was the last one");
}

/// A rail does not end an access, though no device reports a failure.
#[test]
fn a_rail_on_which_an_access_does_not_end_is_given_up() {
    let (mut link, to, there) = link(2, Proof::Completion);
    assert_eq!(link.write(&to, &data(7), WHOLE, there, 5), Begun::Yes);
    link.look_for_stalled();
    assert!(link.rails[1].gone.is_empty(), "its time has not come");
    link.access_limit = Duration(1);
    let begun = clock::now();
    while clock::now().since(begun) <= Duration(1) {}
    link.look_for_stalled();
    assert_eq!((&link.rails[0].gone[..], &link.rails[1].gone[..]), (&[][..], &[0][..]));
    assert!(link.diagnostics().last_refusal.is_some_and(|why| why.contains("WEFT_PEER_TIMEOUT")));
}

#[test]
fn memory_is_exposed_on_each_rail_and_reached_by_those_that_expose_it() {
    let (mut link, to, there) = link(2, Proof::Read);
    let mut memory = vec![0; PEER_BYTES];
    let (exposure, all) = link.register(&data(0), 64).expect("exposed");
    assert_eq!((table::key_of(all.key, 0), table::key_of(all.key, 1)), (Some(100), Some(101)));
    link.deregister(exposure);
    link.deregister(exposure);
    assert!(link.rails.iter().all(|rail| rail.concealed == [1]), "each once");
    link.rails[0].exposes = false;
    let (again, one) = link.register(&data(0), 64).expect("exposed");
    assert_eq!((again, table::key_of(one.key, 0), table::key_of(one.key, 1)), (exposure, None, Some(101)));
    link.rails[1].exposes = false;
    assert_eq!(link.register(&data(0), 64), None);
    // The peer's memory is exposed on its second rail only: a write there is proved, even a small one.
    let there = RemoteMemory { key: there.key >> 32 << 32, ..there };
    assert_eq!(link.write(&to, &data(7), 0..9, there, 5), Begun::Yes);
    link.rails[1].end(0, &mut memory);
    assert_eq!((link.poll_completion(), link.rails[1].under_way.len()), (None, 1));
    assert_eq!(end_all(&mut link, &mut memory), [5]);
    assert_eq!(link.write(&to, &data(7), 0..9, RemoteMemory { key: 0, address: 0 }, 6), Begun::Never);
}

#[test]
fn two_processes_of_one_name_are_no_peers() {
    let (mut link, ..) = link(1, Proof::Read);
    let own = link.endpoint_address();
    assert!(link.address_of(&own, 0).is_err());
    let elsewhere = EndpointAddress {
        rails: vec![Candidate { ip: "2001:db8::1".parse().expect("an address"), ..candidate(0, 3) }],
        ..endpoint_address_of(3, 1)
    };
    assert!(link.address_of(&elsewhere, 0).is_err(), "another family");
}

/// The same memory is written again and again, while rails take, end and fail in any order. The writes that a
/// failed rail had on their way arrive at any time until the peer has dropped its end.   Expect: each write
/// is reported once; when it has been, and also in the end, the memory holds it.
#[test]
fn whatever_happens_the_last_write_that_was_told_is_what_the_memory_holds() {
    for seed in 1..400_u64 {
        let mut random = weft_random::Random::new(seed);
        let proof = if random.below(2) == 0 { Proof::Read } else { Proof::Completion };
        let (mut link, to, there) = link(2, proof);
        let (mut memory, mut told, mut next) = (vec![0; PEER_BYTES], 0_u8, 1_u8);
        let (mut has_failed, mut dropped_after) = (false, None);
        while told < 8 {
            if next == told + 1 && link.write(&to, &data(next), WHOLE, there, next.into()) == Begun::Yes {
                next += 1;
            }
            for rail in 0..2 {
                if random.below(4) == 0 {
                    link.rails[rail].answers.push_back(Begun::NotNow);
                }
                let count = link.rails[rail].under_way.len();
                if count > 0 && random.below(2) == 0 {
                    // A rail's work ends in the order in which it was given.
                    link.rails[rail].end(0, &mut memory);
                }
            }
            if !has_failed && random.below(20) == 0 {
                has_failed = true;
                link.rails[1].break_off(0);
                dropped_after = Some(random.below(60));
            }
            if random.below(12) == 0 && !link.rails[1].ghosts.is_empty() {
                let ghost = link.rails[1].ghosts.remove(0);
                memory[ghost.at as usize..][..ghost.length].copy_from_slice(&ghost.data);
            }
            look(&mut link);
            // The peer drops its end when it is told.
            if let Some(rounds) = dropped_after.filter(|_| !link.rails[0].told.is_empty()) {
                dropped_after = rounds.checked_sub(1);
                if rounds == 0 {
                    link.rails[1].ghosts.clear();
                    link.rails[0].hears.push_back((0, 0b10));
                }
            }
            while let Some(number) = link.poll_completion() {
                assert_eq!(number, u64::from(told) + 1, "seed {seed}: each once, in order");
                told += 1;
                assert!(memory.iter().all(|byte| *byte == told), "seed {seed}: write {told} is not in rail");
            }
            let intact = next != told + 1 || memory.iter().all(|byte| *byte == told);
            assert!(intact, "seed {seed}: something arrived after write {told} was told");
        }
        assert_eq!((link.take_broken(), link.under_way(&to)), (None, 0), "seed {seed}");
    }
}
