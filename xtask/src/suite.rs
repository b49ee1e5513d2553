//! To be written.

pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    anyhow::bail!("not written yet")
}
