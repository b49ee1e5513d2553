//! The operands of one-sided operations: memory of the program, and a place in the window of the target
//! (MPI-5.0 §12.3).

use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use weft_mpi::engine::Engine;
use weft_mpi::error::{Error, Result};
use weft_mpi::layout::Element;
use weft_mpi::memory::{self, UserData};
use weft_mpi::one_sided::{self, Spot, TargetItems};
use weft_mpi::process::Process;
use weft_mpi::reduce::{self, Op};

impl Part {
    /// The data of this part, for the engine.
    pub(crate) fn operand(&self, process: &Process, access: memory::BufferUse) -> Result<UserData> {
        let found = process.objects.committed(self.datatype.0)?;
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        unsafe { UserData::new_for(access, self.buffer.as_ptr(), self.count as u64, &found.description.layout) }
    }

    /// The one element that the data consists of; `None` where there is no data.
    pub(super) fn element(&self, process: &Process, name: &str) -> Result<Option<Element>> {
        let layout = &process.objects.committed(self.datatype.0)?.description.layout;
        match layout.homogeneous() {
            _ if layout.size() == 0 || self.count == 0 => Ok(None),
            None => {
                let message = format!("{name} must consist of one predefined datatype, however often");
                Err(Error::new(MPI_ERR_TYPE, message))
            }
            found => Ok(found),
        }
    }
}

impl Target {
    /// The place of the data, if this thread may access it without the lock of the process, and `origin` has
    /// the same description.
    #[inline(always)]
    pub(super) fn spot(&self, win: MPI_Win, origin: &Part) -> Option<Spot> {
        let alike = origin.datatype == self.datatype && origin.count == self.count;
        if alike { one_sided::spot(win.0, self.rank, self.disp, self.count, self.datatype.0) } else { None }
    }

    /// Combines the target's elements with those of `origin` without the lock of the process. Returns `false`
    /// when that is impossible. The elements as they were before go to `result`, if there is one.
    #[inline(always)] // two callers; as a function of its own it takes 11 of 476 instructions more
    pub(super) fn update(&self, win: MPI_Win, origin: Part, result: Option<Part>, op: MPI_Op) -> bool {
        let Some(op) = weft_mpi::predefined::operation(op.0) else { return false };
        let own = Part { buffer: Buffer::NULL, count: self.count, datatype: self.datatype };
        let is_unusual =
            |result: &Part| result.buffer.is_null() || result.count != own.count || result.datatype != own.datatype;
        if result.as_ref().map_or(op == Op::NoOp, is_unusual) {
            return false;
        }
        let into = result.map_or(std::ptr::null_mut(), |result| result.buffer.as_ptr());
        // An unused argument is not looked at (MPI-5.0 §12.3.4).
        let spot = self.spot(win, if op == Op::NoOp { &own } else { &origin });
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        // `spot` has compared origin and target.
        spot.filter(|spot| reduce::supports(op, spot.element)).is_some_and(|spot| unsafe {
            spot.memory.update(spot.offset, (op, spot.element), spot.bytes, origin.buffer.as_ptr(), into)
        })
    }
}

/// The target of an operation.
pub(super) struct Found<'a> {
    pub(super) index: usize,
    pub(super) access: TargetItems<'a>,
    pub(super) engine: &'a mut Engine,
    /// The operation is over when it returns: no work is left for the engine.
    pub(super) is_mapped: bool,
}

impl Target {
    /// Finds the target in this window; `None` when there is nothing to do. `bytes`: the length of the data
    /// that goes there or comes from there, if it matters.
    #[inline]
    pub(super) fn find<'a>(
        &self,
        process: &'a mut Process,
        win: MPI_Win,
        bytes: Option<u64>,
        wanted: bool,
    ) -> Result<Option<Found<'a>>> {
        let (objects, engine) = process.parts()?;
        let found = objects.window_mut(win.0)?;
        let Some((rank, part)) = found.target(self.rank)? else {
            return objects.committed(self.datatype.0).map(|_| None);
        };
        let (unit, size) = (part.disp_unit, part.size);
        found.epochs.check_access(rank)?;
        if wanted {
            found.epochs.check_passive(rank)?;
        }
        let (index, is_dynamic) = (found.index, found.is_dynamic());
        let layout = &objects.committed(self.datatype.0)?.description.layout;
        let total = memory::packed_size(self.count as u64, layout)?;
        if let Some(bytes) = bytes
            && bytes != total
        {
            let message = format!("the origin has {bytes} bytes and the target {total}: they must be described alike");
            return Err(Error::new(MPI_ERR_TRUNCATE, message));
        }
        let offset = if is_dynamic {
            self.disp as u64
        } else {
            let disp = u64::try_from(self.disp).map_err(|_| negative(self.disp))?;
            let offset = disp.checked_mul(unit).filter(|offset| *offset < 1 << 63);
            let offset = offset.ok_or_else(|| out_of_range(self, size))?;
            let touched = layout.touched(self.count as u64);
            let (low, high) = (offset as i128 + touched.start as i128, offset as i128 + touched.end as i128);
            if total > 0 && (low < 0 || high > i128::from(size)) {
                return Err(out_of_range(self, size));
            }
            offset
        };
        let is_mapped = engine.windows.get(index).is_some_and(|window| window.is_mapped(rank));
        let access = TargetItems { target: rank, offset, count: self.count as u64, layout };
        Ok((total > 0).then_some(Found { index, access, engine, is_mapped }))
    }
}

#[cold]
fn negative(disp: MPI_Aint) -> Error {
    Error::new(MPI_ERR_DISP, format!("target_disp is {disp}; it must not be negative"))
}

#[cold]
fn out_of_range(target: &Target, size: u64) -> Error {
    let Target { rank, disp, count, .. } = target;
    let message =
        format!("{count} items at target_disp {disp} are not in the window of rank {rank}, which has {size} bytes");
    Error::new(MPI_ERR_RMA_RANGE, message)
}
