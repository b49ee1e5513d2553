//! The place of an access in records: it is told by its first byte, or by a datatype that its target has been
//! told.
//!
//! `origin.rs` and `placed.rs` ask it for each access to a target.

use std::ops::Range;

use weft_core::layout::Layout;
use weft_core::one_sided::{Items, Record, TargetLocation};

use super::{DESCRIPTION_BYTES_MAX, OneSided, PART_LAYOUT, PART_RUNS};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::{Exposed, UserData};
use crate::transport::Platform;
use crate::windows::{LAYOUTS_MAX, Window};

/// Items of the target's memory (MPI-5.0 §12.3).
#[derive(Clone, Copy)]
pub struct TargetItems<'a> {
    /// The target's rank in the window's group.
    pub target: u32,
    /// Bytes from the beginning of the target's window to the base of the first item; in a dynamic window,
    /// its address.
    pub offset: u64,
    /// The number of items.
    pub count: u64,
    /// The datatype of the items.
    pub layout: &'a Layout,
}

impl TargetItems<'_> {
    /// The items, if they lie in this memory.
    pub(super) fn within(&self, exposed: &Exposed) -> Result<UserData> {
        exposed.items(self.offset, self.count, self.layout).ok_or_else(|| {
            let touched = self.layout.touched(self.count);
            out_of_range(self.offset, touched.start, touched.end, exposed.len())
        })
    }
}

#[cold]
pub(super) fn out_of_range(offset: u64, low: i64, high: i64, bytes: u64) -> Error {
    let (low, high) = (i128::from(offset) + i128::from(low), i128::from(offset) + i128::from(high));
    Error::new(
        ErrorClass::RmaRange,
        format!("bytes {low} to {high} of the target are not in its window, which has {bytes} bytes"),
    )
}

/// The place of an access, or of a part of one, as records tell it.
pub(super) enum Told {
    /// The bytes from this offset on.
    Run(u64),
    /// Items of the datatype that has this number at the target.
    Items { offset: u64, layout: u32, count: u64 },
}

/// A part of an access: its place as records tell it, and its range among the packed bytes of the access.
pub(super) struct Part {
    pub(super) told: Told,
    pub(super) range: Range<u64>,
    /// Set if the access has other parts.
    pub(super) is_part: bool,
}

impl Part {
    /// The place of the packed byte `at` of the access.
    pub(super) fn location(&self, at: u64) -> TargetLocation {
        let skip = at - self.range.start;
        match self.told {
            Told::Run(offset) => TargetLocation { offset: offset + skip, items: None },
            Told::Items { offset, layout, count } => {
                TargetLocation { offset, items: Some(Items { layout, count, skip }) }
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl<P: Platform> OneSided<'_, P> {
    /// Calls `operation` for `access`, or for each part of it if the description of its datatype is too long
    /// for a target to keep. Parts end between pieces of `grain` packed bytes.
    ///
    /// # Errors
    /// The errors of `operation`; items are too far apart.
    pub(super) fn for_each_part(
        &mut self,
        window: &mut Window,
        access: &TargetItems<'_>,
        grain: u64,
        operation: &mut dyn FnMut(&mut Self, &mut Window, Part) -> Result<()>,
    ) -> Result<()> {
        let &TargetItems { target, offset, count, layout } = access;
        if let Some(told) = self.describe_target(window, access) {
            let range = 0..layout.packed_size(count).unwrap_or(0);
            return operation(self, window, Part { told, range, is_part: false });
        }
        let mut outcome = Ok(());
        let cut = layout.cut(count, PART_RUNS, grain, &mut |part, range| {
            self.tell_layout(window, target, PART_LAYOUT, part);
            let told = Told::Items { offset, layout: PART_LAYOUT, count: 1 };
            outcome = operation(self, window, Part { told, range, is_part: true });
            outcome.is_ok()
        });
        outcome?;
        cut.map_err(|error| {
            Error::new(ErrorClass::NoMem, format!("the items cannot be described to their target: {error}"))
        })
    }

    /// Finds out how records tell the place of `access`, and tells the target the datatype if it has not been
    /// told. `None`: the description is too long.
    fn describe_target(&mut self, window: &mut Window, access: &TargetItems<'_>) -> Option<Told> {
        let &TargetItems { target, offset, count, layout } = access;
        if let Some((first, _)) = layout.single_run(count) {
            return Some(Told::Run(offset.wrapping_add_signed(first)));
        }
        let state = &mut window.targets[target as usize];
        if let Some(number) = state.layouts.iter().position(|known| known.is_same(layout)) {
            return Some(Told::Items { offset, layout: number as u32, count });
        }
        layout.described_bytes(DESCRIPTION_BYTES_MAX)?;
        let number = state.layout_next;
        state.layout_next = (number + 1) % LAYOUTS_MAX;
        if number < state.layouts.len() {
            state.layouts[number] = layout.clone();
        } else {
            state.layouts.push(layout.clone());
        }
        self.tell_layout(window, target, number as u32, layout);
        Some(Told::Items { offset, layout: number as u32, count })
    }

    fn tell_layout(&mut self, window: &mut Window, target: u32, number: u32, layout: &Layout) {
        let mut description = Vec::new();
        layout.describe(&mut description);
        self.record(window, target, &Record::Layout { number, description: &description });
    }
}
