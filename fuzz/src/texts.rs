//! Foreign text: business cards, settings and files; and the requests to `weft-netd`.

use weft_mpi::settings::Settings;
use weft_net::ethernet::netd;
use weft_net::{ethernet, tcp, udp};

fn owned(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Endpoint addresses of links.
pub(crate) fn cards(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(address) = ethernet::EndpointAddress::decode(&text) {
        assert_eq!(ethernet::EndpointAddress::decode(&address.encode()).ok(), Some(address));
    }
    if let Ok(address) = tcp::EndpointAddress::decode(&text) {
        assert_eq!(tcp::EndpointAddress::decode(&address.encode()).ok(), Some(address));
    }
    if let Ok(address) = udp::EndpointAddress::decode(&text) {
        assert!(address.candidates.len() <= udp::CANDIDATES_MAX);
        let again = udp::EndpointAddress::decode(&address.encode()).map(|address| address.encode());
        assert_eq!(again.ok(), Some(address.encode()));
        let _ = udp::choose_peer_address(&address.candidates, &address.candidates);
    }
}

pub(crate) fn card_seeds() -> Vec<Vec<u8>> {
    let mut seeds = owned(&["0.02fe000102ff.ffee.05d6.800"]);
    let wanted = udp::Settings { interfaces: Some("127.0.0.0/8".into()), packet_size_max: None };
    seeds.extend(tcp::Tcp::open(&wanted, false).map(|link| link.endpoint_address().encode().into_bytes()));
    seeds.extend(udp::Udp::bind(&wanted).map(|link| link.endpoint_address().encode().into_bytes()));
    seeds
}

/// The address card of a process.
pub(crate) fn address_card(bytes: &[u8]) {
    weft_mpi::business_card::reread_card(&String::from_utf8_lossy(bytes));
}

pub(crate) fn address_card_seeds() -> Vec<Vec<u8>> {
    weft_mpi::business_card::card_seeds().into_iter().map(String::into_bytes).collect()
}

/// The name of a port.
pub(crate) fn port(bytes: &[u8]) {
    weft_net::port::reread_name(&String::from_utf8_lossy(bytes));
}

pub(crate) fn port_seeds() -> Vec<Vec<u8>> {
    vec![weft_net::port::name_seed().into_bytes()]
}

/// What the leader of another job's group says.
pub(crate) fn meeting(bytes: &[u8]) {
    let words: Vec<i64> = bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
    weft_mpi::processes::reread_words(&words);
}

pub(crate) fn meeting_seeds() -> Vec<Vec<u8>> {
    let bytes = |words: Vec<i64>| words.into_iter().flat_map(i64::to_le_bytes).collect();
    weft_mpi::processes::word_seeds().into_iter().map(bytes).collect()
}

/// Requests to `weft-netd`, and its answers.
pub(crate) fn netd(bytes: &[u8]) {
    if let Some(interface) = netd::parse_request(bytes) {
        assert_eq!(netd::request(interface), bytes);
    }
    if let Ok(port) = netd::parse_answer(bytes) {
        assert_eq!(netd::granted(port), bytes);
    }
    let refused = netd::refused(&String::from_utf8_lossy(bytes));
    assert!(refused.len() <= 8 + netd::REASON_MAX && netd::parse_answer(&refused).is_err());
    let _ = ethernet::Filter::read(bytes);
}

pub(crate) fn netd_seeds() -> Vec<Vec<u8>> {
    vec![netd::request(2).to_vec(), netd::granted(40_000).to_vec(), netd::refused("nobody may")]
}

/// Settings, a `NAME=value` a line.
pub(crate) fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let variable =
        |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    if let Err(sentence) = Settings::read(variable) {
        assert!(sentence.contains("WEFT_"), "{sentence}");
    }
    let names = text.lines().map(|line| line.split('=').next().unwrap_or_default().to_owned());
    weft_mpi::settings::unknown(names).iter().for_each(|unknown| drop(unknown.to_string()));
    let wanted = udp::Settings { interfaces: Some(text.into_owned()), packet_size_max: None };
    let _ = udp::consider(&wanted);
}

pub(crate) fn settings_seeds() -> Vec<Vec<u8>> {
    owned(&[
        "WEFT_FAULTS=drop=5%,duplicate=1%,reorder=1%,corrupt=1%,seed=7\nWEFT_LINK=shared,udp,ethernet",
        "WEFT_ACK=every-packet\nWEFT_PEER_TIMEOUT=4294967295\nWEFT_EAGER_LIMIT=262144\nWEFT_SEALED=yes",
        "WEFT_PROGRESS=none\nWEFT_SHM_DIR=/tmp\nWEFT_EAGR_LIMIT=1",
        "eth0,10.1.0.0/16,fe80::/10",
    ])
}

pub(crate) fn run_file_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../tests/report/run.jsonl").chunks(6000).next().unwrap_or_default().to_vec()]
}

pub(crate) fn pmi_seeds() -> Vec<Vec<u8>> {
    let turns =
        "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=weft_hello\n\u{ff}cmd=init pmi_version=1\n";
    let puts =
        "cmd=put kvsname=weft-job key=a value=b c\ncmd=get kvsname=weft-job key=a\ncmd=getbyidx kvsname=x idx=0\n";
    let ends = "cmd=barrier_in\n\u{ff}cmd=barrier_in\n\u{ff}cmd=weft_stats bytes=5\nabcde\ncmd=abort exitcode=3\ncmd=finalize\n";
    let many = "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nargcnt=1\narg1=b%20c\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/\npreput_num=1\n\
                preput_key_0=k\npreput_val_0=v\nweft_directory=/\nendcmd\nmcmd=spawn\nnprocs=1\nexecname=a\nendcmd\n\
                cmd=weft_spawned_end number=1\ncmd=publish_name service=a port=b\ncmd=weft_exchange value=card\n";
    // A byte that is no text marks the turns.
    [turns, puts, ends, many].map(|text| text.chars().map(|letter| letter as u8).collect()).to_vec()
}

pub(crate) fn line_seeds() -> Vec<Vec<u8>> {
    let secret = "000102030405060708090a0b0c0d0e0f";
    owned(&["cmd=put kvsname=a key=k value=v w", "0-3,7,9-11", "(vector,(0,2,2),(2,1,1))", secret, "a%20b\\nc"])
}

pub(crate) fn launcher_seeds() -> Vec<Vec<u8>> {
    owned(&["h0:4,h1:2", "h0 slots=4 # a host\nh1:2\n", "0 1 udp 5 100 0\n1 dropped forged 7\n"])
}
