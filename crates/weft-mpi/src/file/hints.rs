//! Hints of files (MPI-5.0 §14.2.8): the standard's, ROMIO's and OMPIO's that programs and scripts set.
//!
//! `TABLE` has every hint that means something here. All other hints, and values that a hint cannot have,
//! are ignored.

use weft_plan::two_phase::Wish;

use crate::description::Info;

/// A hint: its names, and what it sets.
struct Row {
    /// The names; `MPI_File_get_info` tells the first one.
    names: &'static [&'static str],
    /// Takes a value; returns false for a value that the hint cannot have.
    take: fn(&mut Hints, &str) -> bool,
    /// The value in effect.
    tell: fn(&Hints) -> String,
}

/// The hints of one open file, with the values in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Two phases for collective writes.
    pub write: Wish,
    /// Two phases for collective reads.
    pub read: Wish,
    /// The most aggregators; 0: as many as the policy finds right.
    pub aggregators: u32,
    /// Bytes that an aggregator moves at once; 0: as the policy finds right.
    pub window: u64,
    /// Bytes of a stripe of the file, at whose multiples the aggregators' ranges begin; 0: as the file system
    /// says.
    pub stripe: u64,
    /// The number of devices that the file is to be spread over; kept, since a file system must be asked for
    /// it by its own interface.
    pub striping_factor: u64,
    /// Bytes that a read of many pieces reads at once.
    pub read_buffer: u64,
    /// Reads of many pieces read the bytes between them, too.
    pub sieves: bool,
    /// The permissions of a new file, before the process's mask.
    pub permissions: u32,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            write: Wish::Automatic,
            read: Wish::Automatic,
            aggregators: 0,
            window: 0,
            stripe: 0,
            striping_factor: 0,
            read_buffer: 1 << 20,
            sieves: true,
            permissions: 0o666,
        }
    }
}

/// The words of the hints that all processes follow alike.
pub const SHARED_WORDS: usize = 5;

/// The largest buffer that a hint may ask for: a wrong hint must not take all memory.
const BUFFER_MAX: u64 = 1 << 30;
/// The smallest one: a page.
const BUFFER_MIN: u64 = 4096;

const fn wish_name(wish: Wish) -> &'static str {
    match wish {
        Wish::Automatic => "automatic",
        Wish::Always => "enable",
        Wish::Never => "disable",
    }
}

fn wish(value: &str) -> Option<Wish> {
    match value.trim().to_ascii_lowercase().as_str() {
        "automatic" => Some(Wish::Automatic),
        "enable" | "true" => Some(Wish::Always),
        "disable" | "false" => Some(Wish::Never),
        _ => None,
    }
}

fn number(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}

fn buffer(value: &str) -> Option<u64> {
    number(value).filter(|bytes| *bytes > 0).map(|bytes| bytes.clamp(BUFFER_MIN, BUFFER_MAX))
}

/// Sets `place` to a value that could be read.
fn set<T>(place: &mut T, value: Option<T>) -> bool {
    let is_one = value.is_some();
    value.into_iter().for_each(|value| *place = value);
    is_one
}

/// Every hint that means something here.
const TABLE: &[Row] = &[
    Row {
        names: &["romio_cb_write"],
        take: |hints, value| set(&mut hints.write, wish(value)),
        tell: |hints| wish_name(hints.write).to_owned(),
    },
    Row {
        names: &["romio_cb_read"],
        take: |hints, value| set(&mut hints.read, wish(value)),
        tell: |hints| wish_name(hints.read).to_owned(),
    },
    Row {
        names: &["collective_buffering"],
        take: |hints, value| {
            let wish = wish(value);
            set(&mut hints.write, wish) && set(&mut hints.read, wish)
        },
        tell: |hints| (hints.write != Wish::Never || hints.read != Wish::Never).to_string(),
    },
    Row {
        names: &["cb_nodes", "num_aggregators"],
        take: |hints, value| {
            set(
                &mut hints.aggregators,
                number(value).filter(|count| *count > 0).and_then(|count| u32::try_from(count).ok()),
            )
        },
        tell: |hints| if hints.aggregators == 0 { "automatic".to_owned() } else { hints.aggregators.to_string() },
    },
    Row {
        names: &["cb_buffer_size", "bytes_per_agg"],
        take: |hints, value| set(&mut hints.window, buffer(value)),
        tell: |hints| if hints.window == 0 { "automatic".to_owned() } else { hints.window.to_string() },
    },
    Row {
        names: &["striping_unit", "cb_block_size"],
        take: |hints, value| set(&mut hints.stripe, number(value).filter(|bytes| (1..=BUFFER_MAX).contains(bytes))),
        tell: |hints| hints.stripe.to_string(),
    },
    Row {
        names: &["striping_factor"],
        take: |hints, value| set(&mut hints.striping_factor, number(value)),
        tell: |hints| hints.striping_factor.to_string(),
    },
    Row {
        names: &["ind_rd_buffer_size"],
        take: |hints, value| set(&mut hints.read_buffer, buffer(value)),
        tell: |hints| hints.read_buffer.to_string(),
    },
    Row {
        names: &["romio_ds_read"],
        take: |hints, value| set(&mut hints.sieves, wish(value).map(|wish| wish != Wish::Never)),
        tell: |hints| wish_name(if hints.sieves { Wish::Automatic } else { Wish::Never }).to_owned(),
    },
    Row {
        names: &["file_perm"],
        take: |hints, value| {
            let octal = u32::from_str_radix(value.trim().trim_start_matches("0o"), 8).ok();
            set(&mut hints.permissions, octal.filter(|bits| *bits <= 0o7777))
        },
        tell: |hints| format!("{:o}", hints.permissions),
    },
];

impl Hints {
    /// The hints of a file that is opened with `given`.
    pub fn of(given: &Info) -> Self {
        let mut hints = Self::default();
        hints.update(given);
        hints
    }

    /// Takes the known hints of `given`; others stay as they are.
    pub fn update(&mut self, given: &Info) {
        for (key, value) in given {
            if let Some(row) = TABLE.iter().find(|row| row.names.contains(&key.as_str())) {
                // A value that the hint cannot have changes nothing.
                (row.take)(self, value);
            }
        }
    }

    /// The hints that all processes of a file follow alike, as words between them.
    pub fn shared(&self) -> [i64; SHARED_WORDS] {
        let wish = |wish| match wish {
            Wish::Automatic => 0,
            Wish::Always => 1,
            Wish::Never => 2,
        };
        let (window, stripe) = (self.window as i64, self.stripe as i64);
        [wish(self.write), wish(self.read), i64::from(self.aggregators), window, stripe]
    }

    /// Follows the hints that another process has told.
    pub fn follow(&mut self, words: &[i64]) {
        let wish = |word: i64| match word {
            0 => Wish::Automatic,
            1 => Wish::Always,
            _ => Wish::Never,
        };
        let [write, read, aggregators, window, stripe] = *words else { return };
        (self.write, self.read) = (wish(write), wish(read));
        (self.aggregators, self.window, self.stripe) = (aggregators as u32, window as u64, stripe as u64);
    }

    /// The hints in effect, as `MPI_File_get_info` tells them.
    pub fn told(&self) -> Info {
        TABLE.iter().map(|row| (row.names[0].to_owned(), (row.tell)(self))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    /// Hints of three libraries, an unknown one, and values that are none.   Expect: what is known is in
    /// effect and told, and what is told has the same effect again.
    #[test]
    fn hints_are_taken_and_told() {
        let given = vec![
            pair("romio_cb_write", "ENABLE"),
            pair("num_aggregators", "3"),
            pair("cb_buffer_size", "100"),
            pair("striping_unit", "1048576"),
            pair("romio_ds_read", "disable"),
            pair("file_perm", "600"),
            pair("unknown", "1"),
            pair("ind_rd_buffer_size", "much"),
            pair("cb_nodes", "-1"),
        ];
        let hints = Hints::of(&given);
        let wanted = Hints {
            write: Wish::Always,
            aggregators: 3,
            window: BUFFER_MIN,
            stripe: 1 << 20,
            sieves: false,
            permissions: 0o600,
            ..Hints::default()
        };
        assert_eq!(hints, wanted);
        let told = hints.told();
        assert_eq!(told.len(), TABLE.len());
        assert!(told.contains(&pair("cb_nodes", "3")) && told.contains(&pair("romio_cb_write", "enable")));
        let mut again = Hints { write: Wish::Always, ..Hints::default() };
        again.update(&told.into_iter().filter(|(key, _)| key != "collective_buffering").collect());
        assert_eq!(again, wanted);
        assert_eq!(Hints::of(&vec![pair("collective_buffering", "false")]).read, Wish::Never);
        let mut follower = Hints { sieves: false, permissions: 0o600, ..Hints::default() };
        follower.follow(&wanted.shared());
        assert_eq!(follower, wanted);
    }
}
