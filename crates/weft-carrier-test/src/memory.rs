//! Tests of the promises about remote memory access: writes to the memory of peers, and reads from it.

use std::time::Duration;

use weft_engine::memory::UserData;
use weft_engine::transport::{Address, Begun, Registration, RemoteMemory};

use super::{Kit, LOOK, Pair, name};

/// Bytes that are registered; as many behind them are not.
const BYTES: usize = 8_192;
/// Looks after which a forbidden access counts as having done nothing.
const LOOKS: usize = 5_000;

/// Begins an access by the near end as soon as there is room, and looks once more.
fn begin(kit: &mut Kit<'_>, pair: &mut Pair, access: impl FnMut(&mut Pair, &Address) -> Begun) -> bool {
    let begun = begin_only(kit, pair, access);
    kit.look(pair, &mut |_| {});
    begun
}

/// Begins an access by the near end as soon as there is room.
fn begin_only(kit: &mut Kit<'_>, pair: &mut Pair, mut access: impl FnMut(&mut Pair, &Address) -> Begun) -> bool {
    let (mut begun, to) = (Begun::NotNow, pair.near.peer);
    kit.until(pair, "it should have room for an access", |kit, pair| {
        begun = access(pair, &to);
        if begun == Begun::NotNow {
            kit.look(pair, &mut |_| {});
        }
        begun != Begun::NotNow
    });
    begun == Begun::Yes
}

/// Looks until the access of this number is complete.
fn complete(kit: &mut Kit<'_>, pair: &mut Pair, number: u64) {
    kit.until(pair, "an access should be completed", |kit, pair| {
        kit.look(pair, &mut |_| {});
        let done = pair.near.carrier.rma().and_then(|rma| rma.poll_completion());
        assert!(done.is_none_or(|done| done == number), "access {done:?} was not begun");
        done.is_some()
    });
}

/// Writes once more, and sleeps whenever the near end allows it: its descriptor must tell when the access is
/// complete.
fn wakes(kit: &mut Kit<'_>, pair: &mut Pair, own: &UserData, there: RemoteMemory) {
    let Some(descriptor) = pair.near.carrier.attributes().descriptor else { return };
    let (number, bytes) = (20, own.len());
    let begun = begin_only(kit, pair, |pair, to| {
        pair.near.carrier.rma().map_or(Begun::Never, |rma| rma.write(to, own, 0..bytes, there, number))
    });
    assert!(begun, "{}: it writes again", name(pair));
    kit.until(pair, "an end that sleeps should be told of a completed access", |kit, pair| {
        (kit.pass)();
        pair.far.carrier.receive(&mut |_| {}, LOOK);
        if pair.near.carrier.prepare_sleep() && !(kit.is_readable)(descriptor, Duration::from_millis(1)) {
            return false;
        }
        pair.near.carrier.receive(&mut |_| {}, LOOK);
        pair.near.carrier.rma().and_then(|rma| rma.poll_completion()) == Some(number)
    });
}

/// Looks until the far end has been told of all bytes of a write from `at` on, and of no others. It sleeps
/// whenever it may, if it `sleeps`.
fn is_told(kit: &mut Kit<'_>, pair: &mut Pair, (registration, at, length): (Registration, u64, u64), sleeps: bool) {
    let mut told = at;
    let descriptor = pair.far.carrier.attributes().descriptor.filter(|_| sleeps);
    kit.until(pair, "the process whose memory it is should be told of a write", |kit, pair| {
        if let Some(descriptor) = descriptor {
            (kit.pass)();
            pair.near.carrier.receive(&mut |_| {}, LOOK);
            if pair.far.carrier.prepare_sleep() && !(kit.is_readable)(descriptor, Duration::from_millis(1)) {
                return false;
            }
            pair.far.carrier.receive(&mut |_| {}, LOOK);
        } else {
            kit.look(pair, &mut |_| {});
        }
        while let Some(written) = pair.far.carrier.rma().and_then(|rma| rma.poll_written()) {
            assert_eq!((written.registration, written.offset), (registration, told), "{}: what is told", name(pair));
            told += written.length;
        }
        assert!(told <= at + length, "{}: more is told than was written", name(pair));
        told == at + length
    });
}

/// Begins a write that must have no effect, and looks for long.
fn write_in_vain(kit: &mut Kit<'_>, pair: &mut Pair, own: &UserData, there: RemoteMemory, number: u64) {
    let bytes = own.len();
    begin(kit, pair, |pair, to| {
        pair.near.carrier.rma().map_or(Begun::Never, |rma| rma.write(to, own, 0..bytes, there, number))
    });
    for _ in 0..LOOKS {
        kit.look(pair, &mut |_| {});
    }
}

fn bytes(data: &UserData) -> Vec<u8> {
    let mut bytes = vec![0; data.len() as usize];
    data.read(0, &mut bytes);
    bytes
}

pub(crate) fn access(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let Some(limits) = pair.near.carrier.attributes().remote_memory else { return false };
    assert!(limits.writes && limits.bytes_max > 0, "{}: who reaches memory writes to it", name(&pair));
    let (own, theirs) = (UserData::leaked(BYTES), UserData::leaked(2 * BYTES));
    let content: Vec<u8> = (0..BYTES).map(|at| (at * 3 + at / 256 + 1) as u8).collect();
    own.write(0, &content);
    let registered = pair.far.carrier.rma().and_then(|rma| rma.register(&theirs, BYTES as u64));
    let (registration, memory) = registered.expect("it registers memory");
    // All bytes, a single byte, and a part from inside to inside.
    for (number, (range, at)) in (1..).zip([(0..BYTES, 0), (7..8, 100), (1_000..3_000, 1_001)]) {
        let range_u64 = range.start as u64..range.end as u64;
        let there = RemoteMemory { address: memory.address + at as u64, ..memory };
        theirs.write(0, &vec![0; 2 * BYTES]);
        let begun = begin(kit, &mut pair, |pair, to| {
            pair.near.carrier.rma().map_or(Begun::Never, |rma| rma.write(to, &own, range_u64.clone(), there, number))
        });
        assert!(begun, "{}: it writes {range:?}", name(&pair));
        complete(kit, &mut pair, number);
        let mut expected = vec![0; 2 * BYTES];
        expected[at..at + range.len()].copy_from_slice(&content[range.clone()]);
        // The carrier may report a write that has only left.
        kit.until(&mut pair, "what is written should be there", |kit, pair| {
            kit.look(pair, &mut |_| {});
            bytes(&theirs) == expected
        });
        if limits.tells {
            is_told(kit, &mut pair, (registration, at as u64, range.len() as u64), false);
        }
    }
    if limits.reads {
        theirs.write(0, &content);
        own.write(0, &[0; BYTES]);
        let there = RemoteMemory { address: memory.address + 10, ..memory };
        let begun = begin(kit, &mut pair, |pair, to| {
            pair.near.carrier.rma().map_or(Begun::Never, |rma| rma.read(to, &own, 20..520, there, 9))
        });
        assert!(begun, "{}: it reads", name(&pair));
        complete(kit, &mut pair, 9);
        let read = bytes(&own);
        assert_eq!(read[20..520], content[10..510], "{}: what is read", name(&pair));
        assert!(
            read[..20].iter().chain(&read[520..]).all(|byte| *byte == 0),
            "{}: no more than asked for",
            name(&pair)
        );
    }
    wakes(kit, &mut pair, &own, memory);
    if limits.tells {
        // The write before, and another.
        is_told(kit, &mut pair, (registration, 0, BYTES as u64), false);
        let begun = begin_only(kit, &mut pair, |pair, to| {
            pair.near.carrier.rma().map_or(Begun::Never, |rma| rma.write(to, &own, 0..BYTES as u64, memory, 21))
        });
        assert!(begun, "{}: it writes again", name(&pair));
        is_told(kit, &mut pair, (registration, 0, BYTES as u64), true);
        complete(kit, &mut pair, 21);
    }
    // Each of these has another connection, because the connection may break by it.
    own.write(0, &[7; BYTES]);
    theirs.write(0, &vec![0; 2 * BYTES]);
    let beyond = RemoteMemory { address: memory.address + 1, ..memory };
    write_in_vain(kit, &mut pair, &own, beyond, 10);
    assert!(bytes(&theirs)[BYTES..].iter().all(|byte| *byte == 0), "{}: a write beyond the end", name(&pair));
    let rma = pair.far.carrier.rma().expect("it has remote memory");
    rma.deregister(registration);
    let mut pair = kit.pair();
    let registered = pair.far.carrier.rma().and_then(|rma| rma.register(&theirs, BYTES as u64));
    let (registration, memory) = registered.expect("it registers memory");
    pair.far.carrier.rma().expect("it has remote memory").deregister(registration);
    theirs.write(0, &vec![0; 2 * BYTES]);
    write_in_vain(kit, &mut pair, &own, memory, 11);
    assert!(bytes(&theirs).iter().all(|byte| *byte == 0), "{}: a write to memory that is given back", name(&pair));
    true
}
