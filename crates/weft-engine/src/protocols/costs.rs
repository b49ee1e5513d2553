//! The costs of moving bytes on this machine and its network.
//!
//! The rows of `rows.rs` add these costs up, and the cheapest row carries a message. Costs decide how quick
//! a message is, never whether it arrives: two processes with different models understand each other.
//!
//! The defaults are true of the machine that they were measured on, an AMD EPYC with two processors
//! (docs/design/node.md). Where a measurement leaves a range, the default is the value in it with which rows
//! change at a round size (docs/design/message.md).

use std::fmt;
use std::str::FromStr;

use super::UNASKED_BYTES_MAX;

/// The largest cost that a model may name, in picoseconds: about a quarter of an hour. Sums of a few costs,
/// and of one for each byte, stay far from the end of 128 bits.
pub const COST_PS_MAX: u64 = 1_000_000_000_000_000;

/// A cost that grows with the size of a message: a fixed part, and a part for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The cost of a message of any size, in picoseconds.
    pub fixed_ps: u64,
    /// The additional cost of each byte, in picoseconds.
    pub per_byte_ps: u64,
}

impl Cost {
    /// The cost of a message of `bytes` bytes, in picoseconds.
    pub const fn of(self, bytes: u64) -> u128 {
        self.fixed_ps as u128 + self.per_byte_ps as u128 * bytes as u128
    }

    /// The least size from which on this cost is at most `other`, if this cost grows more slowly; `None` if
    /// it does not, or if there is no such size.
    pub const fn overtakes(self, other: Self) -> Option<u64> {
        if self.fixed_ps <= other.fixed_ps {
            return if self.per_byte_ps <= other.per_byte_ps { Some(0) } else { None };
        }
        if self.per_byte_ps >= other.per_byte_ps {
            return None;
        }
        Some((self.fixed_ps - other.fixed_ps).div_ceil(other.per_byte_ps - self.per_byte_ps))
    }
}

/// Declares the model: its fields with their meanings, their defaults, and the list by which they are shown,
/// read and written.
macro_rules! cost_model {
    ($($(#[doc = $meaning:literal])+ $name:ident = $default:literal,)+) => {
        /// The costs of the parts of moving a message, in picoseconds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct CostModel {
            $($(#[doc = $meaning])+ pub $name: u64,)+
        }

        impl CostModel {
            /// The built-in costs.
            pub const BUILT_IN: Self = Self { $($name: $default,)+ };

            /// The name of each cost.
            const NAMES: &[&str] = &[$(stringify!($name),)+];

            /// The name and the meaning of each cost. The library does without the meanings.
            pub const MEANINGS: &[(&str, &str)] =
                &[$((stringify!($name), concat!($($meaning),+).trim_ascii_start()),)+];

            /// The value of each cost, in the order of [`Self::MEANINGS`].
            pub fn values(&self) -> impl Iterator<Item = u64> {
                [$(self.$name,)+].into_iter()
            }

            /// The model with these values, in the order of [`Self::MEANINGS`]; `None` if there are too few
            /// or too many, or one is too large.
            pub fn from_values(values: &[u64]) -> Option<Self> {
                let [$($name),+] = *<&[u64; Self::MEANINGS.len()]>::try_from(values).ok()?;
                values.iter().all(|value| *value <= COST_PS_MAX).then_some(Self { $($name),+ })
            }

            /// The model with the lower of the two values of each cost.
            #[must_use]
            pub fn lowest(&self, other: &Self) -> Self {
                Self { $($name: self.$name.min(other.$name),)+ }
            }

            fn value_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

cost_model! {
    /// on a node: a call by which the kernel copies from one process to another
    kernel_copy_ps = 1_048_576,
    /// on a node: each byte that the kernel copies
    kernel_copy_per_byte_ps = 84,
    /// on a node: the calls by which both sides copy a part of one message, and dividing it between the two
    cooperative_copy_ps = 3_407_872,
    /// on a node: each byte of a message of which both sides copy a part
    cooperative_copy_per_byte_ps = 48,
    /// on a node: each byte that goes through a ring whose two ends copy one after the other
    ring_in_turn_per_byte_ps = 148,
    /// on a node: each byte that goes through a ring whose two ends copy at the same time, on processors
    /// that share a cache
    ring_near_per_byte_ps = 36,
    /// on a node: each byte that goes through a ring whose two ends copy at the same time, on processors
    /// that share no cache
    ring_far_per_byte_ps = 73,
    /// on a node: each byte that is sent eagerly to a receiver that waits, for the times when another
    /// message comes first
    ring_ahead_per_byte_ps = 1,
    /// on a node: the answer to an announcement, by which the receiver asks for the data
    ring_answer_ps = 524_288,
    /// on a network: an announcement, without the wait for its answer
    announcement_ps = 1_048_600,
    /// everywhere: the wait for the answer to an announcement
    answer_ps = 4_194_304,
    /// everywhere: each byte that is sent eagerly, for the copy that it may need
    eager_per_byte_ps = 64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self::BUILT_IN
    }
}

impl CostModel {
    /// The cost of a copy by the kernel that one side makes.
    pub const fn kernel_copy(&self) -> Cost {
        Cost { fixed_ps: self.kernel_copy_ps, per_byte_ps: self.kernel_copy_per_byte_ps }
    }

    /// The cost of a copy by the kernel that both sides make.
    pub const fn cooperative_copy(&self) -> Cost {
        Cost { fixed_ps: self.cooperative_copy_ps, per_byte_ps: self.cooperative_copy_per_byte_ps }
    }

    /// Returns whether a ring of this cost moves large data, which its two ends copy at the same time, as
    /// quickly as the kernel. A sixteenth is within the errors of the costs.
    pub const fn copies_at_both_ends(&self, ring_per_byte_ps: u64) -> bool {
        let kernel = self.kernel_copy_per_byte_ps;
        ring_per_byte_ps <= kernel.saturating_add(kernel / 16)
    }

    /// The cost of an eager message, for each of its bytes.
    pub const fn eager(&self) -> Cost {
        Cost { fixed_ps: 0, per_byte_ps: self.eager_per_byte_ps }
    }

    /// The largest message that is sent eagerly, in bytes, where neither `WEFT_EAGER_LIMIT` nor the route
    /// sets another limit: waiting for the answer to an announcement would cost more than a copy of the
    /// message.
    pub const fn eager_limit(&self) -> u64 {
        match self.eager_per_byte_ps {
            0 => EAGER_LIMIT_MAX,
            per_byte => min(self.answer_ps / per_byte, EAGER_LIMIT_MAX),
        }
    }

    /// The smallest message that the kernel copies between processes, in bytes: two copies through a ring,
    /// one after the other, would cost more.
    pub const fn single_copy_bytes_min(&self) -> u64 {
        let in_turn = Cost { fixed_ps: 0, per_byte_ps: self.ring_in_turn_per_byte_ps };
        match self.kernel_copy().overtakes(in_turn) {
            Some(bytes) => max(bytes, UNASKED_BYTES_MAX + 1),
            None => u64::MAX,
        }
    }

    /// The smallest message whose receiver a sender on the node asks for, in bytes. The sender asks whether
    /// the receive is posted, and whether the receiver waits. The answer matters where the kernel may copy
    /// the message, and above the eager limit. Receives with less room are not posted where senders see
    /// them.
    pub const fn visible_bytes_min(&self) -> u64 {
        min(self.single_copy_bytes_min(), max(self.eager_limit(), UNASKED_BYTES_MAX) + 1)
    }

    /// The largest message that goes eagerly through a ring although its receiver waits for it, in bytes.
    /// The receiver of a longer message posts its receive where the sender sees it, for the kernel to copy.
    pub const fn awaited_eager_max(&self) -> u64 {
        self.eager_max_beside(self.kernel_copy(), self.ring_near_per_byte_ps)
    }

    /// The cost of a message of a window that is announced and fetched. An announcement and its FIN take
    /// about half the time of an announcement and its answer. Only in windows does no wait hide it.
    pub const fn fetch_in_window(&self) -> Cost {
        let Cost { fixed_ps, per_byte_ps } = self.kernel_copy();
        Cost { fixed_ps: fixed_ps + self.ring_answer_ps / 2, per_byte_ps }
    }

    /// The largest message of a window that goes eagerly through a ring whatever its receiver does, in
    /// bytes. Its sender does not look for the receive, and its receiver does not post it where the sender
    /// looks. Where windows go both ways (`is_exchanged`), each processor copies twice.
    pub const fn window_eager_max(&self, is_exchanged: bool) -> u64 {
        let copies = if is_exchanged { 2 } else { 1 };
        self.eager_max_beside(self.fetch_in_window(), self.ring_near_per_byte_ps.saturating_mul(copies))
    }

    /// The largest message within the eager limit that is cheaper through a ring of this cost than by this
    /// copy, in bytes.
    const fn eager_max_beside(&self, copy: Cost, ring_per_byte_ps: u64) -> u64 {
        match copy.overtakes(Cost { fixed_ps: 0, per_byte_ps: ring_per_byte_ps }) {
            Some(bytes) => min(max(bytes, UNASKED_BYTES_MAX + 1) - 1, self.eager_limit()),
            None => self.eager_limit(),
        }
    }

    /// The smallest message that both of its sides copy, if both are inside MPI, in bytes.
    pub const fn cooperative_bytes_min(&self) -> u64 {
        match self.cooperative_copy().overtakes(self.kernel_copy()) {
            Some(bytes) => max(bytes, self.single_copy_bytes_min()),
            None => u64::MAX,
        }
    }
}

/// The highest eager limit of any model, in bytes: it leaves credit for more than one message.
const EAGER_LIMIT_MAX: u64 = crate::messages::CREDIT_BYTES / 4;

const fn min(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

const fn max(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

/// A model with the meanings of its costs.
pub struct Explained<'a>(pub &'a CostModel);

/// Writes the model as text for people: one cost a line, its name, its picoseconds and its meaning.
impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((name, meaning), value) in CostModel::MEANINGS.iter().zip(self.0.values()) {
            writeln!(f, "{name:28} {value:>9}  # {meaning}")?;
        }
        Ok(())
    }
}

/// Writes the model as text: one cost a line, its name and its picoseconds.
impl fmt::Display for CostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in Self::NAMES.iter().zip(self.values()) {
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

/// Reads the model from its text. Text behind `#` does not count; a cost that is not named has its built-in
/// value.
impl FromStr for CostModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut model = Self::BUILT_IN;
        let mut named = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let said = line.split('#').next().unwrap_or_default().trim();
            if said.is_empty() {
                continue;
            }
            let wrong = |what: &str| format!("line {number}, \"{said}\": {what}");
            let mut words = said.split_whitespace();
            let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
                return Err(wrong("a line is the name of a cost and its picoseconds"));
            };
            let Some(cost) = model.value_mut(name) else {
                return Err(wrong("there is no cost of that name; `weft info --costs` prints all"));
            };
            if named.contains(&name) {
                return Err(wrong("this cost has been named before"));
            }
            named.push(name);
            *cost = match value.parse() {
                Ok(value) if value <= COST_PS_MAX => value,
                _ => return Err(wrong(&format!("a cost is a whole number from 0 to {COST_PS_MAX}, in picoseconds"))),
            };
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_of_the_costs_that_are_built_in_are_round_sizes() {
        let costs = CostModel::BUILT_IN;
        let thresholds = [costs.single_copy_bytes_min(), costs.cooperative_bytes_min(), costs.eager_limit()];
        assert_eq!(thresholds, [16 << 10, 64 << 10, 64 << 10]);
    }

    /// A kernel that copies less quickly than a ring, and one that copies twice as quickly.   Expect:
    /// messages whose receivers wait go eagerly up to the eager limit on the one machine, and up to the size
    /// from which the kernel is quicker on the other.
    #[test]
    fn receives_that_wait_are_shown_where_the_kernel_is_quicker_than_a_ring() {
        let quick: CostModel =
            "kernel_copy_ps 400000\nkernel_copy_per_byte_ps 33\nring_near_per_byte_ps 62".parse().expect("costs");
        assert_eq!([CostModel::BUILT_IN, quick].map(|costs| costs.awaited_eager_max()), [64 << 10, 13_793]);
    }

    /// Small costs, all of them.   Expect: from the named size on a cost is at most the other, and below
    /// that size it is more. Where no size is named it is never at most the other, or only as long as
    /// messages are short.
    #[test]
    fn a_cost_overtakes_another_at_the_byte_where_it_does() {
        let all = || (0..12).flat_map(|fixed_ps| (0..6).map(move |per_byte_ps| Cost { fixed_ps, per_byte_ps }));
        for (one, other) in all().flat_map(|one| all().map(move |other| (one, other))) {
            let cheaper = |bytes: u64| one.of(bytes) <= other.of(bytes);
            match one.overtakes(other) {
                Some(size) => {
                    assert!((size..size + 20).all(cheaper), "{one:?} {other:?}");
                    assert!((0..size).all(|bytes| !cheaper(bytes)), "{one:?} {other:?}");
                }
                None => assert!(!cheaper(1000), "{one:?} {other:?}"),
            }
        }
    }

    #[test]
    fn a_model_reads_what_it_writes() {
        let mut model = CostModel::BUILT_IN;
        for (number, (name, _)) in (1..).zip(CostModel::MEANINGS) {
            *model.value_mut(name).unwrap() = number * 1000;
        }
        assert_eq!(model.to_string().parse(), Ok(model));
        let mut values: Vec<u64> = model.values().collect();
        assert_eq!(CostModel::from_values(&values), Some(model));
        let higher = CostModel { answer_ps: COST_PS_MAX, ring_near_per_byte_ps: 1, ..model };
        assert_eq!(model.lowest(&higher), CostModel { ring_near_per_byte_ps: 1, ..model });
        assert_eq!(CostModel::from_values(&values[1..]), None);
        values[3] = COST_PS_MAX + 1;
        assert_eq!(CostModel::from_values(&values), None);
        assert_eq!("\n# nothing\n".parse(), Ok(CostModel::BUILT_IN));
        assert_eq!("answer_ps 7 # quick".parse(), Ok(CostModel { answer_ps: 7, ..CostModel::BUILT_IN }));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (text, said) in [
            ("answer_ps", "line 1, \"answer_ps\": a line is"),
            ("answer_ps 1 2", "a line is the name of a cost"),
            ("\nanswers 1", "line 2, \"answers 1\": there is no cost of that name"),
            ("answer_ps -1", "a whole number from 0 to 1000000000000000"),
            ("answer_ps 1000000000000001", "a whole number"),
            ("answer_ps 1\nanswer_ps 1", "line 2, \"answer_ps 1\": this cost has been named before"),
        ] {
            let error = text.parse::<CostModel>().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
