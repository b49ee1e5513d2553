//! Tests of captures: a capture holds the packets of the link, its size is bounded, and its failure never
//! disturbs the link.

use super::*;
use crate::carrier::{
    Begun, CarrierAttributes, Delivery, Diagnostics, Look, Multicast, MulticastAttributes, Placement, Proof,
    Registration, RemoteMemory, RemoteMemoryAccess, receive_packets, send_one_by_one,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc;
use weft_engine::memory::UserData;

const MIRROR: CarrierAttributes = CarrierAttributes::packets("mirror", 1500, Look::Memory);

/// A carrier that returns the packets that it is sent.
#[derive(Default)]
struct Mirror(VecDeque<Vec<u8>>);

impl Carrier for Mirror {
    fn attributes(&self) -> &CarrierAttributes {
        &MIRROR
    }

    fn send(&mut self, _: &Address, packet: &[u8]) -> io::Result<Outcome> {
        self.0.push_back(packet.to_vec());
        Ok(Outcome::Sent)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        let count = self.0.len().min(limit);
        self.0.drain(..count).for_each(|packet| on_arrival(Arrival::packet(&packet)));
        count
    }

    fn prepare_sleep(&mut self) -> bool {
        false
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics::default()
    }

    fn under_way(&self, _: &Address) -> usize {
        0
    }

    fn take_broken(&mut self) -> Option<Address> {
        None
    }
}

struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-capture-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("0.pcapng")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const OWN: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
const PEER: ([u8; 4], u16) = ([10, 0, 0, 2], 2000);

fn ends() -> Vec<Vec<Ends>> {
    let udp = |end: ([u8; 4], u16)| Address::Udp(SocketAddr::from(end));
    vec![vec![], vec![Ends { own: udp(OWN), peer: udp(PEER) }]]
}

/// Makes a packet that says it is from the process with this index.
fn packet(sender: u8, length: usize) -> Vec<u8> {
    let mut packet = vec![0x55; length];
    packet[8..12].copy_from_slice(&[sender, 0, 0, 0]);
    packet
}

/// Returns the packets in a file: interface, direction, length of the whole, and the bytes that were kept.
fn packets(file: &[u8]) -> Vec<(u32, u32, usize, Vec<u8>)> {
    let mut rest = file;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let length = word(4) as usize;
        if word(0) == 6 {
            let (kept, whole) = (word(20) as usize, word(24) as usize);
            let flags = word(28 + kept.next_multiple_of(4) + 4);
            packets.push((word(8), flags, whole, rest[28..28 + kept].to_vec()));
        }
        rest = &rest[length..];
    }
    packets
}

#[test]
fn what_is_sent_and_received_is_in_the_file_as_soon_as_the_link_is_idle() {
    let directory = TestDirectory::new("idle");
    let recorder = Recorder::create(&directory.file(), Box::new(|why| panic!("{why}"))).unwrap();
    let mut link = Capture::new(Mirror::default(), &recorder, ends());
    let to = ends()[1][0].peer;
    link.send(&to, &packet(1, 60)).unwrap();
    let train = [packet(1, 1000), packet(1, 1000), packet(1, 30)].concat();
    assert_eq!(link.send_train(&to, &train, 1000).unwrap(), 2030);
    let mut received = 0;
    assert_eq!((receive_packets(&mut link, &mut |_| received += 1, 64), received), (4, 4));
    assert_eq!(receive_packets(&mut link, &mut |_| received += 1, 64), 0);

    let found = packets(&fs::read(directory.file()).unwrap());
    let shape: Vec<_> =
        found.iter().map(|(interface, flags, whole, kept)| (*interface, *flags, *whole, kept.len())).collect();
    let once = |flags| [60, 1000, 1000, 30].map(|n| (0, flags, 42 + n, 42 + n.min(PACKET_BYTES_MAX)));
    assert_eq!(shape, [once(2), once(1)].concat());
    assert_eq!(found[0].3[26..38], [10, 0, 0, 1, 10, 0, 0, 2, 3, 0xe8, 7, 0xd0], "ours leave from here");
    assert_eq!(found[4].3[26..38], [10, 0, 0, 2, 10, 0, 0, 1, 7, 0xd0, 3, 0xe8], "theirs come from there");
    assert_eq!(found[4].3[42..], packet(1, 60));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(directory.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_packet_that_claims_an_unknown_sender_is_captured_as_from_nowhere() {
    let directory = TestDirectory::new("unknown");
    let recorder = Recorder::create(&directory.file(), Box::new(|why| panic!("{why}"))).unwrap();
    let mut link = Capture::new(Mirror(VecDeque::from([packet(7, 40), vec![1, 2]])), &recorder, ends());
    receive_packets(&mut link, &mut |_| {}, 64);
    receive_packets(&mut link, &mut |_| {}, 64);
    let found = packets(&fs::read(directory.file()).unwrap());
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(_, _, _, kept)| kept[26..34] == [0; 8]));
}

#[test]
fn the_latest_packets_are_kept_in_two_files() {
    let directory = TestDirectory::new("turns");
    let recorder = Recorder::with_limit(&directory.file(), Box::new(|why| panic!("{why}")), 10_000).unwrap();
    let mut link = Capture::new(Mirror::default(), &recorder, ends());
    let to = ends()[1][0].peer;
    for i in 0..200 {
        let mut packet = packet(1, 200);
        packet[100] = i;
        link.send(&to, &packet).unwrap();
        receive_packets(&mut link, &mut |_| {}, 0);
    }
    drop((link, recorder));
    let numbers = |path: &Path| {
        let file = fs::read(path).unwrap();
        assert!(file.len() < 11_000, "{} bytes", file.len());
        packets(&file).iter().map(|packet| packet.3[142]).collect::<Vec<u8>>()
    };
    let before = numbers(&directory.0.join("0.pcapng.1"));
    let now = numbers(&directory.file());
    assert!(before.len() > 20 && !before.contains(&0));
    assert_eq!(
        [before, now].concat().iter().rev().take(40).rev().copied().collect::<Vec<_>>(),
        (160..200).collect::<Vec<_>>()
    );
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
}

#[test]
fn a_full_disk_is_told_once_and_the_link_works_on() {
    let directory = TestDirectory::new("full");
    let (tell, told) = mpsc::channel();
    let recorder =
        Recorder::create(&directory.file(), Box::new(move |why| tell.send(why.to_owned()).unwrap())).unwrap();
    recorder.lock().unwrap().file = Some(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut link = Capture::new(Mirror::default(), &recorder, ends());
    let mut received = 0;
    for _ in 0..5 {
        link.send(&ends()[1][0].peer, &packet(1, 60)).unwrap();
        while receive_packets(&mut link, &mut |_| received += 1, 64) > 0 {}
    }
    drop((link, recorder));
    let told: Vec<String> = told.try_iter().collect();
    assert_eq!((received, told.len()), (5, 1), "{told:?}");
    assert!(told[0].contains("0.pcapng cannot be written") && told[0].contains("the job goes on"), "{told:?}");
}

#[test]
fn what_somebody_has_put_where_the_file_shall_be_is_replaced_and_not_written_to() {
    let directory = TestDirectory::new("planted");
    let target = directory.0.join("target");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, directory.file()).unwrap();
    let open_now = |path: &Path| open(path).unwrap().write_all(b"packets").unwrap();
    open_now(&directory.file());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    // Another user has already opened the file, to read the packets.
    fs::remove_file(directory.file()).unwrap();
    fs::hard_link(&target, directory.file()).unwrap();
    open_now(&directory.file());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert_eq!(fs::read(directory.file()).unwrap(), b"packets");
}

/// A carrier that writes to memory of peers and multicasts.
#[derive(Default)]
struct Able {
    written: Vec<(Range<u64>, u64)>,
    deregistered: Vec<Registration>,
    joined: Vec<Address>,
}

const PLACEMENT: Placement = Placement {
    writes: true,
    reads: true,
    bytes_max: 1 << 30,
    bytes_min: 1 << 14,
    eager_max: 1 << 15,
    one_sided_min: 1,
    proof: Proof::Completion,
    tells: false,
    unasked: false,
};
const GROUP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 192, 0, 1)), 7);
const ABLE: CarrierAttributes = CarrierAttributes {
    delivery: Delivery::Ordered,
    train_bytes: 64_000,
    descriptor: Some(1),
    remote_memory: Some(PLACEMENT),
    multicast: Some(MulticastAttributes { packet_size: 1300, receives: Some(20) }),
    ..CarrierAttributes::packets("able", 1400, Look::Memory)
};

impl Carrier for Able {
    fn attributes(&self) -> &CarrierAttributes {
        &ABLE
    }

    fn send(&mut self, _: &Address, _: &[u8]) -> io::Result<Outcome> {
        Ok(Outcome::Sent)
    }

    fn send_train(&mut self, _: &Address, train: &[u8], _: usize) -> io::Result<usize> {
        Ok(train.len())
    }

    fn receive(&mut self, _: &mut dyn FnMut(Arrival<'_>), _: usize) -> usize {
        0
    }

    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics { rejected: 3, written: 4, last_refusal: Some("no".into()) }
    }

    fn under_way(&self, _: &Address) -> usize {
        5
    }

    fn take_broken(&mut self) -> Option<Address> {
        Some(GROUP.into())
    }

    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        Some(self)
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        Some(self)
    }
}

impl RemoteMemoryAccess for Able {
    fn register(&mut self, _: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        Some((Registration(6), RemoteMemory { key: 7, address: length }))
    }

    fn deregister(&mut self, registration: Registration) {
        self.deregistered.push(registration);
    }

    fn write(&mut self, _: &Address, _: &UserData, range: Range<u64>, _: RemoteMemory, number: u64) -> Begun {
        self.written.push((range, number));
        Begun::Yes
    }

    fn read(&mut self, _: &Address, _: &UserData, _: Range<u64>, _: RemoteMemory, _: u64) -> Begun {
        Begun::NotNow
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.written.pop().map(|(_, number)| number)
    }
}

impl Multicast for Able {
    fn address(&self, _: u64, _: u64) -> Address {
        GROUP.into()
    }

    fn join(&mut self, group: &Address, _: bool) -> io::Result<()> {
        self.joined.push(*group);
        Ok(())
    }

    fn leave(&mut self, _: &Address) {
        self.joined.clear();
    }
}

#[test]
fn a_capture_turns_off_nothing_that_the_carrier_can_do() {
    let directory = TestDirectory::new("able");
    let recorder = Recorder::create(&directory.file(), Box::new(|_| ())).unwrap();
    let mut link = Capture::new(Able::default(), &recorder, ends());
    assert_eq!(*link.attributes(), ABLE);
    let (data, to) = (UserData::leaked(64), Address::from(GROUP));
    let rma = link.rma().unwrap();
    let (registration, there) = rma.register(&data, 64).unwrap();
    assert_eq!((registration, there), (Registration(6), RemoteMemory { key: 7, address: 64 }));
    assert_eq!(rma.write(&to, &data, 8..16, there, 9), Begun::Yes);
    assert_eq!(rma.poll_completion(), Some(9));
    assert_eq!(rma.read(&to, &data, 8..16, there, 9), Begun::NotNow);
    rma.deregister(registration);
    assert_eq!(link.inner.deregistered, [registration]);
    let groups = link.multicast().unwrap();
    assert_eq!(groups.address(1, 2), to);
    groups.join(&to, true).unwrap();
    assert_eq!(link.inner.joined, [to]);
    assert_eq!((link.prepare_sleep(), link.under_way(&to), link.take_broken()), (true, 5, Some(to)));
    assert_eq!(link.diagnostics(), Diagnostics { rejected: 3, written: 4, last_refusal: Some("no".into()) });
}
