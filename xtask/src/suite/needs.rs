//! What a case needs that not every machine has: without it the case is skipped, and the reason is told.

use rustix::process::geteuid;

use super::context::Context;
use super::libfabric;
use super::process::Run;

/// Headers of libfabric, wherever Debian has them.
const HEADERS: [&str; 2] = ["/usr/include/rdma/fabric.h", "/usr/local/include/rdma/fabric.h"];

#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// The two hosts have networks of their own.
    Networks,
    /// So do the two hosts with two interfaces each.
    NetworksOnRails,
    Libfabric,
    LibfabricHeaders,
    /// What filters packets.
    Nft,
    /// What takes captures apart.
    Tshark,
    /// What attaches programs to interfaces of the hosts.
    AttachedPrograms,
    Root,
}

impl Need {
    /// Why it is not to be had here.
    ///
    /// # Errors
    /// It is not known: hosts cannot be made for a reason that is no property of the machine.
    pub(super) fn missing(self, context: &Context) -> anyhow::Result<Option<String>> {
        let unless = |is_here: bool, why: &str| (!is_here).then(|| why.to_owned());
        Ok(match self {
            Need::Networks => context.hosts()?.why_no_networks(),
            Need::NetworksOnRails => context.hosts_on_rails()?.why_no_networks(),
            Need::Libfabric => unless(libfabric::is_here(context), "libfabric is not installed"),
            Need::LibfabricHeaders => {
                let is_here = HEADERS.iter().any(|path| std::path::Path::new(path).exists());
                unless(is_here, "libfabric's headers are not installed")
            }
            Need::Nft => unless(answers("nft"), "needs nft (Debian has it in the package nftables)"),
            Need::Tshark => unless(answers("tshark"), "no tshark here; as root, tools/setup.sh tests installs it"),
            Need::AttachedPrograms => {
                let is_root = !context.hosts()?.are_without_root();
                unless(is_root, "AF_XDP needs root: the kernel takes programs from nobody else")
            }
            Need::Root => unless(geteuid().is_root(), "only root can become another user"),
        })
    }
}

/// Whether a program says its version.
fn answers(program: &str) -> bool {
    Run::new(program).arg("-v").finish().is_ok_and(|finished| finished.code == Some(0))
}
