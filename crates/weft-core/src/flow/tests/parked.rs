//! Flows that are parked when they are idle, and go on as if nothing had been.

use super::*;

impl Side {
    /// Parks and unparks the flow; returns the counters that it had.
    fn repark(&mut self) -> Counters {
        let (own, peer) = if self.flow.own_index == 1 { (1, 2) } else { (2, 1) };
        let settings = self.flow.settings.clone();
        let flow = core::mem::replace(
            &mut self.flow,
            Flow::new(settings.clone(), &secret(), &Parties::of_only_job(own, peer)),
        );
        let (parked, counters) = flow.park();
        self.flow = Flow::unpark(parked, settings, &secret(), &Parties::of_only_job(own, peer));
        counters
    }
}

fn talks_on(settings: &Settings) {
    let mut pair = Pair::new(settings);
    for round in 0..5_u8 {
        // Messages and bulk data both ways, and the first packet of one side is lost.
        for _ in 0..20 {
            pair.a.flow.submit_message(&[round], &[1; 100]);
            pair.b.flow.submit_message(&[round], &[2; 50]);
        }
        pair.a.flow.submit_data(round.into(), 3, 0..10_000);
        let mut packets = pair.a.packets(pair.now);
        packets.remove(0);
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        pair.run_until_idle();
        assert_eq!(pair.a.acknowledged(), 10_000);
        let counters = [pair.a.repark(), pair.b.repark()];
        assert_eq!(counters[0].messages_sent, 20, "they count from zero again");
        // A packet that was delivered before comes once more.   Expect: known, and answered at most.
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        assert_eq!(pair.b.flow.counters().duplicates, packets.len() as u64);
        pair.run_until_idle();
    }
    let order: Vec<u8> = pair.b.memory.messages.iter().map(|message| message[0]).collect();
    assert!(order.is_sorted() && order.len() == 100 && pair.a.memory.messages.len() == 100);
    let placed: usize = pair.b.memory.placed.iter().map(|(_, _, bytes)| bytes.len()).sum();
    assert_eq!(placed, 50_000);
}

#[test]
fn a_folded_flow_goes_on_where_it_was() {
    talks_on(&small());
}

#[test]
fn so_does_a_sealed_one_and_one_with_ways_of_bulk_data() {
    talks_on(&Settings { sealed: true, ..small() });
    talks_on(&Settings { bulk_paths: 1, ..small() });
    talks_on(&Settings { bulk_paths: 3, ..small() });
}

#[test]
fn what_is_in_use_is_not_foldable() {
    let mut pair = Pair::new(&small());
    assert!(pair.a.flow.can_park());
    pair.a.flow.watch(true);
    assert!(!pair.a.flow.can_park(), "somebody waits for the peer");
    pair.a.flow.watch(false);
    pair.a.flow.submit_message(&[1], &[]);
    pair.a.flow.submit_data(0, 0, 0..100);
    assert!(!pair.a.flow.can_park(), "it has something to send");
    let packets = pair.a.packets(pair.now);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    assert!(!pair.b.flow.can_park(), "it owes an acknowledgement");
    pair.run_until_idle();
    assert!(pair.b.flow.can_park() && !pair.a.flow.can_park(), "nobody has heard that the data arrived");
    assert_eq!(pair.a.acknowledged(), 100);
    assert!(pair.a.flow.can_park());
}

#[test]
fn behind_a_gap_nothing_is_forgotten() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..2_000);
    let mut packets = pair.a.packets(pair.now);
    packets.remove(1);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let _ = pair.b.packets(now);
    assert!(pair.b.flow.is_idle() && !pair.b.flow.can_park());
}
