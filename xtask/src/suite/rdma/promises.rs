//! Runs the kit of carriers' promises (`weft-carrier-test`) over the device of a guest.

use super::super::context::Expected;
use super::super::guests::{Device, Guests};
use super::super::{Case, built};
use super::{LIMIT, on, start};

/// The case of the tests in `promises.rs` about RDMA devices; each of the tests finds a device.
pub(super) fn case(device: Device) -> Case {
    Case::new(format!("{}: the device keeps what carriers promise", device.name()), move |context| {
        let run = |guests: &Guests| {
            let tests = ["test", "--package", "weft-net", "--test", "promises", "--no-run"];
            let program = built::by_cargo(context, &tests)?.to_string_lossy().into_owned();
            let words = [&program, "rdma_devices", "--nocapture", "--test-threads", "1"];
            start(context, guests, 1, &[], &words)?.finish(LIMIT)
        };
        let expected = Expected::code(0).says("2 passed").never_says("skipped");
        // iWARP has no datagrams, and so no groups.
        let expected = match device {
            Device::Siw => expected,
            Device::Rxe => expected.says("what is sent to a group reaches its members"),
        };
        on(context, device, 2, &expected, run)
    })
}
