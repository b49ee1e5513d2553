//! Carriers and wrappers that need no privilege keep the promises of `weft-carrier-test`. Raw frames and
//! AF_XDP have tests of their own for that.

mod support;

use std::path::PathBuf;
use support::is_readable;
use weft_carrier_test::{Kit, Pair, check};
use weft_net::capture::{Capture, Ends, Recorder, SharedRecorder};
use weft_net::carrier::{Address, Carrier};
use weft_net::fabric::{self, Fabric, FabricRails};
use weft_net::faults::{Faults, Plan};
use weft_net::shared::SharedLink;
use weft_net::tcp::Tcp;
use weft_net::udp::{Settings, Udp};
use weft_net::verbs::{self, VerbsRails};

fn udp() -> (Udp, Address) {
    let settings = Settings { interfaces: Some("lo".into()), ..Settings::default() };
    let carrier = Udp::bind(&settings).unwrap();
    let own = carrier.candidates()[0];
    (carrier, Address::Udp((own.ip, own.port).into()))
}

/// Makes a pair whose ends both have a wrapper.
fn around<W: Carrier + 'static>(mut wrap: impl FnMut(Udp) -> W) -> Pair {
    let [near, far] = [(); 2].map(|()| {
        let (carrier, own) = udp();
        (wrap(carrier), own)
    });
    Pair::new(near, far)
}

/// Promises of each carrier of packets.
const OF_ALL: [&str; 7] = [
    "it can do what it says, and no more",
    "packets of every length arrive whole, and longer ones never",
    "packets are handed over as asked for, and counted",
    "nothing arrives that was not sent",
    "a train is its packets",
    "it goes on after it was full",
    "whoever sleeps is woken",
];
const REFUSES: &str = "addresses of other carriers are refused";
const ORDER: &str = "each packet arrives once and in order";
const MEMORY: &str = "memory is reached as long as it is registered, and within its limits";

/// Checks that a carrier keeps these promises and `more`, and returns all that it has kept.
fn holds(kit: Kit<'_>, more: &[&str]) -> Vec<&'static str> {
    let kept = check(kit);
    for promise in OF_ALL.iter().chain(more) {
        assert!(kept.contains(promise), "{promise:?} is not among {kept:?}");
    }
    kept
}

#[test]
fn udp_keeps_its_promises() {
    holds(Kit::new(|| Pair::new(udp(), udp()), is_readable), &[REFUSES]);
}

fn tcp(without_placement: bool) -> Tcp {
    let settings = Settings { interfaces: Some("lo".into()), ..Settings::default() };
    Tcp::open(&settings, without_placement).unwrap()
}

/// Makes two ends over TCP that know each other.
fn tcp_pair(without_placement: bool) -> Pair {
    let (mut near, mut far) = (tcp(without_placement), tcp(without_placement));
    let (own, other) = (near.endpoint_address(), far.endpoint_address());
    let at = |address: &weft_net::tcp::EndpointAddress| {
        let first = address.candidates[0];
        (first.ip, first.port).into()
    };
    let there = near.address_of(at(&other), other.token);
    let back = far.address_of(at(&own), own.token);
    Pair::new((near, back), (far, there))
}

#[test]
fn tcp_keeps_its_promises() {
    assert!(holds(Kit::new(|| tcp_pair(false), is_readable), &[REFUSES, ORDER, MEMORY]).len() == 10);
    assert!(!holds(Kit::new(|| tcp_pair(true), is_readable), &[REFUSES, ORDER]).contains(&MEMORY));
}

#[test]
fn shared_memory_between_jobs_keeps_its_promises() {
    let mut pairs = 0;
    let pair = || {
        pairs += 1;
        let key = format!("promises-{}-{pairs}", std::process::id());
        let [near, far] = [0, 1].map(|own| {
            let link = SharedLink::open().unwrap();
            let segment = link.join(&key, own, 2, None).unwrap();
            let there = link.reach(segment, 1 - own, std::process::id() as i32);
            (link, there)
        });
        Pair::new((near.0, far.1), (far.0, near.1))
    };
    holds(Kit::new(pair, is_readable), &[REFUSES, ORDER]);
}

#[test]
fn a_pointer_to_a_carrier_is_that_carrier() {
    holds(Kit::new(|| around(|udp| Box::new(udp) as Box<dyn Carrier>), is_readable), &[REFUSES]);
}

#[test]
fn faults_that_are_not_wanted_do_nothing() {
    holds(Kit::new(|| around(|udp| Faults::new(udp, Plan::default())), is_readable), &[REFUSES]);
}

#[test]
fn a_carrier_that_loses_packets_keeps_its_promises() {
    let mut seed = 0;
    let lossy = || {
        around(|udp| {
            seed += 1;
            let plan = Plan::parse(&format!("drop=5%,duplicate=3%,reorder=5%,seed={seed}")).unwrap();
            Faults::new(udp, plan)
        })
    };
    holds(Kit::new(lossy, is_readable).that_loses(), &[]);
}

/// A file for the packets of a test, removed when this is dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-promises-{name}-{}.pcapng", std::process::id())))
    }

    fn recorder(&self) -> SharedRecorder {
        Recorder::create(&self.0, Box::new(|why| panic!("{why}"))).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_capture_changes_nothing() {
    let file = File::new("udp");
    let recorder = file.recorder();
    let captured = || around(|udp| Capture::new(udp, &recorder, Vec::new()));
    holds(Kit::new(captured, is_readable), &[REFUSES]);
}

/// Opens two endpoints of a provider of libfabric over loopback; `None` without the provider.
fn endpoints(provider: &str) -> Option<Pair> {
    let (near, far) = (endpoint(provider)?, endpoint(provider)?);
    Some(meet(near, far, |carrier, _| Box::new(carrier)))
}

fn endpoint(provider: &str) -> Option<Fabric> {
    let settings = fabric::Settings {
        provider: Some(provider.into()),
        interfaces: Some("lo".into()),
        ..fabric::Settings::default()
    };
    match Fabric::open(&settings) {
        Ok(endpoint) => Some(endpoint),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn meet(mut near: Fabric, mut far: Fabric, wrap: impl Fn(Fabric, Ends) -> Box<dyn Carrier>) -> Pair {
    let there = near.address_of(&far.endpoint_address()).unwrap();
    let back = far.address_of(&near.endpoint_address()).unwrap();
    let ends = [(near.own_address(), there), (far.own_address(), back)];
    joined([near, far], ends, wrap)
}

/// Makes a pair of wrapped ends. Each end comes with its own address, and with the other end's address as it
/// knows it.
fn joined<C>(
    [near, far]: [C; 2],
    [(near_own, there), (far_own, back)]: [(Address, Address); 2],
    wrap: impl Fn(C, Ends) -> Box<dyn Carrier>,
) -> Pair {
    let near = wrap(near, Ends { own: near_own, peer: there });
    let far = wrap(far, Ends { own: far_own, peer: back });
    Pair::new((near, back), (far, there))
}

#[test]
fn endpoints_of_libfabric_keep_their_promises() {
    if endpoints("udp").is_some() {
        holds(Kit::new(|| endpoints("udp").unwrap(), is_readable), &[REFUSES]);
    }
    if endpoints("tcp").is_some() {
        let more = [REFUSES, ORDER];
        holds(Kit::new(|| endpoints("tcp").unwrap(), is_readable), &more);
    }
}

#[test]
fn endpoints_of_libfabric_with_a_capture_around_them_reach_memory_as_without() {
    let file = File::new("fabric");
    let recorder = file.recorder();
    let pair = || -> Option<Pair> {
        let (near, far) = (endpoint("tcp")?, endpoint("tcp")?);
        Some(meet(near, far, |carrier, ends| Box::new(Capture::new(carrier, &recorder, vec![vec![ends]]))))
    };
    let Some(first) = pair() else { return };
    let reaches = first.near.carrier.attributes().remote_memory.is_some();
    let kept = check(Kit::new(|| pair().unwrap(), is_readable));
    assert_eq!(kept.contains(&MEMORY), reaches);
    let plain = endpoints("tcp").unwrap();
    assert_eq!(plain.near.carrier.attributes().remote_memory.is_some(), reaches, "a capture turns nothing off");
}

#[test]
fn endpoints_on_several_rails_are_one_carrier() {
    let rails = || -> Option<Pair> {
        let [near, far] = [(endpoint("udp")?, endpoint("udp")?), (endpoint("udp")?, endpoint("udp")?)];
        let ((mut a, b), (mut c, d)) = (near, far);
        let (there, back) =
            (a.address_of(&c.endpoint_address()).unwrap(), c.address_of(&a.endpoint_address()).unwrap());
        let [near, far] = [vec![a, b], vec![c, d]].map(|endpoints| FabricRails::new(endpoints).unwrap());
        Some(Pair::new((near, back), (far, there)))
    };
    if rails().is_some() {
        holds(Kit::new(|| rails().unwrap(), is_readable), &[REFUSES]);
    }
}

/// Opens two ends that use this machine's RDMA devices by these operations; `None` without a device.
fn devices(mode: verbs::Mode, wrap: impl Fn(VerbsRails, Ends) -> Box<dyn Carrier>) -> Option<Pair> {
    let settings = verbs::Settings { mode, ..verbs::Settings::default() };
    let open = || match VerbsRails::open(&settings) {
        Ok(devices) => Some(devices),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    };
    let (mut near, mut far) = (open()?, open()?);
    let there = near.address_of(&far.endpoint_address(), 0).unwrap();
    let back = far.address_of(&near.endpoint_address(), 0).unwrap();
    let ends = [(near.own_address(), there), (far.own_address(), back)];
    Some(joined([near, far], ends, wrap))
}

#[test]
fn rdma_devices_keep_their_promises() {
    for (name, mode) in verbs::Mode::ALL {
        let pair = || devices(mode, |carrier, _| Box::new(carrier));
        let Some(first) = pair() else { return };
        let reaches = first.near.carrier.attributes().remote_memory.is_some();
        drop(first);
        let more: &[&str] = if reaches { &[REFUSES, ORDER, MEMORY] } else { &[REFUSES, ORDER] };
        println!("by {name}: {:?}", holds(Kit::new(|| pair().unwrap(), is_readable), more));
    }
}

#[test]
fn rdma_devices_with_a_capture_around_them_reach_memory_as_without() {
    let file = File::new("verbs");
    let recorder = file.recorder();
    let pair = || {
        let captured = |carrier, ends| Box::new(Capture::new(carrier, &recorder, vec![vec![ends]])) as Box<dyn Carrier>;
        devices(verbs::Mode::Auto, captured)
    };
    if pair().is_some() {
        holds(Kit::new(|| pair().unwrap(), is_readable), &[REFUSES, ORDER, MEMORY]);
    }
}
