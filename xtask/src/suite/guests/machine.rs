//! The hardware of a guest, and the emulator's options for it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::super::process;

pub(super) const EMULATOR: &str = "qemu-system-x86_64";
/// The memory of a guest, in MiB.
const MEMORY_MIB: u32 = 1024;
/// The processor of a guest that counts. The emulator counts each round of a repeated string instruction as
/// an instruction. On a processor with fast string instructions (ERMS, FSRM), Linux copies and clears memory
/// with one instruction whose rounds are bytes: 4096 for a page, where a real processor counts one. Without
/// them Linux copies by words.
const COUNTING_PROCESSOR: &str = "max,-erms,-fsrm";
/// The most interfaces of a guest, each on a network of its own.
pub(super) const INTERFACES_MAX: u32 = 2;

/// The hardware of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) memory_mib: u32,
    /// Says whether the guest's clock goes on by a nanosecond with each instruction, and by the real time
    /// while the guest is idle.
    pub(crate) counts: bool,
    /// The number of interfaces, each with an RDMA device.
    pub(crate) interfaces: u32,
    /// Says whether the interfaces have only IPv6 addresses.
    pub(crate) is_v6: bool,
    /// Says whether `siw` hands on segments of up to 64 KB, which the kernel cuts.
    pub(crate) has_large_segments: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self { memory_mib: MEMORY_MIB, counts: false, interfaces: 1, is_v6: false, has_large_segments: false }
    }
}

/// The directory of the image, the directory that guests share with this program, and the number of this
/// program's group of guests.
pub(super) struct Place<'path> {
    pub(super) home: &'path Path,
    pub(super) share: &'path Path,
    pub(super) number: u32,
}

impl Machine {
    /// Starts a guest. The emulator never uses the processor's virtualization, since on some machines
    /// `/dev/kvm` never lets a guest begin.
    pub(super) fn start(self, place: &Place<'_>, node: u32, console: &Path) -> anyhow::Result<Child> {
        let Place { home, share, number } = place;
        let export = |id: &str, path: &Path, options: &str| {
            // A comma in a path is written twice.
            let path = path.display().to_string().replace(',', ",,");
            format!("local,id={id},mount_tag={id},path={path},security_model=none,multidevs=remap{options}")
        };
        let segments = if self.has_large_segments { " weft.large_segments" } else { "" };
        let kernel = format!("console=ttyS0 quiet panic=-1 weft.guest={node}{segments}");
        // The machine ends with this process, however this process ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", EMULATOR]);
        // The machine has room for more than one processor. With room for only one, emulators before 8.2
        // leave out memory barriers, even those between the guest and its devices. A network interface that
        // misses a barrier never sends again.
        command.args([
            "-accel",
            if self.counts { "tcg,thread=single" } else { "tcg,thread=multi" },
            "-cpu",
            if self.counts { COUNTING_PROCESSOR } else { "max" },
            "-smp",
            "1,maxcpus=2",
            "-m",
            &self.memory_mib.to_string(),
        ]);
        if self.counts {
            command.args(["-icount", "shift=0,sleep=on"]);
        }
        command.args(["-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none"]);
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(home.join("kernel")).arg("-initrd").arg(home.join("initramfs"));
        command.args(["-append", &kernel]);
        command.args(["-virtfs", &export("root", Path::new("/"), ",readonly=on")]);
        command.args(["-virtfs", &export("share", share, "")]);
        for interface in 0..self.interfaces {
            let network = network(std::process::id(), *number, interface);
            let mac = format!("52:54:00:57:{:02x}:{node:02x}", 0x45 + interface);
            command.args(["-netdev", &format!("socket,id=net{interface},{network}")]);
            command.args(["-device", &format!("virtio-net-pci,netdev=net{interface},romfile=,mac={mac}")]);
        }
        command.env("PATH", process::search_path()).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let said = fs::File::create(share.join(format!("emulator{node}")))?;
        command.stderr(said).spawn().context("cannot run setpriv, to run the emulator")
    }
}

/// The options of a network of these guests alone: a multicast group that does not leave the machine.
fn network(pid: u32, number: u32, interface: u32) -> String {
    let [_, _, high, low] = pid.to_be_bytes();
    let port = 20000 + (pid.wrapping_mul(7) + number) % 20000;
    format!("mcast=230.{}.{high}.{low}:{port},localaddr=127.0.0.1", 77 + interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_two_runs_have_networks_of_their_own_and_so_has_each_interface() {
        assert_eq!(network(0x1234, 0, 0), "mcast=230.77.18.52:32620,localaddr=127.0.0.1");
        assert_ne!(network(0x1234, 0, 0), network(0x1234, 1, 0));
        assert_ne!(network(0x1234, 0, 0), network(0x1235, 0, 0));
        assert_ne!(network(0x1234, 0, 0), network(0x1234, 0, 1));
    }
}
