//! The processor time that a process's control groups allow it (cgroups(7), `cpu.max`).

use std::fs;
use std::path::{Path, PathBuf};

/// The most levels of control groups that are looked at above this process's own.
const CGROUP_DEPTH_MAX: usize = 32;

/// The smallest quota on the way from this process's control groups (v2 `cpu.max`, v1 `cpu.cfs_quota_us`) to
/// the root, in processors; `None` when there is no quota.
pub(super) fn quota() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<f64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = match controllers {
            "" => least_above(Path::new("/sys/fs/cgroup"), path, &read_v2),
            list if list.split(',').any(|c| c == "cpu") => {
                let root = PathBuf::from("/sys/fs/cgroup").join(list);
                let root = if root.is_dir() { root } else { PathBuf::from("/sys/fs/cgroup/cpu") };
                least_above(&root, path, &read_v1)
            }
            _ => None,
        };
        least = match (least, found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    least
}

fn least_above(root: &Path, group: &str, read: &dyn Fn(&Path) -> Option<f64>) -> Option<f64> {
    let inside = root.join(group.trim_start_matches('/'));
    // In a container the path may name a group outside the mount: then only the mount's root can be asked.
    let start = if inside.is_dir() { inside } else { root.to_path_buf() };
    start.ancestors().take(CGROUP_DEPTH_MAX).take_while(|dir| dir.starts_with(root)).filter_map(read).reduce(f64::min)
}

fn read_v2(dir: &Path) -> Option<f64> {
    parse_v2(&fs::read_to_string(dir.join("cpu.max")).ok()?)
}

fn read_v1(dir: &Path) -> Option<f64> {
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok();
    ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

/// `"max 100000"` or `"150000 100000"`: microseconds of processor time per period.
fn parse_v2(text: &str) -> Option<f64> {
    let mut fields = text.split_whitespace();
    let quota = fields.next()?.parse().ok()?;
    ratio(quota, fields.next()?.parse().ok()?)
}

fn ratio(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_v2("max 100000\n"), None);
        assert_eq!(parse_v2("150000 100000\n"), Some(1.5));
        assert_eq!(parse_v2("50000 100000\n"), Some(0.5));
        for nonsense in ["", "5", "x y", "100 0", "-1 100000"] {
            assert_eq!(parse_v2(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("weft-quota-{}", std::process::id()));
        let deep = root.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.join("a/cpu.max"), "200000 100000").unwrap();
        fs::write(deep.join("cpu.max"), "max 100000").unwrap();
        let found = least_above(&root, "/a/b", &read_v2);
        let outside = least_above(&root, "/../elsewhere", &read_v2);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, outside), (Some(2.0), None));
    }
}
