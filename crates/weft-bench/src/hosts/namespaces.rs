//! The place where virtual hosts are made: on the machine itself if this process may do that, otherwise in a
//! user namespace of its own.
//!
//! In the user namespace this process and its children keep their user and group. They have the capabilities
//! that making hosts and using raw frames takes, but only for namespaces that were made there. A mount
//! namespace comes with it, in which `/run/netns` is this process's own. The network stays the machine's, so
//! that programs beside the hosts still reach the world.
//!
//! The hosts are seen from inside only; from outside the user enters them through the process that made them
//! ([`join`]).

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    move_into_link_name_space, set_capabilities,
};

/// The directory where `ip` keeps the names of network namespaces.
pub(super) const NAMES: &str = "/run/netns";
const RUN: &str = "/run";
/// The capabilities that virtual hosts take: namespaces and mounts, interfaces and filters, raw frames.
const NEEDED: [CapabilitySet; 3] = [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW];
/// The settings by which distributions forbid user namespaces to ordinary users, with the value that forbids.
const SWITCHES: [(&str, &str); 3] = [
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
];

/// The place where hosts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The namespaces where this process was started, with the privilege that it has.
    Machine,
    /// A user namespace that is now this process's own.
    UserNamespace,
}

impl Ground {
    /// A line that tells the user on what ground hosts are made; `None` where there is nothing to say.
    pub(crate) fn remark(self) -> Option<String> {
        (self == Self::UserNamespace).then(|| "the virtual hosts are in a user namespace, without root".to_owned())
    }
}

/// Goes to where hosts can be made. This process must have one thread, as it has at its start.
///
/// # Errors
/// A sentence: this user may not make hosts, and the kernel gives no user namespace. Then this process makes
/// none.
pub(crate) fn prepare() -> Result<Ground, String> {
    if is_privileged() {
        return Ok(Ground::Machine);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| refusal("a user namespace", error.into()))?;
    // Both maps have one number, which is mapped to itself (user_namespaces(7)).
    let write = |file: &str, text: String| {
        fs::write(Path::new("/proc/self").join(file), text).map_err(|error| refusal(&format!("its {file}"), error))
    };
    write("uid_map", format!("{user} {user} 1"))?;
    write("setgroups", "deny".into())?;
    write("gid_map", format!("{group} {group} 1"))?;
    own_names().map_err(|error| refusal(&format!("mounts over {NAMES} in it"), error))?;
    keep_needed().map_err(|error| refusal("privileges in it", error))?;
    Ok(Ground::UserNamespace)
}

/// Goes to the namespaces where the process `creator` of the same user made its hosts. This process must have
/// one thread.
pub(super) fn join(creator: u32) -> io::Result<()> {
    let directory = std::env::current_dir()?;
    let open = |kind: &str| fs::File::open(format!("/proc/{creator}/ns/{kind}"));
    let (user, mounts) = (open("user")?, open("mnt")?);
    move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
    keep_needed()?;
    // Entering a mount namespace leads to its root.
    std::env::set_current_dir(directory)
}

/// Changes the name of the machine for this process and its children, and for no other process.
pub(super) fn own_host_name(name: &str) -> io::Result<()> {
    unshare(UnshareFlags::NEWUTS)?;
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

#[expect(deprecated, reason = "it is unsafe with UnshareFlags::FILES only, which nobody here asks for")]
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    rustix::thread::unshare(flags)
}

/// Returns whether hosts can be made without a user namespace of its own: by root of the machine, and by a
/// process that is in such a namespace already.
fn is_privileged() -> bool {
    let needed = NEEDED.into_iter().fold(CapabilitySet::empty(), CapabilitySet::union);
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    may && fs::create_dir_all(NAMES).is_ok() && rustix::fs::access(NAMES, Access::WRITE_OK).is_ok()
}

/// Keeps the needed capabilities in the new namespace, for this process and its children, and drops all
/// others. The children have them although they are not root, because they are ambient (capabilities(7)).
fn keep_needed() -> io::Result<()> {
    let needed = NEEDED.into_iter().fold(CapabilitySet::empty(), CapabilitySet::union);
    set_capabilities(None, CapabilitySets { effective: needed, permitted: needed, inheritable: needed })?;
    for one in NEEDED {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Makes `/run/netns` this mount namespace's own. The rest of `/run` stays unchanged.
fn own_names() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let empty = |at: &str| mount("weft", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755");
    if Path::new(NAMES).is_dir() {
        return Ok(empty(NAMES)?);
    }
    // The directory cannot be made there: so `/run` becomes a new directory that shows all entries of the old
    // one.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open(RUN, flags, Mode::empty())?;
    let entries: Vec<fs::DirEntry> = fs::read_dir(RUN)?.flatten().collect();
    let kinds: Vec<_> = entries.iter().map(fs::DirEntry::file_type).collect();
    let links: Vec<_> = entries.iter().map(|entry| fs::read_link(entry.path())).collect();
    empty(RUN)?;
    for ((entry, kind), link) in entries.iter().zip(kinds).zip(links) {
        let from = format!("/proc/self/fd/{}/{}", old.as_raw_fd(), entry.file_name().display());
        // An entry that cannot be shown is missing there: hosts need none of those.
        let _ = match (kind, link) {
            (_, Ok(target)) => std::os::unix::fs::symlink(target, entry.path()),
            (Ok(kind), _) if kind.is_dir() => fs::create_dir(entry.path()).and_then(|()| bind(&from, &entry.path())),
            _ => fs::File::create(entry.path()).and_then(|_| bind(&from, &entry.path())),
        };
    }
    fs::create_dir(NAMES)
}

fn bind(from: &str, to: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(from, to)?)
}

fn refusal(what: &str, error: io::Error) -> String {
    let setting = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    format!(
        "network namespaces take root or a user namespace, and the kernel refuses {what}: {}",
        cause(&error, setting)
    )
}

/// The setting that explains a refusal, or the error alone. `setting` returns the content of a file of
/// /proc/sys.
fn cause(error: &io::Error, setting: impl Fn(&str) -> Option<String>) -> String {
    let forbids = |(name, value): &&(&str, &str)| setting(name).is_some_and(|found| found.trim() == *value);
    match SWITCHES.iter().find(forbids) {
        Some((name, value)) => format!("{} is {value} ({error})", name.replace('/', ".")),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_behind_it() {
        let error = || io::Error::from_raw_os_error(28);
        let none = cause(&error(), |name| (name == "user/max_user_namespaces").then(|| "0\n".to_owned()));
        assert!(none.starts_with("user.max_user_namespaces is 0 (No space left"), "{none}");
        let many = cause(&error(), |_| Some("15000".into()));
        assert!(many.starts_with("No space left"), "{many}");
        let by_apparmor = cause(&error(), |name| name.contains("apparmor").then(|| "1".to_owned()));
        assert!(by_apparmor.starts_with("kernel.apparmor_restrict_unprivileged_userns is 1"), "{by_apparmor}");
    }

    #[test]
    fn only_who_was_moved_has_something_to_say() {
        assert_eq!(Ground::Machine.remark(), None);
        assert!(Ground::UserNamespace.remark().unwrap().contains("user namespace"));
    }
}
