//! Runs over libfabric.

use super::context::Context;
use super::process::Run;

/// The setting that puts libfabric in UDP's place.
pub(super) const LINK: &str = "shared,fabric";

/// The run over endpoints of this provider.
pub(super) fn by(provider: &str, run: Run) -> Run {
    run.env("WEFT_LINK", LINK).env("WEFT_FABRIC_PROVIDER", provider)
}

pub(super) fn is_here(context: &Context) -> bool {
    let info = Run::new(context.bin("weft")).arg("info").env("WEFT_LINK", LINK).env("WEFT_INTERFACE", "lo").finish();
    let report = info.map(|info| info.report()).unwrap_or_default();
    !report.contains("libfabric is not to be had")
}
