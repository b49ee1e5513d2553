//! Measures half round trips of raw frames between two hosts, through the link alone; both sides spin.
//! `bench/carriers` measures the same with bare system calls, as `packet` and `xdp`.
//!
//! Start `ethernet_latency serve` on one host, and `ethernet_latency to CARD` (the line that the server
//! prints) on the other. With `xdp` in front of the other words a side receives by AF_XDP. `WEFT_INTERFACE`
//! chooses the interface.

use std::time::{Duration, Instant};
use weft_net::carrier::{Address, Carrier, EthernetAddress, Outcome, receive_packets};
use weft_net::ethernet::{EndpointAddress, Ethernet};
use weft_net::udp::Settings;
use weft_net::xdp::{Group, Xdp};

/// Number of short pieces: on a busy machine most are disturbed, so the program prints the best and the
/// median.
const ROUNDS: u32 = 100;
const PIECES: usize = 300;
const SIZE: usize = 64;
/// Longest time for which the server waits for the next packet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time without an answer after which a packet counts as lost.
const LOST: Duration = Duration::from_millis(50);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let settings = Settings { interfaces: std::env::var("WEFT_INTERFACE").ok(), ..Settings::default() };
    let link = Ethernet::open(&settings, None, None).expect("open");
    let own = link.endpoint_address();
    let (is_xdp, words) = words.strip_prefix(&["xdp"]).map_or((false, &words[..]), |rest| (true, rest));
    let mut link: Box<dyn Carrier> = if is_xdp {
        let link = Xdp::open(link, &Group::alone(own.address.port));
        Box::new(link.map_err(|refused| refused.why.expect("a reason of its own")).expect("open by AF_XDP"))
    } else {
        Box::new(link)
    };
    match *words {
        ["serve"] => serve(&mut link, &own),
        ["to", endpoint_address] => {
            ask(&mut link, &own, &EndpointAddress::decode(endpoint_address).expect("an endpoint address"))
        }
        _ => panic!("usage: ethernet_latency [xdp] serve | to CARD"),
    }
}

/// The asker says where to answer.
fn serve(link: &mut dyn Carrier, own: &EndpointAddress) {
    println!("{}", own.encode());
    let mut last = Instant::now();
    while last.elapsed() < PATIENCE {
        let mut answer = None;
        let take = &mut |packet: &[u8]| {
            let address = EthernetAddress {
                mac: packet[..6].try_into().expect("six bytes"),
                port: u16::from_le_bytes([packet[6], packet[7]]),
            };
            answer = Some((Address::Ethernet(address), packet.to_vec()));
        };
        if receive_packets(link, take, 1) == 0 {
            continue;
        }
        let Some((to, packet)) = answer else { continue };
        assert_eq!(link.send(&to, &packet).expect("send"), Outcome::Sent);
        last = Instant::now();
        if packet[8] == 1 {
            break;
        }
    }
}

fn ask(link: &mut dyn Carrier, own: &EndpointAddress, server: &EndpointAddress) {
    let to = Address::Ethernet(server.address);
    let own = own.address;
    let mut packet = [0; SIZE];
    packet[..6].copy_from_slice(&own.mac);
    packet[6..8].copy_from_slice(&own.port.to_le_bytes());
    let mut pieces = Vec::new();
    let mut lost = 0;
    for _ in 0..PIECES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            link.send(&to, &packet).expect("send");
            let sent = Instant::now();
            while receive_packets(link, &mut |bytes| assert_eq!(bytes.len(), SIZE), 1) == 0 {
                if sent.elapsed() > LOST {
                    lost += 1;
                    break;
                }
            }
        }
        pieces.push(start.elapsed().as_nanos() as f64 / f64::from(2 * ROUNDS));
    }
    packet[8] = 1;
    link.send(&to, &packet).expect("send");
    pieces.sort_by(f64::total_cmp);
    println!(
        "half round trip of {SIZE} bytes: best {:.0} ns, median {:.0} ns; {lost} lost",
        pieces[0],
        pieces[PIECES / 2]
    );
}
