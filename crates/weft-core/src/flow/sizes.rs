//! The sending half's work on the size of packets: it asks which sizes its paths carry (`path_mtu`), and cuts
//! packets that are longer.

use super::outgoing::{Outgoing, Record, State};
use super::path_mtu::{Change, Cutting, PathMtu};
use super::queue::{Content, Departure};
use super::settings::{CUT_AFTER, PACKET_SIZE_MIN, SIZE_DOUBTED_AFTER, Settings, VOUCHED_MIN};
use crate::time::Instant;
use crate::wire::Number;
use alloc::boxed::Box;

impl Outgoing {
    /// Goes on with packets of this size.
    pub(super) fn resume_size(&mut self, size: u16, settings: &Settings) {
        let full = settings.packet_size as u16;
        self.mtu = (size < full).then(|| Box::new(PathMtu::new(size, full)));
        self.size = size;
    }

    /// Takes the loss of a question of this size.
    #[cold]
    pub(super) fn question_failed(&mut self, now: Instant, size: u16) {
        let change = self.mtu.as_mut().map_or(Change::Nothing, |mtu| mtu.failed(now, size));
        self.vouched = 0;
        self.note_change(change);
    }

    /// Notes that a packet has arrived behind a missing one. If the packet is a question, its arrival answers
    /// it.
    #[cold]
    pub(super) fn note_question(&mut self, now: Instant, index: usize) {
        let record = self.records.get_mut(index).filter(|record| record.transmission == 1);
        if let Some(Content::Question { size }) = record.map(|record| &mut record.content) {
            let size = core::mem::take(size);
            self.question_passed(now, size);
        }
    }

    /// Notes that the peer has a packet, of which the transmission in the record has arrived.
    #[cold]
    pub(super) fn note_carried(&mut self, now: Instant, index: usize) {
        let record = &self.records[index];
        let is_whole = record.transmission <= CUT_AFTER || self.vouched < VOUCHED_MIN;
        let is_question = matches!(record.content, Content::Question { .. });
        if let Some(mtu) = &mut self.mtu
            && is_whole
            && !is_question
            && record.state != State::Acknowledged
        {
            let is_proof = mtu.carried(now, record.path, record.content.packet_bytes(), record.sent_at);
            self.vouched = self.vouched.saturating_add(u8::from(is_proof));
            self.forget_size(now);
        }
    }

    /// Notes that the `lost`-th transmission of a large packet was lost on `path`. After several losses the
    /// size may be the reason.
    #[cold]
    pub(super) fn doubt_lost(&mut self, now: Instant, lost: u8, path: u8, settings: &Settings) {
        // The long path has lost the packet with its connection.
        if settings.is_long(usize::from(path)) {
            return;
        }
        if lost <= CUT_AFTER {
            self.vouched = 0;
        }
        if lost >= SIZE_DOUBTED_AFTER {
            let full = settings.packet_size as u16;
            self.mtu.get_or_insert_with(|| Box::new(PathMtu::new(full, full))).doubt(now, path);
        }
    }

    /// Notes that a question of this size has arrived.
    #[cold]
    pub(super) fn question_passed(&mut self, now: Instant, size: u16) {
        let is_in_doubt = self.mtu.as_ref().is_some_and(|mtu| mtu.is_in_doubt(size));
        self.vouched = self.vouched.saturating_add(u8::from(is_in_doubt));
        let change = self.mtu.as_mut().map_or(Change::Nothing, |mtu| mtu.passed(now, size));
        self.note_change(change);
        self.forget_size(now);
    }

    /// Drops the state of path MTU discovery once all is as at first, and the flow's counters have been told.
    fn forget_size(&mut self, now: Instant) {
        let is_told = self.size_changes == [0; 2];
        self.mtu.take_if(|mtu| is_told && mtu.is_over(now));
    }

    /// Drops all doubt and all lost controls of an idle flow, because all that it sent has arrived.
    pub(super) fn forget_doubt(&mut self) {
        let is_told = self.size_changes == [0; 2];
        self.mtu.take_if(|mtu| is_told && mtu.is_at_full_size());
    }

    fn note_change(&mut self, change: Change) {
        self.size = self.mtu.as_ref().map_or(self.size, |mtu| mtu.size());
        self.size_changes = match change {
            Change::Nothing => self.size_changes,
            Change::Fell => [self.size_changes[0].saturating_add(1), self.size_changes[1]],
            Change::Rose => [self.size_changes[0], self.size_changes[1].saturating_add(1)],
        };
    }

    /// The number of times that packets have become smaller, and larger, since the last call.
    pub(super) fn take_size_changes(&mut self, now: Instant) -> [u8; 2] {
        let changes = core::mem::take(&mut self.size_changes);
        self.forget_size(now);
        changes
    }

    /// The question for a size that should leave now.
    #[cold]
    pub(super) fn next_question(&mut self, now: Instant, settings: &Settings) -> Option<Departure> {
        if !self.is_within_reach(true, settings) || self.is_idle() {
            return None;
        }
        let paths = self.paths.bulk(settings).fold(1, |paths, path| paths | 1 << path);
        let (size, path) = self.mtu.as_mut()?.question(now, paths)?;
        self.mtu.as_mut()?.asked(now);
        let number = self.base + self.records.len() as u64;
        let (content, transmission, state) = (Content::Question { size }, 1, State::InFlight);
        let order = self.paths.depart(now, usize::from(path), Some(Number(number as u32)));
        self.records.push_back(Record { sent_at: now, content, order, transmission, path, state });
        let order = order.0 as u8;
        Some(Departure { number, transmission, path: path.into(), order, content, request: true })
    }

    /// Returns whether a packet is too long to leave as a whole; then it leaves in pieces.
    #[inline]
    pub(super) fn begins_cut(&mut self, departure: &Departure, settings: &Settings) -> bool {
        let may_be_long = settings.long_packet_size > 0 && departure.content.packet_bytes() > settings.packet_size;
        if self.mtu.is_none() && departure.transmission <= CUT_AFTER && !may_be_long {
            return false;
        }
        self.cut(departure, settings)
    }

    #[cold]
    fn cut(&mut self, departure: &Departure, settings: &Settings) -> bool {
        let now = self.packet_size_on(departure.path, settings);
        let is_in_vain = departure.transmission > CUT_AFTER && self.vouched >= VOUCHED_MIN;
        let size = if is_in_vain { now.min(PACKET_SIZE_MIN) } else { now };
        if departure.content.packet_bytes() + settings.seal_size() <= size {
            return false;
        }
        let full = settings.packet_size as u16;
        let mtu = self.mtu.get_or_insert_with(|| Box::new(PathMtu::new(full, full)));
        mtu.cutting = Some(Cutting { departure: *departure, at: 0, size: size as u16 });
        true
    }

    /// The packet that is leaving in pieces, if more pieces are to come. None if the packet has arrived
    /// meanwhile or is sent otherwise.
    #[cold]
    pub(super) fn cutting(&mut self) -> Option<Cutting> {
        let Cutting { departure, .. } = self.mtu.as_ref()?.cutting?;
        let record = departure.number.checked_sub(self.base).and_then(|index| self.records.get(index as usize));
        let is_wanted = |record: &Record| {
            record.transmission == departure.transmission
                && matches!(record.state, State::InFlight | State::Overtaken(_))
        };
        let mtu = self.mtu.as_mut()?;
        mtu.cutting.take_if(|_| !record.is_some_and(is_wanted));
        mtu.cutting
    }

    /// Notes that another piece has left, up to `at`; `over`: it was the last.
    #[cold]
    pub(super) fn cut_until(&mut self, at: u16, over: bool) {
        if let Some(mtu) = &mut self.mtu {
            mtu.cutting = mtu.cutting.take().filter(|_| !over).map(|cutting| Cutting { at, ..cutting });
        }
    }

    /// Returns whether a piece or a question waits to leave.
    #[inline]
    pub(super) fn has_sizes_to_try(&self, settings: &Settings) -> bool {
        let may_ask = || !self.is_idle() && self.is_within_reach(true, settings);
        self.mtu.as_ref().is_some_and(|mtu| mtu.cutting.is_some() || mtu.waits() && may_ask())
    }
}
