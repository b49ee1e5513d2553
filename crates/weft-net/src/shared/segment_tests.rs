//! Tests of the segment: the directory in which it is made, the files that are left behind, and the files
//! that are trusted.

use super::geometry::EAGER_BYTES_MAX;
use super::*;
use weft_core::time::Duration;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn settings(&self) -> Settings {
        let attach_timeout = Duration::from_millis(50);
        Settings { directory: Some(self.0.clone()), attach_timeout, ..Settings::default() }
    }

    fn names(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn sizes_fit_for_every_number_of_ranks() {
    let most = &Settings { ring_bytes_max: 2 << 20, ..Settings::default() };
    for local_size in 1..=LOCAL_SIZE_MAX {
        let geometry = Geometry::choose(local_size, most);
        assert!(geometry.is_valid(), "{geometry:?}");
        assert!(geometry.ring_start(local_size - 1, local_size - 1) + geometry.ring_bytes == geometry.total());
        let rings = geometry.total() - geometry.rings_start();
        assert!(rings <= EAGER_BYTES_MAX || geometry.is_lazy() && geometry.ring_bytes == sizes::RING_BYTES_MIN);
        let own = local_size * geometry.ring_bytes;
        let reserved: usize = geometry.eager_ranges().map(|(start, end)| end - start).sum();
        assert_eq!(reserved, if geometry.is_lazy() { geometry.rings_start() } else { geometry.total() - own });
    }
    let rings = [2, 4, 8, 32].map(|local_size| Geometry::choose(local_size, most).ring_bytes >> 10);
    assert_eq!(rings, [2048, 680, 256, 32], "KiB");
    let caches = [None, Some(256 << 10), Some(1 << 20), Some(1280 << 10), Some(4 << 20)];
    assert_eq!(caches.map(|bytes| sizes::ring_bytes_max(bytes) >> 10), [2048, 1024, 1024, 1280, 2048], "KiB");
    assert!(!Geometry::choose(32, most).is_lazy() && Geometry::choose(64, most).is_lazy());
    let smallest = std::iter::successors(Some(Geometry::choose(3, most)), |geometry| geometry.halved()).last().unwrap();
    assert_eq!(smallest.ring_bytes, sizes::RING_BYTES_MIN);
    // Between several jobs only rings are used.
    let only_rings =
        Geometry::choose(2, &Settings { only_rings: true, ring_bytes_max: 256 << 10, ..Settings::default() });
    assert!(only_rings.is_valid() && only_rings.is_lazy() && only_rings.ring_bytes == 256 << 10);
    assert_eq!(only_rings.eager_ranges().collect::<Vec<_>>(), [(0, 2 * PAGE)]);
}

#[test]
fn the_last_to_attach_removes_the_name() {
    let directory = Directory::new("name");
    let (leader, warnings) = Segment::create("k", 3, &directory.settings()).unwrap();
    assert!(warnings.is_empty());
    assert_eq!((directory.names(), leader.attached()), (1, 1));
    let _second = Segment::attach("k", 3, &directory.settings()).unwrap();
    assert_eq!(directory.names(), 1);
    let third = Segment::attach("k", 3, &directory.settings()).unwrap();
    assert_eq!((directory.names(), third.attached()), (0, 3));
    leader.rank_state(2).pid.store(77, Ordering::Release);
    assert_eq!(third.rank_state(2).pid.load(Ordering::Acquire), 77);
}

#[test]
fn a_leader_that_gives_up_leaves_nothing() {
    let directory = Directory::new("gives-up");
    let (leader, _) = Segment::create("k", 2, &directory.settings()).unwrap();
    assert_eq!(directory.names(), 1);
    drop(leader);
    assert_eq!(directory.names(), 0);
}

#[test]
fn one_rank_needs_no_file() {
    let directory = Directory::new("one");
    let (_segment, _) = Segment::create("k", 1, &directory.settings()).unwrap();
    assert_eq!(directory.names(), 0);
}

#[test]
fn a_directory_that_cannot_be_used_is_named_in_the_warning() {
    let key = format!("fallback-{}", std::process::id());
    let settings = Settings { directory: Some("/proc/self".into()), ..Settings::default() };
    let (_leader, warnings) = Segment::create(&key, 2, &settings).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("/proc/self") && !warnings[0].contains('\n'), "{warnings:?}");
    assert!(Segment::attach(&key, 2, &settings).is_ok(), "attachers walk the same list");
}

#[test]
fn without_a_leader_the_wait_ends_and_says_so() {
    let directory = Directory::new("leaderless");
    let error = Segment::attach("none", 2, &directory.settings()).err().unwrap().to_string();
    assert!(error.contains("no shared segment within 0.05 s"), "{error}");
}

#[test]
fn foreign_files_are_not_believed() {
    let directory = Directory::new("foreign");
    let path = directory.0.join(file_name("k"));
    let refuse = |expected: &str| {
        let error = Segment::attach("k", 2, &directory.settings()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    // A file that is too short, then an unfinished one: both as if not there. Then another version, then
    // another geometry.
    for (len, expected) in [(10, "it is not there"), (PAGE as u64, "it is not there")] {
        File::create(&path).unwrap().set_len(len).unwrap();
        refuse(expected);
    }
    let mut header = [0_u8; PAGE];
    header[..8].copy_from_slice(b"weftshm\x63");
    fs::write(&path, header).unwrap();
    refuse("another version");
    for (local_size, ring_bytes) in [(3, 256_u64 << 10), (2, 0), (2, u64::MAX), (u64::MAX, u64::MAX), (2, 256 << 10)] {
        header[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        header[8..16].copy_from_slice(&local_size.to_ne_bytes());
        header[16..24].copy_from_slice(&ring_bytes.to_ne_bytes());
        fs::write(&path, header).unwrap();
        refuse("not the segment of this job");
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    refuse("symbolic link");
}

#[test]
fn remains_of_killed_jobs_are_swept_and_living_ones_are_not() {
    let directory = Directory::new("sweep");
    let remains = directory.0.join(file_name("killed"));
    let other = directory.0.join("weft-letter.txt");
    fs::write(&remains, [0; 100]).unwrap();
    fs::write(&other, b"keep").unwrap();
    let (_living, _) = Segment::create("living", 2, &directory.settings()).unwrap();
    let (_next, _) = Segment::create("next", 2, &directory.settings()).unwrap();
    assert!(!remains.exists() && other.exists());
    assert!(directory.0.join(file_name("living")).exists());
    assert!(Segment::attach("living", 2, &directory.settings()).is_ok());
}

#[test]
fn the_same_key_twice_is_refused() {
    let directory = Directory::new("twice");
    let key = format!("twice-{}", std::process::id());
    let (_first, _) = Segment::create(&key, 2, &directory.settings()).unwrap();
    assert!(
        Segment::create_in(
            &directory.0,
            &key,
            Geometry::choose(2, &Settings { ring_bytes_max: 65536, ..Settings::default() }),
            2
        )
        .is_err()
    );
}
