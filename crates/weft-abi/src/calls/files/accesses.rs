//! Accesses to the data of files (MPI-5.0 §14.4).

use super::of_file;
use crate::arguments::*;
use crate::calls::status;
use crate::types::*;
use weft_mpi::error::Result;
use weft_mpi::file::SplitKind;
use weft_mpi::files::{self, Begin, Direction, Items};
use weft_mpi::memory::BufferUse;
use weft_mpi::process::Process;
use weft_mpi::request::Status;

/// The program's buffer.
fn items(process: &Process, direction: Direction, part: Part) -> Result<Items> {
    let buffer_use = match direction {
        Direction::Read => BufferUse::Receive,
        Direction::Write => BufferUse::Send,
    };
    let data = part.operand(process, buffer_use)?;
    Ok(Items {
        data,
        address: part.buffer.addr(),
        handle: part.datatype.0,
        datatype: process.objects.old_type(part.datatype.0)?,
        count: part.count as u64,
    })
}

fn conclude(done: Result<Status>, to: Option<InOut<MPI_Status>>) -> Result<()> {
    status::store(to, &of_file(done)?, None);
    Ok(())
}

/// An access of this process alone.
fn alone(transfer: Transfer, direction: Direction, file: MPI_File, begin: Begin, part: Part) -> Result<()> {
    let items = |process: &Process| items(process, direction, part);
    match transfer {
        Transfer::Blocking(to) => conclude(files::access(file.0, direction, begin, items), to),
        Transfer::Nonblocking(request) => {
            request.set(MPI_Request(of_file(files::start_access(file.0, direction, begin, items))?));
            Ok(())
        }
    }
}

/// An access of all processes of the file.
fn together(transfer: Transfer, direction: Direction, file: MPI_File, begin: Begin, part: Part) -> Result<()> {
    let items = |process: &Process| items(process, direction, part);
    match transfer {
        Transfer::Blocking(to) => conclude(files::access_all(file.0, direction, begin, items), to),
        Transfer::Nonblocking(request) => {
            request.set(MPI_Request(of_file(files::start_access_all(file.0, direction, begin, items))?));
            Ok(())
        }
    }
}

fn ordered(file: MPI_File, direction: Direction, part: Part, to: Option<InOut<MPI_Status>>) -> Result<()> {
    conclude(files::access_ordered(file.0, direction, |process| items(process, direction, part)), to)
}

fn begin(file: MPI_File, kind: SplitKind, direction: Direction, at: Option<Begin>, part: Part) -> Result<()> {
    let items = |process: &Process| items(process, direction, part);
    of_file(files::begin_split(file.0, kind, part.buffer.addr(), direction, at, items))
}

fn end(file: MPI_File, kind: SplitKind, buffer: Buffer, to: Option<InOut<MPI_Status>>) -> Result<()> {
    conclude(files::end_split(file.0, kind, buffer.addr()), to)
}

/// MPI_File_read_at, MPI_File_iread_at (MPI-5.0 §14.4.2).
pub(crate) fn file_read_at(transfer: Transfer, fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    alone(transfer, Direction::Read, fh, Begin::At(offset), part)
}

/// MPI_File_write_at, MPI_File_iwrite_at (MPI-5.0 §14.4.2).
pub(crate) fn file_write_at(transfer: Transfer, fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    alone(transfer, Direction::Write, fh, Begin::At(offset), part)
}

/// MPI_File_read_at_all, MPI_File_iread_at_all (MPI-5.0 §14.4.2).
pub(crate) fn file_read_at_all(transfer: Transfer, fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    together(transfer, Direction::Read, fh, Begin::At(offset), part)
}

/// MPI_File_write_at_all, MPI_File_iwrite_at_all (MPI-5.0 §14.4.2).
pub(crate) fn file_write_at_all(transfer: Transfer, fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    together(transfer, Direction::Write, fh, Begin::At(offset), part)
}

/// MPI_File_read, MPI_File_iread (MPI-5.0 §14.4.3).
pub(crate) fn file_read(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    alone(transfer, Direction::Read, fh, Begin::Individual, part)
}

/// MPI_File_write, MPI_File_iwrite (MPI-5.0 §14.4.3).
pub(crate) fn file_write(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    alone(transfer, Direction::Write, fh, Begin::Individual, part)
}

/// MPI_File_read_all, MPI_File_iread_all (MPI-5.0 §14.4.3).
pub(crate) fn file_read_all(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    together(transfer, Direction::Read, fh, Begin::Individual, part)
}

/// MPI_File_write_all, MPI_File_iwrite_all (MPI-5.0 §14.4.3).
pub(crate) fn file_write_all(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    together(transfer, Direction::Write, fh, Begin::Individual, part)
}

/// MPI_File_read_shared, MPI_File_iread_shared (MPI-5.0 §14.4.4).
pub(crate) fn file_read_shared(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    alone(transfer, Direction::Read, fh, Begin::Shared, part)
}

/// MPI_File_write_shared, MPI_File_iwrite_shared (MPI-5.0 §14.4.4).
pub(crate) fn file_write_shared(transfer: Transfer, fh: MPI_File, part: Part) -> Result<()> {
    alone(transfer, Direction::Write, fh, Begin::Shared, part)
}

/// MPI_File_read_ordered (MPI-5.0 §14.4.4).
pub(crate) fn file_read_ordered(fh: MPI_File, part: Part, status: Option<InOut<MPI_Status>>) -> Result<()> {
    ordered(fh, Direction::Read, part, status)
}

/// MPI_File_write_ordered (MPI-5.0 §14.4.4).
pub(crate) fn file_write_ordered(fh: MPI_File, part: Part, status: Option<InOut<MPI_Status>>) -> Result<()> {
    ordered(fh, Direction::Write, part, status)
}

/// MPI_File_read_at_all_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_read_at_all_begin(fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    begin(fh, SplitKind::ReadAtAll, Direction::Read, Some(Begin::At(offset)), part)
}

/// MPI_File_read_at_all_end (MPI-5.0 §14.4.5).
pub(crate) fn file_read_at_all_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::ReadAtAll, buf, status)
}

/// MPI_File_write_at_all_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_write_at_all_begin(fh: MPI_File, offset: MPI_Offset, part: Part) -> Result<()> {
    begin(fh, SplitKind::WriteAtAll, Direction::Write, Some(Begin::At(offset)), part)
}

/// MPI_File_write_at_all_end (MPI-5.0 §14.4.5).
pub(crate) fn file_write_at_all_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::WriteAtAll, buf, status)
}

/// MPI_File_read_all_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_read_all_begin(fh: MPI_File, part: Part) -> Result<()> {
    begin(fh, SplitKind::ReadAll, Direction::Read, Some(Begin::Individual), part)
}

/// MPI_File_read_all_end (MPI-5.0 §14.4.5).
pub(crate) fn file_read_all_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::ReadAll, buf, status)
}

/// MPI_File_write_all_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_write_all_begin(fh: MPI_File, part: Part) -> Result<()> {
    begin(fh, SplitKind::WriteAll, Direction::Write, Some(Begin::Individual), part)
}

/// MPI_File_write_all_end (MPI-5.0 §14.4.5).
pub(crate) fn file_write_all_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::WriteAll, buf, status)
}

/// MPI_File_read_ordered_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_read_ordered_begin(fh: MPI_File, part: Part) -> Result<()> {
    begin(fh, SplitKind::ReadOrdered, Direction::Read, None, part)
}

/// MPI_File_read_ordered_end (MPI-5.0 §14.4.5).
pub(crate) fn file_read_ordered_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::ReadOrdered, buf, status)
}

/// MPI_File_write_ordered_begin (MPI-5.0 §14.4.5).
pub(crate) fn file_write_ordered_begin(fh: MPI_File, part: Part) -> Result<()> {
    begin(fh, SplitKind::WriteOrdered, Direction::Write, None, part)
}

/// MPI_File_write_ordered_end (MPI-5.0 §14.4.5).
pub(crate) fn file_write_ordered_end(fh: MPI_File, buf: Buffer, status: Option<InOut<MPI_Status>>) -> Result<()> {
    end(fh, SplitKind::WriteOrdered, buf, status)
}
