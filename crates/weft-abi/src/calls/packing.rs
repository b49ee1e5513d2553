//! Counts of received items (MPI-5.0 §3.2.5, §5.1.11, §13.3), packing (§5.2, §5.3), and addresses (§5.1.5).

use super::status;
use crate::arguments::*;
use crate::types::*;
use weft_mpi::constants::*;
use weft_mpi::datatypes::{self, Old};
use weft_mpi::error::{Error, ErrorClass, Result};
use weft_mpi::external;
use weft_mpi::memory::{self, UserData, check_bytes};
use weft_mpi::process::with;

fn old_type(datatype: MPI_Datatype) -> Result<Old> {
    with(|process| process.objects.old_type(datatype.0))
}

fn or_undefined(count: Option<u64>) -> i64 {
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(i64::from(MPI_UNDEFINED))
}

/// MPI_Get_count (MPI-5.0 §3.2.5).
pub(crate) fn get_count(status: MPI_Status, datatype: MPI_Datatype, count: Out<i64>) -> Result<()> {
    let bytes = status::bytes(&status);
    let items = with(|process| Ok(process.objects.datatype(datatype.0)?.description.layout.items_in(bytes)))?;
    count.set(or_undefined(items));
    Ok(())
}

/// MPI_Get_elements, MPI_Get_elements_x (MPI-5.0 §5.1.11, §16.4).
pub(crate) fn get_elements(status: MPI_Status, datatype: MPI_Datatype, count: Out<i64>) -> Result<()> {
    let bytes = status::bytes(&status);
    count.set(or_undefined(old_type(datatype)?.layout.elements_in(bytes)));
    Ok(())
}

/// MPI_Status_set_elements, MPI_Status_set_elements_x (MPI-5.0 §13.3, §16.4).
pub(crate) fn status_set_elements(status: InOut<MPI_Status>, datatype: MPI_Datatype, count: i64) -> Result<()> {
    let bytes = datatypes::bytes_of_elements(&old_type(datatype)?.layout, natural("count", count)?)?;
    status::change(status, |status| status::set_bytes(status, bytes));
    Ok(())
}

fn natural(name: &str, value: i64) -> Result<u64> {
    let wrong = || Error::new(MPI_ERR_COUNT, format!("{name} is {value}; it must not be negative"));
    u64::try_from(value).map_err(|_| wrong())
}

/// The packed bytes of `count` items, in memory's representation.
fn packed_size(old: &Old, count: u64) -> Result<u64> {
    memory::packed_size(count, &old.layout)
}

/// The range of the `needed` bytes from `position` on in a buffer of `size` bytes.
fn window(position: i64, size: i64, needed: u64, class: ErrorClass) -> Result<std::ops::Range<usize>> {
    let Some(left) = size.checked_sub(position).filter(|left| position >= 0 && *left >= 0) else {
        return Err(Error::new(
            MPI_ERR_ARG,
            format!("position is {position}, outside of the {size} bytes of the buffer"),
        ));
    };
    if needed > left as u64 {
        let message =
            format!("{needed} bytes are needed from position {position} on, but the buffer ends after {left}");
        return Err(Error::new(class, message));
    }
    let start = position as usize;
    Ok(start..start + needed as usize)
}

/// The bytes `range` of a buffer, for writing.
fn bytes_mut<'a>(buffer: Buffer, range: &std::ops::Range<usize>) -> Result<&'a mut [u8]> {
    check_bytes(buffer.addr(), range.len() as u64)?;
    if range.is_empty() {
        return Ok(&mut []);
    }
    // SAFETY: `Buffer::new` was promised the bytes that the size says, and the range is inside of them.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().add(range.start), range.len()) })
}

/// The bytes `range` of a buffer.
fn bytes<'a>(buffer: Buffer, range: &std::ops::Range<usize>) -> Result<&'a [u8]> {
    check_bytes(buffer.addr(), range.len() as u64)?;
    if range.is_empty() {
        return Ok(&[]);
    }
    // SAFETY: `Buffer::new` was promised the bytes that the size says, and the range is inside of them.
    Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().add(range.start), range.len()) })
}

/// The datatype for packing, after a check of the communicator that comes with it.
fn committed(datatype: MPI_Datatype, comm: Option<MPI_Comm>) -> Result<Old> {
    with(|process| {
        if let Some(comm) = comm {
            process.objects.communicator(comm.0)?;
        }
        process.objects.committed(datatype.0)?;
        process.objects.old_type(datatype.0)
    })
}

/// `count` items of a datatype in a buffer.
fn items(buffer: Buffer, count: u64, datatype: &Old) -> Result<UserData> {
    // SAFETY: `Buffer::new` was promised so many items.
    unsafe { UserData::new(buffer.as_ptr(), count, &datatype.layout) }
}

/// MPI_Pack (MPI-5.0 §5.2).
pub(crate) fn pack(input: Part, outbuf: Buffer, outsize: i64, position: InOut<i64>, comm: MPI_Comm) -> Result<()> {
    let old = committed(input.datatype, Some(comm))?;
    let count = natural("incount", input.count)?;
    let range = window(position.get(), outsize, packed_size(&old, count)?, MPI_ERR_ARG)?;
    let data = items(input.buffer, count, &old)?;
    data.read(0, bytes_mut(outbuf, &range)?);
    position.set(range.end as i64);
    Ok(())
}

/// MPI_Unpack (MPI-5.0 §5.2).
pub(crate) fn unpack(inbuf: Buffer, insize: i64, position: InOut<i64>, output: Part, comm: MPI_Comm) -> Result<()> {
    let old = committed(output.datatype, Some(comm))?;
    let count = natural("outcount", output.count)?;
    let range = window(position.get(), insize, packed_size(&old, count)?, MPI_ERR_TRUNCATE)?;
    let data = items(output.buffer, count, &old)?;
    data.write(0, bytes(inbuf, &range)?);
    position.set(range.end as i64);
    Ok(())
}

/// MPI_Pack_size (MPI-5.0 §5.2): exactly the bytes that MPI_Pack needs.
pub(crate) fn pack_size(incount: i64, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<i64>) -> Result<()> {
    size.set(packed_size(&committed(datatype, Some(comm))?, natural("incount", incount)?)? as i64);
    Ok(())
}

/// Checks the representation: only one may be asked for (MPI-5.0 §5.3).
fn check_representation(datarep: InString) -> Result<()> {
    if datarep.as_c_str() != c"external32" {
        let message = format!("datarep is {datarep}; the only one there is is external32");
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    Ok(())
}

/// MPI_Pack_external (MPI-5.0 §5.3).
pub(crate) fn pack_external(
    datarep: InString,
    input: Part,
    outbuf: Buffer,
    outsize: i64,
    position: InOut<i64>,
) -> Result<()> {
    check_representation(datarep)?;
    let old = committed(input.datatype, None)?;
    let count = natural("incount", input.count)?;
    let range = window(position.get(), outsize, external::packed_size(&old, count)?, MPI_ERR_ARG)?;
    let data = items(input.buffer, count, &old)?;
    let mut native = vec![0; data.len() as usize];
    data.read(0, &mut native);
    let portable = external::encode(&old, count, &native)?;
    bytes_mut(outbuf, &range)?.copy_from_slice(&portable);
    position.set(range.end as i64);
    Ok(())
}

/// MPI_Unpack_external (MPI-5.0 §5.3).
pub(crate) fn unpack_external(
    datarep: InString,
    inbuf: Buffer,
    insize: i64,
    position: InOut<i64>,
    output: Part,
) -> Result<()> {
    check_representation(datarep)?;
    let old = committed(output.datatype, None)?;
    let count = natural("outcount", output.count)?;
    let range = window(position.get(), insize, external::packed_size(&old, count)?, MPI_ERR_TRUNCATE)?;
    let native = external::decode(&old, count, bytes(inbuf, &range)?)?;
    let data = items(output.buffer, count, &old)?;
    data.write(0, &native);
    position.set(range.end as i64);
    Ok(())
}

/// MPI_Pack_external_size (MPI-5.0 §5.3).
pub(crate) fn pack_external_size(
    datarep: InString,
    incount: i64,
    datatype: MPI_Datatype,
    size: Out<i64>,
) -> Result<()> {
    check_representation(datarep)?;
    size.set(external::packed_size(&committed(datatype, None)?, natural("incount", incount)?)? as i64);
    Ok(())
}

/// MPI_Get_address (MPI-5.0 §5.1.5).
pub(crate) fn get_address(location: Buffer, address: Out<MPI_Aint>) -> Result<()> {
    address.set(location.addr() as MPI_Aint);
    Ok(())
}

/// MPI_Aint_add (MPI-5.0 §5.1.5).
pub(crate) fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// MPI_Aint_diff (MPI-5.0 §5.1.5).
pub(crate) fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}
