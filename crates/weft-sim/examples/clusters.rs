//! Measures how full streams keep a link between two clusters: `cargo run --release -p weft-sim --example
//! clusters -- [MBIT/S LOST-PER-MILLION STREAMS PACKET-BYTES GRANTED [MS...]]`.

use weft_core::time::Duration;
use weft_sim::clusters::Clusters;
use weft_sim::plan::Demands;
use weft_sim::world;

fn main() {
    let numbers: Vec<f64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, other: f64| numbers.get(at).copied().unwrap_or(other);
    let (rate, lost, streams) = (number(0, 10_000.0) as u64, number(1, 0.0) as u32, number(2, 1.0) as u32);
    let (packet_size, fetched) = (number(3, 8952.0) as usize, number(4, 0.0) > 0.0);
    let delays = if numbers.len() > 5 { &numbers[5..] } else { &[0.1, 1.0, 3.0, 10.0, 30.0, 100.0][..] };
    for ms in delays {
        let latency = Duration((ms * 1e6) as u64);
        let clusters = Clusters { latency, rate, packet_size, streams, fetched, lost_per_million: lost };
        let mut plan = clusters.plan();
        plan.demands = Demands { spurious_permille_max: Some(1000), ..Demands::default() };
        match world::run(&plan, 1) {
            Ok(report) => println!(
                "{ms:6} ms: {:5.1} % in all, {:5.1} % steady; {} resent of {} ({} for nothing), {} probes, {} cuts by loss {} by delay, \
                 {} MB queue, {} KB in a flow, {} acks; {:.1} s",
                report.share_percent(),
                report.steady_percent(),
                report.counters.resent(),
                report.counters.data_packets_sent,
                report.resends.spurious(),
                report.counters.probes,
                report.counters.window_cuts,
                report.counters.window_cuts_by_delay,
                report.queue_bytes_max >> 20,
                report.flow_bytes_max >> 10,
                report.counters.acks_standalone,
                report.processor.0 as f64 / 1e9,
            ),
            Err(violation) => println!("{ms:6} ms: {violation}"),
        }
    }
}
