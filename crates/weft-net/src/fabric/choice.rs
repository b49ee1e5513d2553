//! The choice of the endpoints that libfabric offers: one on each rail, all of one provider. A pure function
//! of the offers, the settings and the interfaces of this machine.

use weft_core::rails::RAILS_MAX;

use super::endpoint::{Kind, Offer};
use super::{Settings, udp};
use crate::Error;
use crate::udp::{Candidate, PACKET_SIZE_MIN};

/// The endpoints to open.
#[derive(Debug)]
pub(super) struct Choice {
    /// The endpoints, at least one, the better ones first.
    pub(super) rails: Vec<Rail>,
    /// The reason why usable interfaces are not used, if there are any.
    pub(super) left_out: Option<String>,
}

/// An endpoint to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rail {
    /// Index of the offer.
    pub(super) index: usize,
    /// Index of the interface among those that are offered; without addresses of IP, the index of the
    /// endpoint.
    pub(super) rail: u8,
}

/// The entries of `WEFT_INTERFACE` for providers that have no addresses of IP: devices by their names.
struct Names<'a> {
    only: Vec<&'a str>,
    but: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn parse(settings: &'a Settings) -> Self {
        let words = settings.interfaces.as_deref().unwrap_or("").split(',').map(str::trim);
        let (but, only): (Vec<&str>, Vec<&str>) =
            words.filter(|word| !word.is_empty()).partition(|word| word.starts_with('!'));
        Self { only, but: but.iter().map(|word| &word[1..]).collect() }
    }
}

/// Chooses endpoints, all of one provider: that of the first usable offer, if this offer has no address of
/// IP. Otherwise it takes the provider that is on the best interface that UDP would use, datagrams first. The
/// other rails are this provider's offers on the other devices or interfaces.
pub(super) fn choose(settings: &Settings, offers: &[Offer]) -> Result<Choice, Error> {
    let fits = |offer: &Offer| is_large_enough(offer) && (settings.provider.is_some() || leads_elsewhere(offer));
    let names = Names::parse(settings);
    // The library puts its faster providers first.
    let first = offers.iter().position(fits);
    if let Some(first) = first.filter(|index| offers[*index].address.is_none()) {
        return Ok(limit(on_devices(offers, first, &names), offers, &names));
    }
    let wanted = udp::Settings { interfaces: settings.interfaces.clone(), packet_size_max: None };
    let candidates = udp::candidates(&wanted)?;
    let on = |ip, kind| offers.iter().position(|offer| offer.address == Some(ip) && offer.kind == kind && fits(offer));
    let best = |kind| candidates.iter().find_map(|candidate| on(candidate.ip, kind));
    let best = best(Kind::Datagrams).or_else(|| best(Kind::Ordered)).or_else(|| best(Kind::Reliable));
    match best {
        Some(first) => Ok(limit(on_interfaces(offers, first, &candidates), offers, &names)),
        None => {
            let mut has: Vec<String> = offers.iter().map(Offer::to_string).collect();
            has.dedup();
            Err(Error::Unavailable(format!(
                "libfabric has endpoints, but none on an interface that may be used: {} (WEFT_INTERFACE chooses)",
                has.join(", ")
            )))
        }
    }
}

/// Returns the offers of the first offer's provider on each interface, in the order of the interfaces.
fn on_interfaces(offers: &[Offer], first: usize, candidates: &[Candidate]) -> Vec<Rail> {
    let mut rails: Vec<Rail> = Vec::new();
    for candidate in candidates {
        let is_same = |offer: &Offer| is_like(offer, &offers[first]) && offer.address == Some(candidate.ip);
        let index = offers.iter().position(is_same);
        let is_free = rails.iter().all(|taken| taken.rail != candidate.rail);
        rails.extend(index.filter(|_| is_free).map(|index| Rail { index, rail: candidate.rail }));
    }
    rails
}

/// Returns the offers of the first offer's provider on each device, in the order of the library, or in the
/// order in which the user names the devices.
fn on_devices(offers: &[Offer], first: usize, names: &Names<'_>) -> Vec<Rail> {
    let mut indices: Vec<usize> = Vec::new();
    for (index, offer) in offers.iter().enumerate() {
        let is_new = indices.iter().all(|taken| offers[*taken].domain != offer.domain);
        if is_like(offer, &offers[first]) && is_new && !names.but.contains(&offer.domain.as_str()) {
            indices.push(index);
        }
    }
    let named = |name: &&str| indices.iter().copied().find(|index| offers[*index].domain == *name);
    let named: Vec<usize> = names.only.iter().filter_map(named).collect();
    // Named interfaces that are no devices of this provider are for other links.
    let indices = if named.is_empty() { indices } else { named };
    let indices = if indices.is_empty() { vec![first] } else { indices };
    indices.into_iter().zip(0..).map(|(index, rail)| Rail { index, rail }).collect()
}

/// Limits ordered messages to a single endpoint, since a connection carries them. When the user asks for
/// several interfaces by name, a flow goes over all of them.
fn limit(mut rails: Vec<Rail>, offers: &[Offer], names: &Names<'_>) -> Choice {
    let there = rails.len();
    let is_connection = offers[rails[0].index].kind == Kind::Ordered && names.only.len() < 2;
    rails.truncate(if is_connection { 1 } else { RAILS_MAX });
    let left_out = (is_connection && there > 1).then(|| {
        let named: Vec<&str> = rails.iter().map(|rail| offers[rail.index].domain.as_str()).collect();
        format!(
            "only {} of {there} devices is used, since a connection is quicker than a flow over several; who names them in \
             WEFT_INTERFACE has all of them, and is spared when one fails",
            named.join(", ")
        )
    });
    Choice { rails, left_out }
}

fn is_like(offer: &Offer, first: &Offer) -> bool {
    offer.provider == first.provider
        && offer.kind == first.kind
        && offer.address.is_some() == first.address.is_some()
        && is_large_enough(offer)
}

/// Returns whether an offer leads to other hosts. A layer that does what the flow does better is left out
/// (`ofi_rxd`: reliability over datagrams).
fn leads_elsewhere(offer: &Offer) -> bool {
    let layers: Vec<&str> = offer.provider.split(';').collect();
    !layers.contains(&"shm") && !layers.contains(&"ofi_rxd")
}

fn is_large_enough(offer: &Offer) -> bool {
    offer.message_max >= PACKET_SIZE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(provider: &str, domain: &str, kind: Kind, address: Option<std::net::IpAddr>) -> Offer {
        Offer {
            kind,
            provider: provider.into(),
            version: (1, 17),
            domain: domain.into(),
            fabric: "f".into(),
            message_max: 9000,
            address,
        }
    }

    fn settings(provider: Option<&str>, interfaces: Option<&str>) -> Settings {
        Settings { provider: provider.map(Into::into), interfaces: interfaces.map(Into::into), ..Settings::default() }
    }

    #[test]
    fn what_leads_nowhere_is_not_chosen_unless_it_is_named() {
        let own = udp::candidates(&udp::Settings::default()).expect("an address")[0].ip;
        let offers = [
            offer("shm", "d", Kind::Ordered, None),
            offer("udp;ofi_rxd", "d", Kind::Ordered, Some(own)),
            offer("tcp", "d", Kind::Ordered, Some(own)),
            offer("udp", "d", Kind::Datagrams, Some(own)),
            offer("cxi", "d", Kind::Reliable, None),
        ];
        let choose = |offers: &[Offer], provider: Option<&str>| {
            let chosen = super::choose(&settings(provider, None), offers).ok()?;
            Some(offers[chosen.rails[0].index].provider.clone())
        };
        assert_eq!(choose(&offers, None).as_deref(), Some("udp"), "datagrams, on the interface that UDP would take");
        assert_eq!(choose(&offers[..3], None).as_deref(), Some("tcp"));
        assert_eq!(choose(&offers[4..], None).as_deref(), Some("cxi"));
        assert_eq!(choose(&offers[..2], None), None);
        assert_eq!(choose(&offers[..1], Some("shm")).as_deref(), Some("shm"));
        let elsewhere = offer("udp", "d", Kind::Datagrams, Some([192, 0, 2, 1].into()));
        assert_eq!(choose(&[elsewhere], None), None);
    }

    #[test]
    fn every_device_is_a_rail_but_a_connection_has_one_unless_several_are_named() {
        let devices = |kind| ["d0", "d1", "d1", "d2"].map(|domain| offer("efa", domain, kind, None));
        let choose = |kind, interfaces| {
            let offers = devices(kind);
            let choice = super::choose(&settings(None, interfaces), &offers).expect("a choice");
            let rails: Vec<u8> = choice.rails.iter().map(|rail| rail.rail).collect();
            assert!(rails.iter().copied().eq(0..rails.len() as u8));
            let domains: Vec<String> = choice.rails.iter().map(|rail| offers[rail.index].domain.clone()).collect();
            (domains.join(" "), choice.left_out.is_some())
        };
        assert_eq!(choose(Kind::Datagrams, None), ("d0 d1 d2".into(), false));
        assert_eq!(choose(Kind::Reliable, Some("!d1")), ("d0 d2".into(), false));
        assert_eq!(choose(Kind::Datagrams, Some("eth0")), ("d0 d1 d2".into(), false));
        assert_eq!(choose(Kind::Ordered, None), ("d0".into(), true));
        assert_eq!(choose(Kind::Ordered, Some("d1")), ("d1".into(), false));
        assert_eq!(choose(Kind::Ordered, Some("d2,d0")), ("d2 d0".into(), false));
    }

    #[test]
    fn other_providers_and_kinds_are_no_rails_of_the_first() {
        let offers = [
            offer("efa", "d0", Kind::Datagrams, None),
            offer("verbs", "d1", Kind::Datagrams, None),
            offer("efa", "d2", Kind::Ordered, None),
            offer("efa", "d3", Kind::Datagrams, None),
        ];
        let choice = choose(&settings(None, None), &offers).expect("a choice");
        assert_eq!(choice.rails, [Rail { index: 0, rail: 0 }, Rail { index: 3, rail: 1 }]);
    }
}
