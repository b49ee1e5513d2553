//! Probes: when the peer is asked which packets it misses, and when its silence has lasted too long.

use super::{Outgoing, State};
use crate::flow::loss_detection::ProbeTimeout;
use crate::flow::paths::Path;
use crate::flow::settings::{LONG_DOUBTS, LONG_PATIENCE, PATH_DOUBTS, Settings};
use crate::time::{Duration, Instant};
use crate::wire::Number;

impl Outgoing {
    /// Returns whether packets are in flight on this path, and the last probes for them went unanswered.
    pub(in crate::flow) fn is_silent(&self, path: usize) -> bool {
        self.paths.get(path).is_some_and(|path| path.in_flight > 0 && path.unanswered >= PATH_DOUBTS)
    }

    /// Returns whether packets are in flight on the long path, and the last probes for them went unanswered.
    fn is_long_silent(&self, settings: &Settings) -> bool {
        settings.long_packet_size > 0 && self.is_silent(settings.long_path())
    }

    /// Notes an answer to a probe on path 0: the peer looks. If the probes on the long path stay unanswered
    /// all the same for long, the path has failed.
    pub(in crate::flow) fn doubt_long(&mut self, now: Instant, settings: &Settings) {
        let path = self.paths.get(settings.long_path()).filter(|_| settings.long_packet_size > 0);
        if !path.is_some_and(|path| path.in_flight > 0 && path.unanswered >= LONG_DOUBTS) {
            self.long_silent_since = None;
            return;
        }
        let since = *self.long_silent_since.get_or_insert(now);
        self.long_failed |= now.since(since) >= LONG_PATIENCE;
    }

    /// Notes an authentic packet from the peer.
    pub(in crate::flow) fn heard(&mut self, now: Instant) {
        self.probe_timeout.heard(now);
    }

    /// The path on which a probe is due first, and the time.
    pub(super) fn probe_at(&self, watched: bool, settings: &Settings) -> Option<(Instant, usize)> {
        let due = |index: usize, path: &Path| {
            // Path 0 alone has nothing to ask: it is asked together with the long path.
            let timed = if index == 0 && path.in_flight == 0 && self.is_long_silent(settings) {
                settings.long_path()
            } else {
                index
            };
            path.asked_at + self.probe_interval(timed, &self.paths[timed], settings)
        };
        // Path 0 shows whether it is the peer that is silent, or only the long path.
        let is_asked =
            |(index, path): &(usize, &Path)| path.in_flight > 0 || *index == 0 && self.is_long_silent(settings);
        let waiting = self.paths.iter().enumerate().filter(is_asked);
        let unsettled = || self.is_unsettled().then(|| (due(0, &self.paths[0]), 0));
        let keepalive = || {
            let quiet_since = self.probe_timeout.quiet_since().max(self.paths[0].asked_at);
            (watched && settings.keepalive.0 != 0).then_some((quiet_since + settings.keepalive, 0))
        };
        waiting.map(|(index, path)| (due(index, path), index)).min().or_else(unsettled).or_else(keepalive)
    }

    /// Returns whether no noted packet is outstanding, although the peer has not acknowledged everything.
    /// Then the peer must be asked which packets it misses.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.records.is_empty() && self.in_flight() == 0 && self.lost.is_empty()
    }

    /// Lets the probes for packets in flight leave without further waits, because there may be an answer now.
    pub(in crate::flow) fn ask_again(&mut self) {
        for path in self.paths.iter_mut().filter(|path| path.in_flight > 0) {
            path.unanswered = 0;
        }
    }

    pub(super) fn probe_interval(&self, index: usize, path: &Path, settings: &Settings) -> Duration {
        let delay = path.round_trip.probe_delay(settings.ack_delay, settings.pto_min);
        let interval = ProbeTimeout::interval(delay, path.unanswered, settings);
        // An answer before the oldest packet may count as lost would be of no use.
        let oldest =
            self.records.front().filter(|oldest| oldest.state == State::InFlight && usize::from(oldest.path) == index);
        oldest.map_or(interval, |oldest| interval.max(settings.spacing(oldest.transmission)))
    }

    /// The path on which a probe should leave now.
    #[inline]
    pub(in crate::flow) fn due_probe(&self, now: Instant, watched: bool, settings: &Settings) -> Option<usize> {
        // Nearly always nothing is in flight, or it has just left: no interval is shorter than this.
        let mut waits = false;
        let mut is_recent = |path: &Path| {
            waits |= path.in_flight > 0;
            path.in_flight == 0 || now < path.asked_at + settings.pto_min
        };
        if self.paths.iter().all(&mut is_recent)
            && (waits || !(watched || self.is_unsettled()))
            && !self.is_long_silent(settings)
        {
            debug_assert!(self.probe_at(watched, settings).is_none_or(|(at, _)| at > now));
            return None;
        }
        self.probe_at(watched, settings).filter(|(at, _)| *at <= now).map(|(_, path)| path)
    }

    /// Returns whether the peer has been silent for too long. To be called before `probe_sent`.
    pub(in crate::flow) fn peer_is_silent(&mut self, now: Instant, path: usize, settings: &Settings) -> bool {
        let asks_only = self.records.is_empty();
        if asks_only {
            self.probe_timeout.was_quiet(settings.keepalive);
        }
        let interval =
            if asks_only { settings.keepalive } else { self.probe_interval(path, &self.paths[path], settings) };
        self.probe_timeout.is_silent(now, interval, settings)
    }

    /// Notes that a probe with this number leaves.
    pub(in crate::flow) fn probe_sent(&mut self, now: Instant, number: Number, path: usize) {
        self.paths.probe_sent(now, number, path);
        self.probe_timeout.probe_sent(now);
    }
}
