//! The `WEFT_*` settings that the library reads, once, in `MPI_Init`.

use std::path::PathBuf;

use weft_core::flow::AckScheme;
use weft_core::time::Duration;
use weft_net::faults;

/// Links that a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Shared memory, between ranks of one node.
    pub shared: bool,
    /// UDP.
    pub udp: bool,
}

/// Every setting of the library.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `WEFT_LINK`: names of links, or `auto`.
    pub links: Links,
    /// `WEFT_NODE`: ranks with different values treat each other as remote.
    pub node: Option<String>,
    /// `WEFT_SHM_DIR`: directory for the node's shared segment.
    pub shm_dir: Option<PathBuf>,
    /// `WEFT_SINGLE_COPY`: whether large messages of a node are copied directly between address spaces.
    pub single_copy: bool,
    /// `WEFT_INTERFACE`: interfaces or subnets to use.
    pub interface: Option<String>,
    /// `WEFT_EAGER_LIMIT`: largest message that is sent without asking, in bytes.
    pub eager_limit: u64,
    /// `WEFT_ACK`: `deferred`, `immediate` or `every-packet`.
    pub ack: AckScheme,
    /// `WEFT_PEER_TIMEOUT`: seconds without an answer after which a peer counts as failed; 0: never.
    pub peer_timeout: Duration,
    /// `WEFT_FAULTS`: faults to inject into the network.
    pub faults: faults::Plan,
}

/// Largest message that is sent without asking, unless `WEFT_EAGER_LIMIT` says otherwise.
const EAGER_LIMIT: u64 = 64 << 10;
/// The eager limit must leave credit for more than one message.
const EAGER_LIMIT_MAX: u64 = crate::messages::CREDIT_BYTES / 4;
/// Seconds before a silent peer counts as failed, unless `WEFT_PEER_TIMEOUT` says otherwise.
const PEER_TIMEOUT_SECONDS: u64 = 30;
/// Names that `WEFT_LINK` understands.
const LINK_NAMES: &str = "auto, shared, udp";

impl Settings {
    /// Reads them with `variable`, which is `std::env::var` but in tests.
    ///
    /// # Errors
    /// One sentence: which variable, what it says, what it may say.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        Ok(Self {
            links: text("WEFT_LINK").map_or(Ok(Links { shared: true, udp: true }), |value| links(&value))?,
            node: text("WEFT_NODE"),
            shm_dir: text("WEFT_SHM_DIR").map(PathBuf::from),
            single_copy: text("WEFT_SINGLE_COPY").map_or(Ok(true), |value| switch("WEFT_SINGLE_COPY", &value))?,
            interface: text("WEFT_INTERFACE"),
            eager_limit: number(&text, "WEFT_EAGER_LIMIT", EAGER_LIMIT, EAGER_LIMIT_MAX)?,
            ack: text("WEFT_ACK").map_or(Ok(AckScheme::default()), |value| scheme(&value))?,
            peer_timeout: Duration::from_secs(number(
                &text,
                "WEFT_PEER_TIMEOUT",
                PEER_TIMEOUT_SECONDS,
                u64::from(u32::MAX),
            )?),
            faults: match text("WEFT_FAULTS") {
                Some(value) => faults::Plan::parse(&value)
                    .map_err(|error| format!("WEFT_FAULTS={value} makes no sense: {error}"))?,
                None => faults::Plan::default(),
            },
        })
    }
}

fn links(value: &str) -> Result<Links, String> {
    let mut links = Links { shared: false, udp: false };
    for name in value.split(',').map(str::trim) {
        match name {
            "auto" => links = Links { shared: true, udp: true },
            "shared" => links.shared = true,
            "udp" => links.udp = true,
            _ => {
                return Err(format!(
                    "WEFT_LINK={value} names the link '{name}', which Weft does not have: it has {LINK_NAMES}"
                ));
            }
        }
    }
    Ok(links)
}

fn scheme(value: &str) -> Result<AckScheme, String> {
    match value {
        "deferred" => Ok(AckScheme::Deferred),
        "immediate" => Ok(AckScheme::Immediate),
        "every-packet" => Ok(AckScheme::EveryPacket),
        _ => Err(format!("WEFT_ACK={value} is no way to acknowledge: say deferred, immediate or every-packet")),
    }
}

fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err(format!("{name}={value} is neither on nor off: say 1 or 0")),
    }
}

fn number(text: &impl Fn(&str) -> Option<String>, name: &str, default: u64, max: u64) -> Result<u64, String> {
    let Some(value) = text(name) else { return Ok(default) };
    match value.parse::<u64>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(format!("{name}={value} is not a whole number from 0 to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_variables_everything_is_automatic() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.links, Links { shared: true, udp: true });
        assert!(settings.faults.is_clean());
    }

    #[test]
    fn a_wrong_value_is_answered_with_the_variable_and_what_it_may_say() {
        for (name, value, hint) in [
            ("WEFT_LINK", "shared,ethernot", "ethernot"),
            ("WEFT_ACK", "late", "every-packet"),
            ("WEFT_EAGER_LIMIT", "lots", "whole number"),
            ("WEFT_SINGLE_COPY", "maybe", "say 1 or 0"),
        ] {
            let sentence = read(&[(name, value)]).unwrap_err();
            assert!(sentence.contains(name) && sentence.contains(hint), "{sentence}");
        }
    }

    #[test]
    fn links_are_a_list_of_names() {
        assert_eq!(read(&[("WEFT_LINK", "udp")]).unwrap().links, Links { shared: false, udp: true });
        assert_eq!(read(&[("WEFT_LINK", "shared, udp")]).unwrap().links, Links { shared: true, udp: true });
    }
}
