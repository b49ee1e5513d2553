//! Tests of the promises about multicast groups.

use weft_engine::transport::Outcome;

use super::{Kit, LOOK, name};

/// Names of a job's group, and of another job's group.
const GROUP: (u64, u64) = (0x7765_6674, 1);
const OTHER: (u64, u64) = (0x7765_6674, 2);
const PACKET: [u8; 100] = [5; 100];

pub(crate) fn groups(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let name = name(&pair);
    let address = |end: &mut super::End, (job, group)| Some(end.carrier.multicast()?.address(job, group));
    let (Some(to), Some(same)) = (address(&mut pair.near, GROUP), address(&mut pair.far, GROUP)) else { return false };
    assert_eq!(to, same, "{name}: both ends call a group by one address");
    assert!(to.is_group(), "{name}: {to} is the address of a group");
    assert_ne!(Some(to), address(&mut pair.near, OTHER), "{name}: two groups have two addresses");
    let joined = [(&mut pair.near, false), (&mut pair.far, true)]
        .map(|(end, receives)| end.carrier.multicast().expect("it has groups").join(&to, receives));
    if joined.iter().any(Result::is_err) {
        // A machine without a route for groups may refuse.
        return false;
    }
    let mut arrived = 0;
    kit.until(&mut pair, "a packet to a group should reach a member", |kit, pair| {
        let sent = pair.near.carrier.send(&to, &PACKET).expect("the address is one of its own");
        assert_ne!(sent, Outcome::TooLarge, "{name}: 100 bytes are not too many for a group");
        kit.look(pair, &mut |arrival| {
            assert!(arrival.to_group && arrival.packets().all(|packet| packet == PACKET), "{name}: what was sent");
            arrived += 1;
        });
        arrived > 0
    });
    for _ in 0..1_000 {
        let own = pair.near.carrier.receive(&mut |_| {}, LOOK);
        assert_eq!(own, 0, "{name}: who has not joined to receive hears nothing");
        (kit.pass)();
    }
    // A packet that was sent before the end left may still be there.
    pair.far.carrier.multicast().expect("it has groups").leave(&to);
    for _ in 0..1_000 {
        kit.look(&mut pair, &mut |_| {});
    }
    for _ in 0..100 {
        let _ = pair.near.carrier.send(&to, &PACKET);
        kit.look(&mut pair, &mut |_| panic!("{name}: who has left a group hears it"));
    }
    true
}
