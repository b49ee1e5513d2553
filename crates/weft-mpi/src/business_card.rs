//! The business card: the facts that a process tells all others of its job before they can reach it.
//! `start/join.rs` writes and reads it.

mod fields;

use weft_launch::JobSecret;
use weft_net::{ethernet, fabric, tcp, udp, verbs};

use fields::{Fields, Writer};

/// The longest name of a host, in bytes: the machine's name, and the setting `WEFT_NODE`.
const HOST_MAX: usize = 512;
/// The most endpoints of one kind on a card.
const ENDPOINTS_MAX: usize = 64;

/// The facts that a process tells all others of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BusinessCard {
    /// The number of its node. Only equality of these numbers means something.
    pub(crate) node: u64,
    pub(crate) pid: i32,
    /// Name of its host, for messages to people.
    pub(crate) host: String,
    /// The secret of the job, on rank 0's card, where the process manager makes none.
    pub(crate) secret: Option<JobSecret>,
    /// The addresses at which it can be reached, by UDP or not.
    pub(crate) addresses: Option<udp::EndpointAddress>,
    /// The interfaces on which it takes raw frames.
    pub(crate) raw: Vec<ethernet::EndpointAddress>,
    /// The endpoints of libfabric, the better ones first.
    pub(crate) fabric: Vec<fabric::EndpointAddress>,
    /// The RDMA devices.
    pub(crate) verbs: Option<verbs::EndpointAddress>,
    /// The address for connections by TCP.
    pub(crate) tcp: Option<tcp::EndpointAddress>,
    /// The number of its program, of several on one command line.
    pub(crate) appnum: Option<i32>,
    /// A number for the processors that it may use, and their count.
    pub(crate) processors: (u64, usize),
    /// A number that differs where algorithms of collectives would be chosen differently.
    pub(crate) choices: u64,
}

impl BusinessCard {
    /// The card as text.
    pub(crate) fn encode(&self) -> String {
        let Self { node, pid, host, secret, addresses, raw, fabric, verbs, tcp, appnum, processors, choices } = self;
        let list = |cards: Vec<String>| Some(cards.join("+")).filter(|text| !text.is_empty());
        let mut out = Writer::new();
        out.put("node/1", format_args!("{node:x}"));
        out.put("pid/1", pid);
        out.put("host/1", host);
        out.put("processors/1", format_args!("{:x}.{}", processors.0, processors.1));
        out.put("choices/1", format_args!("{choices:x}"));
        out.put_some("appnum/1", *appnum);
        out.put_some("secret/1", secret.map(|secret| secret.expose_hex()));
        out.put_some("udp/1", addresses.as_ref().map(udp::EndpointAddress::encode));
        out.put_some("ethernet/1", list(raw.iter().map(ethernet::EndpointAddress::encode).collect()));
        out.put_some("fabric/1", list(fabric.iter().map(fabric::EndpointAddress::encode).collect()));
        out.put_some("verbs/1", verbs.as_ref().map(verbs::EndpointAddress::encode));
        out.put_some("tcp/1", tcp.as_ref().map(tcp::EndpointAddress::encode));
        out.finish()
    }

    /// Reads the card that `rank` has sent, and trusts nothing in it.
    ///
    /// # Errors
    /// A sentence: a field is missing or makes no sense. The sentence shows no values, because one of them is
    /// the job's secret.
    pub(crate) fn decode(rank: u32, text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|what| {
            format!("the address card of rank {rank} has {what}: do all ranks use the same version of Weft?")
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let fields = Fields::parse(text)?;
        let is_host = |text: &&str| {
            !text.is_empty() && text.len() <= HOST_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        Ok(Self {
            node: fields.required("node/1", hexadecimal)?,
            pid: fields.required("pid/1", |text| text.parse().ok().filter(|pid| *pid > 0))?,
            host: fields.required("host/1", |text| Some(text).filter(is_host).map(str::to_owned))?,
            processors: fields.required("processors/1", |text| {
                let (set, count) = text.split_once('.')?;
                Some((hexadecimal(set)?, count.parse().ok()?))
            })?,
            choices: fields.required("choices/1", hexadecimal)?,
            appnum: fields.optional("appnum/1", |text| text.parse().ok())?,
            secret: fields.optional("secret/1", JobSecret::from_hex)?,
            addresses: fields.optional("udp/1", |text| udp::EndpointAddress::decode(text).ok())?,
            raw: list(&fields, "ethernet/1", |text| ethernet::EndpointAddress::decode(text).ok())?,
            fabric: list(&fields, "fabric/1", |text| fabric::EndpointAddress::decode(text).ok())?,
            verbs: fields.optional("verbs/1", |text| verbs::EndpointAddress::decode(text).ok())?,
            tcp: fields.optional("tcp/1", |text| tcp::EndpointAddress::decode(text).ok())?,
        })
    }

    /// The card of the same process without its links.
    pub(crate) fn without_links(self) -> Self {
        Self { addresses: None, raw: Vec::new(), fabric: Vec::new(), verbs: None, tcp: None, secret: None, ..self }
    }

    /// Returns whether nothing on it leads anywhere.
    pub(crate) fn is_unreachable(&self) -> bool {
        let Self { addresses, raw, fabric, verbs, tcp, .. } = self;
        addresses.is_none() && raw.is_empty() && fabric.is_empty() && verbs.is_none() && tcp.is_none()
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Reads the cards in a field; an empty list where the field is missing.
fn list<T>(fields: &Fields<'_>, name: &str, read: fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    let all = |text: &str| text.split('+').take(ENDPOINTS_MAX + 1).map(read).collect::<Option<Vec<T>>>();
    let some = fields.optional(name, |text| all(text).filter(|cards| cards.len() <= ENDPOINTS_MAX))?;
    Ok(some.unwrap_or_default())
}

/// Reads an address card of unknown origin, for `weft-fuzz`. A card that can be read is the same after it is
/// written and read again.
pub fn reread_card(text: &str) {
    if let Ok(card) = BusinessCard::decode(0, text) {
        assert_eq!(BusinessCard::decode(0, &card.encode()), Ok(card));
    }
}

/// Valid address cards, for [`reread_card`] to begin with.
pub fn card_seeds() -> Vec<String> {
    let read = |text: &str| BusinessCard::decode(0, text).map(|card| card.encode());
    let small = "weft-card,node/1:1f,pid/1:77,host/1:h0,processors/1:5.2,choices/1:9";
    let full = "weft-card,node/1:1f,pid/1:77,host/1:h0/n1,processors/1:5.2,choices/1:9,appnum/1:1,\
                secret/1:00112233445566778899aabbccddeeff,udp/1:00000009.b8.40a000001180001058c00003e8,\
                ethernet/1:0.02fe000102ff.ffee.05d6.800+1.02fe000102fe.ffee.05d6.800,\
                fabric/1:udp:packets:1472:100:0:00ff,verbs/1:placing;4088;1;00000009.0.40a000001180001058c00003e8,\
                tcp/1:77;00000009.0.40a000001180001058c00003e8";
    [small, full].iter().map(|text| read(text).unwrap_or_else(|sentence| panic!("{sentence}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back_and_may_have_fields_that_nobody_knows() {
        for text in card_seeds() {
            let card = BusinessCard::decode(3, &text).expect("a card");
            assert_eq!(card.encode(), text);
            let newer = text.replace(",choices/1:", ",colour/1:green,udp/7:far away,choices/1:");
            assert_eq!(BusinessCard::decode(3, &newer), Ok(card));
        }
        let full = BusinessCard::decode(3, &card_seeds()[1]).expect("a card");
        assert_eq!((full.raw.len(), full.fabric.len(), full.is_unreachable()), (2, 1, false));
        assert!(full.verbs.is_some() && full.tcp.is_some() && full.addresses.is_some() && full.secret.is_some());
        assert!(BusinessCard::decode(3, &card_seeds()[0]).expect("a card").is_unreachable());
    }

    #[test]
    fn each_field_that_is_missing_or_wrong_is_named_with_its_rank() {
        let [small, full] = &card_seeds()[..] else { panic!("two seeds") };
        let fields = |text: &'_ str| text.split(',').skip(1).map(str::to_owned).collect::<Vec<_>>();
        for field in fields(full) {
            let (name, _) = field.split_once(':').expect("a field");
            let is_required = small.contains(name);
            let without = BusinessCard::decode(7, &full.replace(&format!(",{field}"), ""));
            assert_eq!(without.is_err(), is_required, "{name}");
            let wrong = BusinessCard::decode(7, &full.replace(&field, &format!("{name}:\u{e9}?")));
            for sentence in [without.err(), wrong.err()].into_iter().flatten() {
                assert!(
                    sentence.starts_with("the address card of rank 7 has ") && sentence.contains(name),
                    "{sentence}"
                );
                assert!(!sentence.contains("00112233"), "{sentence}");
            }
            assert!(BusinessCard::decode(7, &full.replace(&field, &format!("{name}:\u{e9}?"))).is_err(), "{name}");
        }
        let with = |from: &str, to: &str| BusinessCard::decode(7, &small.replace(from, to)).err();
        for (from, to) in [("pid/1:77", "pid/1:0"), ("pid/1:77", "pid/1:-1"), ("node/1:1f", "node/1:+1f")] {
            assert!(with(from, to).is_some_and(|sentence| sentence.contains("makes no sense")), "{to}");
        }
        let many = format!("{full}{}", "+0.02fe000102ff.ffee.05d6.800".repeat(ENDPOINTS_MAX));
        assert!(BusinessCard::decode(7, &many).is_err());
    }

    #[test]
    fn the_card_of_an_older_version_is_not_shown() {
        let secret = "00112233445566778899aabbccddeeff";
        for text in [format!("9,1f,77,h0,{secret},-,,,-,-,0,1,0"), format!("weft-card,{secret}"), secret.to_owned()] {
            let sentence = BusinessCard::decode(1, &text).err().unwrap_or_default();
            assert!(sentence.contains("the same version of Weft") && !sentence.contains(&secret[..8]), "{sentence}");
        }
    }
}
