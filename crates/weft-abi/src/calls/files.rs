//! Files (MPI-5.0 §14). Accesses to their data are in `files/accesses.rs`.

pub(crate) mod accesses;
pub(crate) mod conversions;

use crate::arguments::*;
use crate::calls::communicators::info_of;
use crate::calls::{groups, info, one_sided};
use crate::types::*;
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use weft_mpi::error::{Error, Result};
use weft_mpi::files::{self, Wanted, WantedView};
use weft_mpi::process::with;

/// The path that a string of the program means: any bytes.
fn path<'call>(name: &InString<'call>) -> &'call Path {
    Path::new(OsStr::from_bytes(name.as_c_str().to_bytes()))
}

/// An error of the library's own communicator is one of the file.
pub(super) fn of_file<T>(outcome: Result<T>) -> Result<T> {
    outcome.map_err(Error::of_the_call)
}

/// MPI_File_open (MPI-5.0 §14.2.1).
pub(crate) fn file_open(
    comm: MPI_Comm,
    filename: InString,
    amode: c_int,
    info: MPI_Info,
    fh: Out<MPI_File>,
) -> Result<()> {
    let wanted = Wanted::new(path(&filename), amode, with(|process| info_of(process, info)));
    let opening = files::begin_open(comm.0, wanted)?;
    // The shared file pointer, at rank 0.
    let (window, notes) = of_file(one_sided::create_counter(comm, opening.notes()))?;
    fh.set(MPI_File(of_file(files::open(window, opening, notes))?));
    Ok(())
}

/// MPI_File_close (MPI-5.0 §14.2.2).
pub(crate) fn file_close(fh: InOut<MPI_File>) -> Result<()> {
    of_file(files::close(fh.get().0))?;
    fh.set(MPI_File::NULL);
    Ok(())
}

/// MPI_File_delete (MPI-5.0 §14.2.3).
pub(crate) fn file_delete(filename: InString, info: MPI_Info) -> Result<()> {
    with(|process| info_of(process, info).map(drop))?;
    files::delete(path(&filename))
}

/// MPI_File_set_size (MPI-5.0 §14.2.4).
pub(crate) fn file_set_size(fh: MPI_File, size: MPI_Offset) -> Result<()> {
    of_file(files::set_size(fh.0, size))
}

/// MPI_File_preallocate (MPI-5.0 §14.2.5).
pub(crate) fn file_preallocate(fh: MPI_File, size: MPI_Offset) -> Result<()> {
    of_file(files::preallocate(fh.0, size))
}

/// MPI_File_get_size (MPI-5.0 §14.2.6).
pub(crate) fn file_get_size(fh: MPI_File, size: Out<MPI_Offset>) -> Result<()> {
    size.set(files::size(fh.0)?);
    Ok(())
}

/// MPI_File_get_group (MPI-5.0 §14.2.7).
pub(crate) fn file_get_group(fh: MPI_File, group: Out<MPI_Group>) -> Result<()> {
    groups::comm_group(MPI_Comm(with(|process| Ok::<_, Error>(process.objects.file(fh.0)?.communicator))?), group)
}

/// MPI_File_get_amode (MPI-5.0 §14.2.7).
pub(crate) fn file_get_amode(fh: MPI_File, amode: Out<c_int>) -> Result<()> {
    amode.set(with(|process| Ok::<_, Error>(process.objects.file(fh.0)?.mode.bits()))?);
    Ok(())
}

/// MPI_File_set_info (MPI-5.0 §14.2.8).
pub(crate) fn file_set_info(fh: MPI_File, info: MPI_Info) -> Result<()> {
    of_file(files::set_info(fh.0, with(|process| info_of(process, info))))
}

/// MPI_File_get_info (MPI-5.0 §14.2.8).
pub(crate) fn file_get_info(fh: MPI_File, info_used: Out<MPI_Info>) -> Result<()> {
    info::give(with(|process| Ok::<_, Error>(process.objects.file(fh.0)?.hints.told()))?, info_used)
}

/// MPI_File_set_view (MPI-5.0 §14.3).
pub(crate) fn file_set_view(
    fh: MPI_File,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: InString,
    info: MPI_Info,
) -> Result<()> {
    let wanted = with(|process| {
        let datatype = |handle: MPI_Datatype| {
            process.objects.committed(handle.0)?;
            process.objects.old_type(handle.0)
        };
        WantedView {
            displacement: disp,
            etype: datatype(etype),
            filetype: datatype(filetype),
            representation: datarep.to_string(),
            info: info_of(process, info),
        }
    });
    of_file(files::set_view(fh.0, wanted))
}

/// MPI_File_get_view (MPI-5.0 §14.3): the program frees the datatypes that it gets, unless they are
/// predefined.
pub(crate) fn file_get_view(
    fh: MPI_File,
    disp: Out<MPI_Offset>,
    etype: Out<MPI_Datatype>,
    filetype: Out<MPI_Datatype>,
    datarep: OutString,
) -> Result<()> {
    let (view, of_etype, of_filetype) = with(|process| {
        let view = process.objects.file(fh.0)?.view.clone();
        let of_etype = process.objects.constituent_handle(&view.etype.constituent)?;
        let of_filetype = process.objects.constituent_handle(&view.filetype.constituent)?;
        Ok::<_, Error>((view, of_etype, of_filetype))
    })?;
    disp.set(view.displacement);
    etype.set(MPI_Datatype(of_etype));
    filetype.set(MPI_Datatype(of_filetype));
    datarep.set(view.representation.name());
    Ok(())
}

/// MPI_File_seek (MPI-5.0 §14.4.3).
pub(crate) fn file_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    files::seek(fh.0, offset, whence)
}

/// MPI_File_get_position (MPI-5.0 §14.4.3).
pub(crate) fn file_get_position(fh: MPI_File, offset: Out<MPI_Offset>) -> Result<()> {
    offset.set(files::position(fh.0)?);
    Ok(())
}

/// MPI_File_get_byte_offset (MPI-5.0 §14.4.3).
pub(crate) fn file_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: Out<MPI_Offset>) -> Result<()> {
    disp.set(files::byte_offset(fh.0, offset)?);
    Ok(())
}

/// MPI_File_seek_shared (MPI-5.0 §14.4.4).
pub(crate) fn file_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    of_file(files::seek_shared(fh.0, offset, whence))
}

/// MPI_File_get_position_shared (MPI-5.0 §14.4.4).
pub(crate) fn file_get_position_shared(fh: MPI_File, offset: Out<MPI_Offset>) -> Result<()> {
    offset.set(of_file(files::shared_position(fh.0))?);
    Ok(())
}

/// MPI_File_get_type_extent (MPI-5.0 §14.5.1).
pub(crate) fn file_get_type_extent(fh: MPI_File, datatype: MPI_Datatype, extent: Out<i64>) -> Result<()> {
    let (view, of) = with(|process| {
        let view = process.objects.file(fh.0)?.view.clone();
        Ok::<_, Error>((view, process.objects.old_type(datatype.0)?))
    })?;
    extent.set(files::file_extent(&view.representation, &of)?);
    Ok(())
}

/// MPI_File_set_atomicity (MPI-5.0 §14.6.1).
pub(crate) fn file_set_atomicity(fh: MPI_File, flag: c_int) -> Result<()> {
    of_file(files::set_atomicity(fh.0, flag != 0))
}

/// MPI_File_get_atomicity (MPI-5.0 §14.6.1).
pub(crate) fn file_get_atomicity(fh: MPI_File, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(with(|process| Ok::<_, Error>(process.objects.file(fh.0)?.is_atomic))?));
    Ok(())
}

/// MPI_File_sync (MPI-5.0 §14.6.1).
pub(crate) fn file_sync(fh: MPI_File) -> Result<()> {
    of_file(files::sync(fh.0))
}
