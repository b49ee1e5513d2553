//! What a platform names that has no processes of a node: a place on one that cannot be made, so nothing of it is ever called. It has
//! no memory of neighbours either; [`crate::memory::InProcess`], in which nothing is registered, stands for that.

use std::os::fd::RawFd;

use super::{
    Claim, Cooperation, Ending, Fate, Node, Offered, PeerFault, Piece, PostedTable, Remainder, SleepMode, SlotCounts,
    Stamp, Ticket,
};
use super::{Wanted, Wish};

/// The [`Node`] of a platform that has none, with all that would belong to it.
#[derive(Clone, Copy, Debug)]
pub enum NoNode {}

impl Node for NoNode {
    type Table = Self;
    type Sleeper = Self;

    fn own_place(&self) -> usize {
        match *self {}
    }

    fn slots(&self) -> SlotCounts {
        match *self {}
    }

    fn published_max(&self, _: usize) -> usize {
        match *self {}
    }

    fn phases_ahead(&self, _: usize, _: usize) -> u32 {
        match *self {}
    }

    fn publish(&mut self, _: usize, _: Stamp, _: usize, _: impl FnOnce(&mut [u8])) {
        match *self {}
    }

    fn wake_if_asleep(&mut self, _: usize) {
        match *self {}
    }

    fn with_published<R>(&self, _: usize, _: usize, _: Stamp, _: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match *self {}
    }

    fn is_published(&self, _: usize, _: usize, _: Stamp) -> bool {
        match *self {}
    }

    fn finish_phases(&mut self, _: usize, _: Stamp) {
        match *self {}
    }

    fn finished_phases(&self, _: usize, _: usize) -> Stamp {
        match *self {}
    }

    fn frame_max(&self) -> usize {
        match *self {}
    }

    fn try_send_with(&mut self, _: usize, _: &[u8], _: usize, _: impl FnOnce(&mut [u8])) -> bool {
        match *self {}
    }

    fn poll(&mut self, _: usize, _: impl FnMut(usize, &[u8])) -> usize {
        match *self {}
    }

    fn is_pending(&mut self) -> bool {
        match *self {}
    }

    fn poll_fault(&mut self) -> Option<PeerFault> {
        match *self {}
    }

    fn look_for_dead(&mut self) {
        match *self {}
    }

    fn say_left(&self, _: bool) {
        match *self {}
    }

    fn arm(&mut self, _: SleepMode) -> bool {
        match *self {}
    }

    fn disarm(&mut self) {
        match *self {}
    }

    fn nudge(&mut self) {
        match *self {}
    }

    fn sleeper(&self) -> Self {
        match *self {}
    }

    fn doorbell_fd(&self) -> RawFd {
        match *self {}
    }

    fn drain_doorbell(&mut self) {
        match *self {}
    }

    fn own_posted_table(&mut self, _: usize) -> Option<Self> {
        match *self {}
    }

    fn any_source_table(&mut self) -> Option<Self> {
        match *self {}
    }

    fn posted_table_of(&mut self, _: usize) -> Option<Self> {
        match *self {}
    }

    fn announce_written(&mut self, _: usize) {
        match *self {}
    }

    fn take_written(&mut self) -> bool {
        match *self {}
    }

    fn set_inside_mpi(&self, _: bool) {
        match *self {}
    }

    fn is_inside_mpi(&self, _: usize) -> bool {
        match *self {}
    }

    fn say_copies(&self, _: bool) {
        match *self {}
    }

    fn says_copies(&self, _: usize) -> Option<bool> {
        match *self {}
    }

    fn awake(&self) -> usize {
        match *self {}
    }

    fn is_oversubscribed(&self) -> bool {
        match *self {}
    }

    fn note_processor(&self) {
        match *self {}
    }

    fn shares_processor(&self) -> bool {
        match *self {}
    }

    fn migrate(&self) {
        match *self {}
    }

    fn rebalance(&self) {
        match *self {}
    }
}

impl PostedTable for NoNode {
    type Cooperation = Self;

    fn cooperative_copy(&self) -> &Self {
        match *self {}
    }

    fn note_several(&self, _: bool) {
        match *self {}
    }

    fn sender_awaits_several(&self) -> bool {
        match *self {}
    }

    fn posted(&self) -> u32 {
        match *self {}
    }

    fn advance(&mut self, _: u32) {
        match *self {}
    }

    fn publish_matched(&mut self) {
        match *self {}
    }

    fn post(&mut self, _: &Wanted) -> Option<Ticket> {
        match *self {}
    }

    fn withdraw(&mut self, _: Ticket) -> bool {
        match *self {}
    }

    fn fate(&self, _: Ticket) -> Fate {
        match *self {}
    }

    fn free(&mut self, _: Ticket) {
        match *self {}
    }

    fn take(&mut self, _: &Offered) -> Option<Claim> {
        match *self {}
    }

    fn wish(&self, _: u32, _: i32) -> Wish {
        match *self {}
    }

    fn is_wanted(&self) -> bool {
        match *self {}
    }

    fn finish(&mut self, _: &Claim, _: u64, _: Option<Remainder>, _: bool) {
        match *self {}
    }
}

impl Cooperation for NoNode {
    fn begin(&self, _: u32, _: u64, _: u64) -> bool {
        match *self {}
    }

    fn open_name(&self) -> Option<u32> {
        match *self {}
    }

    fn moving_name(&self) -> Option<u32> {
        match *self {}
    }

    fn take_front(&self) -> Option<Piece> {
        match *self {}
    }

    fn take_back(&self, _: u32) -> Option<Piece> {
        match *self {}
    }

    fn moved(&self, _: &Piece, _: bool) -> bool {
        match *self {}
    }

    fn ending(&self) -> Ending {
        match *self {}
    }
}
