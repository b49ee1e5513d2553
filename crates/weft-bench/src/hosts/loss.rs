//! Frames that get lost between virtual hosts: each host drops a random share of the frames that arrive at
//! its interface.
//!
//! Interfaces without hardware hand over up to 64 KiB of a stream as one frame, and a dropped frame would be
//! a burst of 44 lost packets. So segmentation offload is switched off where frames are dropped: a frame is
//! then a packet, as on a real wire.

use std::str::FromStr;

use crate::tools::{self, tool};

/// The bound of the rule's random numbers, so that a share of 0.0001 % can still be told from nothing.
const SCALE: f64 = 1_000_000.0;
const PERCENT_MAX: f64 = 50.0;
/// The offloads that may join packets into one frame.
const OFFLOADS: [&str; 4] = ["tso", "gso", "gro", "tx-udp-segmentation"];
/// The programs that losing frames needs, with the Debian package of each.
const TOOLS: [(&str, &str); 2] = [("nft", "nftables"), ("ethtool", "ethtool")];

/// A share of frames, in percent: above 0, at most [`PERCENT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    pub(crate) percent: f64,
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Loss, String> {
        let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
        let percent = number.filter(|percent| *percent * SCALE / 100.0 >= 1.0 && *percent <= PERCENT_MAX);
        Ok(Loss { percent: percent.ok_or(format!("a share of frames from 0.0001% to {PERCENT_MAX}%, as in 1%"))? })
    }
}

impl Loss {
    /// Returns an error with the cure if a needed program is not installed.
    pub(super) fn tools() -> Result<(), String> {
        match TOOLS.iter().find(|(tool, _)| tools::find(tool).is_none()) {
            Some((tool, package)) => Err(format!("losing frames needs {tool}; Debian has it in the package {package}")),
            None => Ok(()),
        }
    }

    /// Makes `host` drop this share of the frames that arrive at its interface of this number.
    pub(super) fn apply(self, host: &str, interface: usize) -> Result<(), String> {
        tool("ip", &["netns", "exec", host, "nft", "-f", "-"], &self.rules(interface))?;
        let device = format!("e{interface}");
        let mut words = vec!["netns", "exec", host, "ethtool", "-K", &device];
        words.extend(OFFLOADS.iter().flat_map(|offload| [*offload, "off"]));
        tool("ip", &words, "").map(drop)
    }

    fn rules(self, interface: usize) -> String {
        let below = (self.percent / 100.0 * SCALE).round();
        format!(
            "table netdev weft{interface} {{\n chain loss {{\n  type filter hook ingress device \"e{interface}\" priority 0\n  \
             numgen random mod {SCALE} < {below} drop\n }}\n}}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!("1%".parse(), Ok(Loss { percent: 1.0 }));
        assert_eq!("0.1".parse(), Ok(Loss { percent: 0.1 }));
        for wrong in ["", "%", "0", "0.00001%", "51%", "-1%", "one"] {
            assert!(wrong.parse::<Loss>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_rule_drops_that_share() {
        assert!(Loss { percent: 1.0 }.rules(0).contains("mod 1000000 < 10000 drop"));
        let rules = Loss { percent: 0.1 }.rules(1);
        assert!(rules.contains("< 1000 drop") && rules.contains("device \"e1\""), "{rules}");
    }
}
