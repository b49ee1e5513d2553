//! Tables of rules, and the notation of a rule.

use super::algorithm::{Algorithm, Operation, size};
use super::facts::Facts;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Most rules of a table, and most conditions of a rule: a table that is read from a file stays small.
const RULES_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 16;

/// The quantity of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Ranks,
    Nodes,
    RanksPerNode,
    Bytes,
    BytesPerRank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Commutative,
    Oversubscribed,
    PowerOfTwo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// The quantity is between the first number and the second, both included.
    Between(Quantity, u64, u64),
    Is(Flag, bool),
}

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        let (flag, wanted) = text.strip_prefix("not-").map_or((text, true), |flag| (flag, false));
        match flag {
            "commutative" => return Some(Self::Is(Flag::Commutative, wanted)),
            "oversubscribed" => return Some(Self::Is(Flag::Oversubscribed, wanted)),
            "power-of-two" => return Some(Self::Is(Flag::PowerOfTwo, wanted)),
            _ => {}
        }
        let at = text.find(['<', '>'])?;
        let quantity = match &text[..at] {
            "ranks" => Quantity::Ranks,
            "nodes" => Quantity::Nodes,
            "ranks/node" => Quantity::RanksPerNode,
            "bytes" => Quantity::Bytes,
            "bytes/ranks" => Quantity::BytesPerRank,
            _ => return None,
        };
        let (less, rest) = (text[at..].starts_with('<'), &text[at + 1..]);
        let (or_equal, number) = rest.strip_prefix('=').map_or((false, rest), |number| (true, number));
        let number = size(number)?;
        Some(match (less, or_equal) {
            (true, true) => Self::Between(quantity, 0, number),
            (true, false) => Self::Between(quantity, 0, number.checked_sub(1)?),
            (false, true) => Self::Between(quantity, number, u64::MAX),
            (false, false) => Self::Between(quantity, number.checked_add(1)?, u64::MAX),
        })
    }

    fn holds(self, facts: &Facts) -> bool {
        match self {
            Self::Between(quantity, low, high) => {
                let number = match quantity {
                    Quantity::Ranks => facts.ranks as u64,
                    Quantity::Nodes => facts.place.nodes as u64,
                    Quantity::RanksPerNode => facts.place.per_node as u64,
                    Quantity::Bytes => facts.bytes,
                    Quantity::BytesPerRank => facts.bytes / facts.ranks.max(1) as u64,
                };
                low <= number && number <= high
            }
            Self::Is(flag, wanted) => {
                let is = match flag {
                    Flag::Commutative => facts.commutative,
                    Flag::Oversubscribed => facts.place.oversubscribed,
                    Flag::PowerOfTwo => facts.ranks.is_power_of_two(),
                };
                is == wanted
            }
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) operation: Operation,
    conditions: Vec<Condition>,
    pub(super) algorithm: Algorithm,
}

impl Rule {
    /// The rule of a line; `None` for a line without a rule.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { return Ok(None) };
        let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let operation = operation.ok_or_else(|| {
            let names = Operation::ALL.map(Operation::name).join(", ");
            format!("there is no operation {name}: it may be {names}")
        })?;
        let mut words: Vec<&str> = words.collect();
        let algorithm = words.pop().ok_or_else(|| format!("{name} has no algorithm"))?;
        if words.len() > CONDITIONS_MAX {
            return Err(format!("there are more than {CONDITIONS_MAX} conditions"));
        }
        let condition = |word: &&str| {
            Condition::parse(word).ok_or_else(|| format!("{word} is no condition: one is commutative, oversubscribed, power-of-two, or such as ranks>8 or bytes/ranks<=4K"))
        };
        let conditions = words.iter().map(condition).collect::<Result<_, _>>()?;
        Ok(Some(Self { operation, conditions, algorithm: operation.parse(algorithm)? }))
    }

    pub(super) fn fits(&self, operation: Operation, facts: &Facts) -> bool {
        self.operation == operation
            && self.conditions.iter().all(|condition| condition.holds(facts))
            && self.algorithm.is_possible(operation, facts)
    }
}

/// Rules; the first that fits is taken.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(super) rules: Vec<Rule>,
}

impl Table {
    /// The table of a text.
    ///
    /// # Errors
    /// For a line that makes no sense: a sentence with its number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let rule = Rule::parse(line).map_err(|what| format!("line {}: {what}", number + 1))?;
            rules.extend(rule);
            if rules.len() > RULES_MAX {
                return Err(format!("there are more than {RULES_MAX} rules"));
            }
        }
        Ok(Self { rules })
    }

    pub(super) fn choose(&self, operation: Operation, facts: &Facts) -> Option<Algorithm> {
        self.rules.iter().find(|rule| rule.fits(operation, facts)).map(|rule| rule.algorithm)
    }
}
