//! Streams from one cluster to another fill the link between them, however long it is: all in virtual time.

use weft_core::flow::{FAR, Settings};
use weft_core::time::Duration;
use weft_sim::clusters::Clusters;
use weft_sim::report::Report;
use weft_sim::world;

/// The latencies of crossing the link once, microseconds.
const LATENCIES_US: [u64; 6] = [100, 1_000, 3_000, 10_000, 30_000, 100_000];

/// Plays a run; the plan demands that the link is as full as the scenario asks for.
fn play(clusters: Clusters) -> Report {
    world::run(&clusters.plan(), 1).unwrap_or_else(|violation| panic!("{clusters:?}: {violation}"))
}

const fn stream(latency_us: u64) -> Clusters {
    let latency = Duration::from_micros(latency_us);
    Clusters { latency, rate: 1_000, packet_size: 8952, streams: 1, fetched: false, lost_per_million: 0 }
}

#[test]
fn one_stream_fills_a_link_of_any_length() {
    for latency in LATENCIES_US {
        let report = play(stream(latency));
        assert!(report.steady_percent() >= 90.0 && report.counters.resent() == 0, "{latency} us: {report}");
    }
}

#[test]
fn streams_that_are_granted_fill_it_too_one_or_several_and_with_light_loss() {
    for latency in LATENCIES_US {
        for (streams, lost_per_million) in [(1, 0), (4, 0), (4, 100)] {
            let report = play(Clusters { streams, lost_per_million, fetched: true, ..stream(latency) });
            assert!(report.steady_percent() >= 90.0, "{latency} us, {streams} streams: {report}");
        }
    }
}

#[test]
fn small_packets_fill_it_too() {
    for latency in [1_000, 30_000] {
        let report = play(Clusters { packet_size: 1452, fetched: true, ..stream(latency) });
        assert!(report.steady_percent() >= 90.0, "{latency} us: {report}");
    }
}

#[test]
fn ten_gigabits_a_second_are_filled_and_what_a_flow_keeps_is_bounded() {
    for latency in [1_000, 10_000, 30_000] {
        let clusters = Clusters { rate: 10_000, lost_per_million: 100, ..stream(latency) };
        let report = play(clusters);
        assert!(report.steady_percent() >= 90.0, "{latency} us: {report}");
        // No data is copied: a window of 30 ms holds 75 MB.
        let books = Settings { packet_size: clusters.packet_size, ..Settings::default() }.books_max();
        assert!(report.flow_bytes_max <= books + (64 << 10), "{} bytes", report.flow_bytes_max);
    }
}

#[test]
fn hosts_that_send_at_once_leave_a_queue_that_is_short_beside_the_path() {
    let clusters = Clusters { streams: 4, ..stream(100_000) };
    let report = play(clusters);
    // The queue holds what the first windows put there, before a flow knows how long the way is, and no more.
    let first = 4 * u64::from(Settings::default().window_packets) * clusters.packet_size as u64;
    assert!(clusters.latency.0 > FAR.0 && report.queue_bytes_max <= first, "{} bytes", report.queue_bytes_max);
}
