//! The identity of a node: it tells which processes share memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weft_core::fingerprint;

/// An identity that is equal in two processes when they can share a segment and copy from each other's
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Returns the identity of this process's node.
///
/// It is a hash of the machine's boot id, the network and pid namespaces, the device of the directory for
/// shared segments, and the user. (Doorbells are names in the network namespace, and single copies need
/// process ids of the pid namespace.) `overriding` (`WEFT_NODE`) is mixed in: processes with different values
/// treat each other as remote. `directory` is the user's choice for shared segments (`WEFT_SHM_DIR`), else
/// /dev/shm counts.
pub fn identity(overriding: Option<&str>, directory: Option<&Path>) -> NodeId {
    let mut hash = Hash::new();
    hash.add(b"node");
    add_machine(&mut hash);
    hash.add(&namespace("pid").to_le_bytes());
    let device = fs::metadata(directory.unwrap_or(Path::new("/dev/shm"))).map_or(0, |m| m.dev());
    hash.add(&device.to_le_bytes());
    hash.add(&crate::sys::user().to_le_bytes());
    hash.add(overriding.unwrap_or("").as_bytes());
    NodeId(hash.finish())
}

/// Returns a number of the network stack that this process uses: equal when loopback addresses of two
/// processes mean the same host. Never 0.
pub fn network() -> u32 {
    let mut hash = Hash::new();
    hash.add(b"network");
    add_machine(&mut hash);
    let whole = hash.finish();
    ((whole ^ (whole >> 32)) as u32).max(1)
}

/// Returns a number for a name; processes that read the same name have the same number.
pub fn hash(name: &[u8]) -> u64 {
    let mut hash = Hash::new();
    hash.add(name);
    hash.finish()
}

fn add_machine(hash: &mut Hash) {
    // A machine without a boot id (no /proc) differs from others by its name.
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| crate::sys::host_name());
    hash.add(&boot);
    hash.add(&namespace("net").to_le_bytes());
}

fn namespace(kind: &str) -> u64 {
    fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |m| m.ino())
}

/// A fingerprint with a final mix.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(fingerprint::EMPTY)
    }

    fn add(&mut self, bytes: &[u8]) {
        // The length goes first, so that ("ab", "c") and ("a", "bc") differ.
        self.0 = fingerprint::add(fingerprint::add(self.0, &(bytes.len() as u64).to_le_bytes()), bytes);
    }

    fn finish(&self) -> u64 {
        let mut x = self.0;
        x ^= x >> 33;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ (x >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_process_is_the_same_node() {
        assert_eq!(identity(None, None), identity(None, None));
        assert_eq!(network(), network());
        assert_ne!(network(), 0);
    }

    #[test]
    fn an_override_makes_another_node() {
        let (none, a, b) = (identity(None, None), identity(Some("a"), None), identity(Some("b"), None));
        assert!(none != a && a != b && none != b);
        assert_eq!(a, identity(Some("a"), None));
    }

    #[test]
    fn pieces_do_not_run_together() {
        let (mut left, mut right) = (Hash::new(), Hash::new());
        left.add(b"ab");
        left.add(b"c");
        right.add(b"a");
        right.add(b"bc");
        assert_ne!(left.finish(), right.finish());
    }
}
