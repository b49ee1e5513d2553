//! `hostile --ports P0,P1 --packets N`: attacks the job whose packets pass between two ports of a switch.
//!
//! The program listens on both ports and keeps samples of the packets that pass. It attacks both sides as a
//! stranger, a broken switch or a tape recorder would. Some packets are replayed, repeated, cut, forged or
//! spliced; some have flipped bits; some belong to another job. It attacks UDP and raw frames alike. At the
//! end it reports the packets that it has sent. It needs CAP_NET_RAW.

#![deny(unsafe_code)]

mod attack;
mod sample;
#[allow(unsafe_code)]
mod sys;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use attack::{Attack, KINDS};
use sample::{Pool, Sample};
use sys::{Capture, Sender};
use weft_fuzz::mutate::Random;

const USAGE: &str = "usage: hostile --ports P0,P1 [--packets N] [--seconds-max S] [--seed N]";
/// The samples of each side that must be there before the attack begins, and the time to wait for them.
const SAMPLES_MIN: usize = 64;
const PATIENCE: Duration = Duration::from_secs(20);
/// Frames that one call sends.
const BATCH: usize = 64;
/// The batches between two looks at the passing packets.
const BATCHES_PER_LOOK: usize = 16;
/// The time to wait when the interface takes no more frames.
const PAUSE: Duration = Duration::from_micros(200);

struct Options {
    ports: [String; 2],
    packets: usize,
    time: Duration,
    seed: u64,
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args().skip(1)).and_then(|options| run(&options));
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            eprintln!("hostile: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut ports, mut packets, mut seconds, mut seed) = (None, 1_000_000, 60, 1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value} is no number; {USAGE}"));
        match name.as_str() {
            "--ports" => ports = value.split_once(',').map(|(a, b)| [a.to_owned(), b.to_owned()]),
            "--packets" => packets = number()? as usize,
            "--seconds-max" => seconds = number()?,
            "--seed" => seed = number()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(Options { ports: ports.ok_or(USAGE)?, packets, time: Duration::from_secs(seconds), seed })
}

/// A port: packets that enter here are aimed at the other port.
struct Side {
    capture: Capture,
    sender: Sender,
    pool: Pool,
}

impl Side {
    fn open(from: &str, to: &str) -> Result<Self, String> {
        let failed = |error| format!("cannot listen on {from} and send on {to}: {error}");
        let (capture, sender) = (Capture::open(from).map_err(failed)?, Sender::open(to).map_err(failed)?);
        Ok(Self { capture, sender, pool: Pool::default() })
    }

    fn look(&mut self, random: &mut Random) {
        let Self { capture, pool, .. } = self;
        capture.receive(&mut |frame, segment| {
            Sample::read(frame, segment).into_iter().for_each(|sample| pool.keep(sample, random));
        });
    }
}

fn run(options: &Options) -> Result<String, String> {
    let mut random = Random::new(options.seed);
    let [a, b] = &options.ports;
    let mut sides = [Side::open(a, b)?, Side::open(b, a)?];
    let began = Instant::now();
    while sides.iter().any(|side| side.pool.len() < SAMPLES_MIN) {
        if began.elapsed() > PATIENCE {
            let found: Vec<usize> = sides.iter().map(|side| side.pool.len()).collect();
            return Err(format!("there is no job between {a} and {b}: {found:?} packets passed"));
        }
        std::thread::sleep(PAUSE);
        sides.iter_mut().for_each(|side| side.look(&mut random));
    }
    let began = Instant::now();
    let mut attack = Attack::new(&mut random);
    let (mut sent, mut refused) = (0, 0);
    while sent < options.packets {
        if began.elapsed() > options.time {
            return Err(format!("only {sent} packets were taken within {} s", options.time.as_secs()));
        }
        for side in &mut sides {
            side.look(&mut random);
            for _ in 0..BATCHES_PER_LOOK {
                let frames = attack.frames(&side.pool, BATCH.min(options.packets - sent), &mut random);
                let taken = side.sender.send(&frames);
                sent += taken;
                if taken < frames.len() {
                    refused += frames.len() - taken;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
    let counts: Vec<String> =
        KINDS.iter().zip(attack.counts).map(|(kind, count)| format!("{count} {}", kind.name)).collect();
    let seconds = began.elapsed().as_secs_f64();
    let raw = sides.iter().map(|side| side.pool.raw()).sum::<usize>();
    Ok(format!(
        "{sent} packets in {seconds:.1} s ({refused} refused, {raw} samples of raw frames, seed {}): {}",
        options.seed,
        counts.join(", ")
    ))
}
