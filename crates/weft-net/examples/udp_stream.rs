//! Measures how fast the UDP link streams, without anything above it. One process sends trains of full
//! packets as fast as the link takes them, and the other receives them. The rate counts arrived packets, and
//! the program prints the lost ones. Nothing here retransmits or paces.
//!
//! On one machine: `cargo run --release -p weft-net --example udp_stream`. Between two: start it with `serve`
//! on one, and with `to CARD` (the line that the server prints) on the other. `WEFT_INTERFACE` chooses the
//! interface; a last argument the number of packets in a train (1: packet by packet).

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weft_net::carrier::{Address, Carrier, receive_packets};
use weft_net::udp::{EndpointAddress, Settings, Udp, choose_peer_address};

/// Length of a sample.
const SAMPLE: Duration = Duration::from_millis(400);
/// Number of samples. The best counts on a busy machine, and the program prints the median too.
const SAMPLES: usize = 9;
/// Silence after which a receiver takes the stream to be over.
const SILENCE: Duration = Duration::from_millis(100);
/// Longest time for which the server waits for a client.
const PATIENCE: Duration = Duration::from_secs(30);
const TRAIN_DEFAULT: usize = 44;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let settings = Settings { interfaces: std::env::var("WEFT_INTERFACE").ok(), ..Settings::default() };
    let mut link = Udp::bind(&settings).expect("bind");
    match words[..] {
        ["serve"] => serve(&mut link),
        ["to", endpoint_address] => send(&mut link, endpoint_address, TRAIN_DEFAULT),
        ["to", endpoint_address, train] => {
            send(&mut link, endpoint_address, train.parse().expect("packets in a train"))
        }
        [] => alone(&mut link, TRAIN_DEFAULT),
        [train] => alone(&mut link, train.parse().expect("packets in a train")),
        _ => panic!("usage: udp_stream [serve | to CARD] [PACKETS]"),
    }
}

fn alone(link: &mut Udp, train: usize) {
    let program = std::env::current_exe().expect("our own name");
    let mut server = Command::new(program).arg("serve").stdout(Stdio::piped()).spawn().expect("a process");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let endpoint_address = lines.next().expect("an endpoint address").expect("text");
    send(link, &endpoint_address, train);
    lines.for_each(|line| println!("{}", line.expect("text")));
    assert!(server.wait().expect("the server ends").success());
}

fn send(link: &mut Udp, endpoint_address: &str, train: usize) {
    let pair = choose_peer_address(
        link.candidates(),
        &EndpointAddress::decode(endpoint_address).expect("an endpoint address").candidates,
    )
    .expect("a path");
    let to = Address::Udp(pair.to);
    let bytes = vec![1; train * pair.packet_size];
    println!("to {to}: trains of {train} packets of {} bytes", pair.packet_size);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        while start.elapsed() < SAMPLE {
            link.send_train(&to, &bytes, pair.packet_size).expect("send");
        }
        std::thread::sleep(SILENCE * 2);
    }
    println!("sent: {:?}", link.counters());
}

fn serve(link: &mut Udp) {
    println!("{}", link.endpoint_address().encode());
    let mut rates = Vec::new();
    let mut wait_until = Instant::now() + PATIENCE;
    while rates.len() < SAMPLES && Instant::now() < wait_until {
        let mut bytes = 0_u64;
        if receive_packets(link, &mut |packet| bytes += packet.len() as u64, 1) == 0 {
            continue;
        }
        let (start, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < SILENCE {
            for _ in 0..64 {
                if receive_packets(link, &mut |packet| bytes += packet.len() as u64, 256) > 0 {
                    last = Instant::now();
                }
            }
        }
        // A receiver that drains its buffer after the sender has stopped is not faster than the sender was.
        rates.push(bytes as f64 / (last - start).max(SAMPLE).as_secs_f64() / 1e9);
        wait_until = Instant::now() + PATIENCE;
    }
    assert!(rates.len() == SAMPLES, "heard only {} streams", rates.len());
    rates.sort_by(f64::total_cmp);
    println!("received: best {:.2} GB/s, median {:.2} GB/s", rates[SAMPLES - 1], rates[SAMPLES / 2]);
    println!("{:?}", link.counters());
}
