//! The program that libFuzzer drives (`make fuzz`): it runs the target whose name is in `WEFT_FUZZ_TARGET`.
#![no_main]

use std::sync::OnceLock;

use weft_fuzz::{Target, targets};

static TARGET: OnceLock<&Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("WEFT_FUZZ_TARGET").unwrap_or_default();
        let known = targets().iter().find(|target| target.name == name);
        known.unwrap_or_else(|| panic!("WEFT_FUZZ_TARGET={name} is no target"))
    });
    (target.run)(bytes);
});
