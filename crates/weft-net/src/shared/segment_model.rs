//! The shared segment for the model checker: memory of this process, new in each schedule.

use std::path::PathBuf;

use loom::sync::atomic::Ordering;
use weft_engine::transport::SlotCounts;

use super::area::{Area, Memory};
use super::costs::SharedCosts;
use super::doorbell::KEY_WORDS;
use super::slot_area::{SlotArea, SlotMemory};
use super::{LOCAL_SIZE_MAX, Settings, sleeping};
use crate::Error;
use crate::atomic::{AtomicI32, AtomicU32, AtomicU64};

#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) local_size: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) slots: SlotCounts,
}

impl Geometry {
    pub(crate) fn choose(local_size: usize, _: &Settings) -> Self {
        Self { local_size, ring_bytes: 0, slots: SlotCounts { communicators: 1, ..SlotCounts::default() } }
    }

    pub(crate) fn total(self) -> usize {
        0
    }

    pub(crate) fn is_lazy(self) -> bool {
        false
    }

    pub(crate) fn is_short(self, _: usize) -> bool {
        false
    }
}

#[derive(Default)]
pub(crate) struct RankState {
    pub(crate) sleeping: AtomicU32,
    pub(crate) announcements: AtomicU32,
    pub(crate) pid: AtomicI32,
    pub(crate) written: AtomicU32,
    pub(crate) progress_bell: [AtomicU64; KEY_WORDS],
    pub(crate) announced: [AtomicU64; LOCAL_SIZE_MAX / 64],
    pub(crate) inside_mpi: AtomicU32,
    pub(crate) posted: AtomicU32,
    pub(crate) common: AtomicU32,
    pub(crate) copies: AtomicU32,
    pub(crate) bell: [AtomicU64; KEY_WORDS],
    pub(crate) birth: AtomicU64,
    pub(crate) left: AtomicU32,
}

pub(crate) struct Segment {
    geometry: Geometry,
    asleep: AtomicU32,
    rank_states: Vec<RankState>,
    rings: Vec<Memory>,
    slots: Vec<SlotMemory>,
    costs: SharedCosts,
}

impl Segment {
    pub(crate) fn create(_: &str, local_size: usize, settings: &Settings) -> Result<(Self, Vec<String>), Error> {
        let geometry = Geometry::choose(local_size, settings);
        let rank_states = (0..local_size).map(|_| RankState::default()).collect();
        let rings = (0..local_size * local_size).map(|_| Memory::new()).collect();
        let slots = (0..local_size).map(|_| SlotMemory::default()).collect();
        Ok((
            Self { geometry, asleep: AtomicU32::default(), rank_states, rings, slots, costs: SharedCosts::default() },
            Vec::new(),
        ))
    }

    pub(crate) fn attach(_: &str, _: usize, _: &Settings) -> Result<Self, Error> {
        Err(Error::Unavailable("the ranks of a model are threads that share one value".into()))
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn processors(&self) -> usize {
        usize::MAX
    }

    pub(crate) fn attached(&self) -> usize {
        self.geometry.local_size
    }

    pub(crate) fn rank_state(&self, index: usize) -> &RankState {
        &self.rank_states[index]
    }

    pub(crate) fn costs(&self) -> &SharedCosts {
        &self.costs
    }

    pub(crate) fn speaks_first(&self) -> bool {
        true
    }

    pub(crate) fn fall_asleep(&self, index: usize, rest: u32) {
        sleeping::fall_asleep(&self.rank_state(index).sleeping, &self.asleep, rest);
    }

    pub(crate) fn take_sleep(&self, index: usize) -> u32 {
        sleeping::take_sleep(&self.rank_state(index).sleeping, &self.asleep)
    }

    pub(crate) fn awake(&self) -> usize {
        self.geometry.local_size.saturating_sub(self.asleep.load(Ordering::Relaxed) as usize).max(1)
    }

    pub(crate) fn ring(&self, to: usize, from: usize) -> Area {
        self.rings[to * self.geometry.local_size + from].area()
    }

    pub(crate) fn slot(&self, of: usize, _: usize) -> SlotArea {
        self.slots[of].area()
    }

    pub(crate) fn reserve_ring(&self, _: usize, _: usize) -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn reserve_common(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn directories(_: &Settings) -> Vec<PathBuf> {
    Vec::new()
}
