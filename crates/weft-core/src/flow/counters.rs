//! The counters and gauges of one flow, with a table of their names.

/// Declares the counters once: as fields, as a sum, and by name.
macro_rules! counters {
    ($($(#[doc = $about:literal])+ $name:ident,)+) => {
        /// The counts of all that happened in one flow.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $about])+ pub $name: u64,)+
        }

        impl Counters {
            /// Name and meaning of each counter.
            pub const NAMES: &[(&str, &str)] = &[$((stringify!($name), concat!($($about),+)),)+];

            /// The counters in the order of `NAMES`.
            pub const fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name),+]
            }

            /// Adds another flow's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// Packets given to the carrier, of every kind.
    packets_sent,
    /// Authentic packets that arrived, of every kind.
    packets_received,
    /// Packets with messages or data that were sent for the first time.
    data_packets_sent,
    /// Packets with messages that were sent for the first time on the long path.
    long_packets_sent,
    /// Packets with messages or data that arrived for the first time.
    data_packets_received,
    /// Messages submitted on the ordered channel.
    messages_sent,
    /// Messages delivered from the ordered channel.
    messages_received,
    /// Bytes of messages (with their two bytes of length) and bulk data sent for the first time.
    bytes_sent,
    /// Bytes of messages and bulk data delivered.
    bytes_received,
    /// Packets found missing because later ones were acknowledged.
    lost_by_gap,
    /// Packets found missing by the echo of a probe.
    lost_by_probe,
    /// Packets found missing because the peer asked for them, after it had reported them.
    lost_by_denial,
    /// Packets sent again because later ones were acknowledged.
    resent_by_gap,
    /// Packets sent again because the echo of a probe proved them missing.
    resent_by_probe,
    /// Packets sent again because their path leads to the peer no more.
    resent_by_path,
    /// Packets sent again because the peer misses them, after it had reported them.
    resent_by_denial,
    /// Packets that left in pieces, since they were longer than their path carried.
    cut,
    /// Times packets became smaller because a path (its MTU) carried no larger ones.
    packets_smaller,
    /// Times packets became larger again because the path carried them.
    packets_larger,
    /// Probes sent.
    probes,
    /// Probes that arrived.
    probes_received,
    /// Packets that had arrived before.
    duplicates,
    /// Packets that arrived later than one with a higher number.
    reordered,
    /// Packets with a number outside the window.
    out_of_window,
    /// Packets whose tag was wrong, or too short to have one.
    forged,
    /// Authentic packets that made no sense.
    malformed,
    /// Acknowledgements of packets that were never sent.
    acknowledged_unsent,
    /// Packets that carried nothing but an acknowledgement.
    acks_standalone,
    /// Acknowledgements on their own that had been deferred long enough.
    acks_by_delay,
    /// Acknowledgements on their own because enough packets had arrived.
    acks_by_count,
    /// Acknowledgements on their own of a packet that was late, sent again, or behind a gap.
    acks_by_disorder,
    /// Acknowledgements on their own of a packet that had arrived before.
    acks_by_duplicate,
    /// Acknowledgements on their own that the sender had asked for, or of a whole range of bulk data.
    acks_by_request,
    /// Acknowledgements on their own that answered a probe.
    acks_by_probe,
    /// Acknowledgements on their own that passed a mark of congestion on.
    acks_by_mark,
    /// Owed acknowledgements that travelled with a message or data.
    acks_piggybacked,
    /// Times the congestion window was cut because of losses.
    window_cuts,
    /// Times the congestion window was cut because of a mark of congestion.
    window_cuts_by_mark,
    /// Times the congestion window shrank because of a queue on the path.
    window_cuts_by_delay,
    /// Packets that came with a mark of congestion.
    marks,
    /// Control packets that had arrived before, or long after their turn.
    replayed,
    /// Packets with a right tag whose payload the peer had not sealed.
    unsealed,
}

impl Counters {
    /// The number of acknowledgements on their own, for all reasons.
    pub fn acks_by_cause(&self) -> u64 {
        let at_once = self.acks_by_count + self.acks_by_disorder + self.acks_by_duplicate + self.acks_by_mark;
        self.acks_by_delay + self.acks_by_request + self.acks_by_probe + at_once
    }

    /// The number of packets sent again, for all reasons.
    pub fn resent(&self) -> u64 {
        self.resent_by_gap + self.resent_by_probe + self.resent_by_path + self.resent_by_denial
    }
}

/// The state of one flow in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// The smoothed round trip, ns; a guess before the first sample.
    pub round_trip_ns: u64,
    /// The shortest recent round trip, ns; 0 before the first sample.
    pub round_trip_min_ns: u64,
    /// Packets that may be in flight.
    pub window_packets: u64,
    /// Packets that are in flight.
    pub in_flight_packets: u64,
    /// Bytes of the longest packet that leaves at present: what the path carries (its MTU) without the
    /// network's headers.
    pub packet_bytes: u64,
}

impl Gauges {
    /// Name and meaning of each gauge.
    pub const NAMES: [(&str, &str); 5] = [
        ("round_trip_ns", "The smoothed round trip, ns; a guess before the first sample."),
        ("round_trip_min_ns", "The shortest round trip of late, ns; 0 before the first sample."),
        ("window_packets", "Packets that may be in flight."),
        ("in_flight_packets", "Packets that are in flight."),
        (
            "packet_bytes",
            "Bytes of the longest packet that leaves at present: what the path carries (its MTU) without the network's headers.",
        ),
    ];

    /// The gauges in the order of `NAMES`.
    pub const fn values(&self) -> [u64; Self::NAMES.len()] {
        [self.round_trip_ns, self.round_trip_min_ns, self.window_packets, self.in_flight_packets, self.packet_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_and_a_meaning() {
        let mut counters = Counters { probes: 3, ..Counters::default() };
        counters.add(&Counters { probes: 4, marks: 1, ..Counters::default() });
        let of = |name| {
            let at = Counters::NAMES.iter().position(|(known, _)| *known == name).expect("a counter of that name");
            counters.values()[at]
        };
        assert_eq!((of("probes"), of("marks"), of("duplicates")), (7, 1, 0));
        assert!(Counters::NAMES.iter().all(|(_, about)| about.trim_end().ends_with('.')));
    }
}
