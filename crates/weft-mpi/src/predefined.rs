//! The standard's datatypes and operations by their handles (MPI-5.0 §20.3, annex A.1.1). `object.rs` finds
//! them here, and so does the boundary where it needs no lock.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weft_core::layout::{Element, Layout};
use weft_core::reduce::Op;

use crate::constants::*;
use crate::object::{Datatype, Description, Info, Recipe};

/// The first handle of predefined datatypes.
pub const TYPE_FIRST: usize = 0x200;
/// The handle after the last one of predefined datatypes (MPI-5.0 annex A.1.1).
pub const TYPE_END: usize = 0x300;

/// Element and name of every predefined datatype that Weft supports. `REAL*2`, `REAL*16` and the complex
/// types made of them are optional in the standard. They have no element here, and their size is
/// `MPI_UNDEFINED`.
const TYPES: &[(usize, Element, &str)] = &[
    (MPI_AINT, Element::Int64, "MPI_AINT"),
    (MPI_COUNT, Element::Int64, "MPI_COUNT"),
    (MPI_OFFSET, Element::Int64, "MPI_OFFSET"),
    (MPI_PACKED, Element::Packed, "MPI_PACKED"),
    (MPI_SHORT, Element::Int16, "MPI_SHORT"),
    (MPI_INT, Element::Int32, "MPI_INT"),
    (MPI_LONG, Element::Int64, "MPI_LONG"),
    (MPI_LONG_LONG_INT, Element::Int64, "MPI_LONG_LONG_INT"),
    (MPI_UNSIGNED_SHORT, Element::UInt16, "MPI_UNSIGNED_SHORT"),
    (MPI_UNSIGNED, Element::UInt32, "MPI_UNSIGNED"),
    (MPI_UNSIGNED_LONG, Element::UInt64, "MPI_UNSIGNED_LONG"),
    (MPI_UNSIGNED_LONG_LONG, Element::UInt64, "MPI_UNSIGNED_LONG_LONG"),
    (MPI_FLOAT, Element::Float32, "MPI_FLOAT"),
    (MPI_C_COMPLEX, Element::ComplexFloat32, "MPI_C_COMPLEX"),
    (MPI_CXX_FLOAT_COMPLEX, Element::ComplexFloat32, "MPI_CXX_FLOAT_COMPLEX"),
    (MPI_DOUBLE, Element::Float64, "MPI_DOUBLE"),
    (MPI_C_DOUBLE_COMPLEX, Element::ComplexFloat64, "MPI_C_DOUBLE_COMPLEX"),
    (MPI_CXX_DOUBLE_COMPLEX, Element::ComplexFloat64, "MPI_CXX_DOUBLE_COMPLEX"),
    (MPI_LOGICAL, Element::Logical32, "MPI_LOGICAL"),
    (MPI_INTEGER, Element::Int32, "MPI_INTEGER"),
    (MPI_REAL, Element::Float32, "MPI_REAL"),
    (MPI_COMPLEX, Element::ComplexFloat32, "MPI_COMPLEX"),
    (MPI_DOUBLE_PRECISION, Element::Float64, "MPI_DOUBLE_PRECISION"),
    (MPI_DOUBLE_COMPLEX, Element::ComplexFloat64, "MPI_DOUBLE_COMPLEX"),
    (MPI_CHARACTER, Element::Char, "MPI_CHARACTER"),
    (MPI_LONG_DOUBLE, Element::LongDouble, "MPI_LONG_DOUBLE"),
    (MPI_C_LONG_DOUBLE_COMPLEX, Element::ComplexLongDouble, "MPI_C_LONG_DOUBLE_COMPLEX"),
    (MPI_CXX_LONG_DOUBLE_COMPLEX, Element::ComplexLongDouble, "MPI_CXX_LONG_DOUBLE_COMPLEX"),
    (MPI_FLOAT_INT, Element::FloatInt, "MPI_FLOAT_INT"),
    (MPI_DOUBLE_INT, Element::DoubleInt, "MPI_DOUBLE_INT"),
    (MPI_LONG_INT, Element::LongInt, "MPI_LONG_INT"),
    (MPI_2INT, Element::TwoInt, "MPI_2INT"),
    (MPI_SHORT_INT, Element::ShortInt, "MPI_SHORT_INT"),
    (MPI_LONG_DOUBLE_INT, Element::LongDoubleInt, "MPI_LONG_DOUBLE_INT"),
    (MPI_2REAL, Element::TwoFloat32, "MPI_2REAL"),
    (MPI_2DOUBLE_PRECISION, Element::TwoFloat64, "MPI_2DOUBLE_PRECISION"),
    (MPI_2INTEGER, Element::TwoInt, "MPI_2INTEGER"),
    (MPI_C_BOOL, Element::Bool, "MPI_C_BOOL"),
    (MPI_CXX_BOOL, Element::Bool, "MPI_CXX_BOOL"),
    (MPI_WCHAR, Element::WChar, "MPI_WCHAR"),
    (MPI_INT8_T, Element::Int8, "MPI_INT8_T"),
    (MPI_UINT8_T, Element::UInt8, "MPI_UINT8_T"),
    (MPI_CHAR, Element::Char, "MPI_CHAR"),
    (MPI_SIGNED_CHAR, Element::Int8, "MPI_SIGNED_CHAR"),
    (MPI_UNSIGNED_CHAR, Element::UInt8, "MPI_UNSIGNED_CHAR"),
    (MPI_BYTE, Element::Byte, "MPI_BYTE"),
    (MPI_INT16_T, Element::Int16, "MPI_INT16_T"),
    (MPI_UINT16_T, Element::UInt16, "MPI_UINT16_T"),
    (MPI_INT32_T, Element::Int32, "MPI_INT32_T"),
    (MPI_UINT32_T, Element::UInt32, "MPI_UINT32_T"),
    (MPI_INT64_T, Element::Int64, "MPI_INT64_T"),
    (MPI_UINT64_T, Element::UInt64, "MPI_UINT64_T"),
    (MPI_LOGICAL1, Element::Logical8, "MPI_LOGICAL1"),
    (MPI_LOGICAL2, Element::Logical16, "MPI_LOGICAL2"),
    (MPI_LOGICAL4, Element::Logical32, "MPI_LOGICAL4"),
    (MPI_LOGICAL8, Element::Logical64, "MPI_LOGICAL8"),
    (MPI_LOGICAL16, Element::Logical128, "MPI_LOGICAL16"),
    (MPI_INTEGER1, Element::Int8, "MPI_INTEGER1"),
    (MPI_INTEGER2, Element::Int16, "MPI_INTEGER2"),
    (MPI_INTEGER4, Element::Int32, "MPI_INTEGER4"),
    (MPI_INTEGER8, Element::Int64, "MPI_INTEGER8"),
    (MPI_INTEGER16, Element::Int128, "MPI_INTEGER16"),
    (MPI_REAL2, Element::Float16, "MPI_REAL2"),
    (MPI_REAL4, Element::Float32, "MPI_REAL4"),
    (MPI_REAL8, Element::Float64, "MPI_REAL8"),
    (MPI_COMPLEX4, Element::ComplexFloat16, "MPI_COMPLEX4"),
    (MPI_COMPLEX8, Element::ComplexFloat32, "MPI_COMPLEX8"),
    (MPI_COMPLEX16, Element::ComplexFloat64, "MPI_COMPLEX16"),
];

/// Predefined datatypes that the standard makes optional and Weft does not support.
pub const UNSUPPORTED_TYPES: &[(usize, &str)] = &[(MPI_REAL16, "MPI_REAL16"), (MPI_COMPLEX32, "MPI_COMPLEX32")];

/// The predefined datatype with this handle.
pub fn datatype(handle: usize) -> Option<Datatype> {
    let (_, element, name) = TYPES.iter().find(|(known, ..)| *known == handle)?;
    let recipe = Recipe { combiner: MPI_COMBINER_NAMED, ..Recipe::default() };
    let description = Description {
        layout: Layout::element(*element),
        element: Some(*element),
        recipe,
        handle: AtomicUsize::new(handle),
    };
    Some(Datatype {
        description: Arc::new(description),
        committed: true,
        name: (*name).to_owned(),
        attributes: Vec::new(),
    })
}

/// The element of the predefined datatype with this handle.
#[inline]
pub fn element(handle: usize) -> Option<Element> {
    ELEMENTS.get(handle.wrapping_sub(TYPE_FIRST)).copied().flatten()
}

/// The elements of [`TYPES`] by their handles.
const ELEMENTS: [Option<Element>; TYPE_END - TYPE_FIRST] = {
    let mut elements = [None; TYPE_END - TYPE_FIRST];
    let mut at = 0;
    while at < TYPES.len() {
        elements[TYPES[at].0 - TYPE_FIRST] = Some(TYPES[at].1);
        at += 1;
    }
    elements
};

/// The handle of the predefined datatype that stands for `element` in the program's reduction functions.
pub fn handle_of(element: Element) -> usize {
    TYPES.iter().find(|(_, known, _)| *known == element).map_or(MPI_DATATYPE_NULL, |(handle, ..)| *handle)
}

/// The predefined operation with this handle.
#[inline]
pub fn operation(handle: usize) -> Option<Op> {
    Some(match handle {
        MPI_SUM => Op::Sum,
        MPI_MIN => Op::Min,
        MPI_MAX => Op::Max,
        MPI_PROD => Op::Prod,
        MPI_BAND => Op::BAnd,
        MPI_BOR => Op::BOr,
        MPI_BXOR => Op::BXor,
        MPI_LAND => Op::LAnd,
        MPI_LOR => Op::LOr,
        MPI_LXOR => Op::LXor,
        MPI_MINLOC => Op::MinLoc,
        MPI_MAXLOC => Op::MaxLoc,
        MPI_REPLACE => Op::Replace,
        MPI_NO_OP => Op::NoOp,
        _ => return None,
    })
}

/// The facts about the start of this process that `MPI_INFO_ENV` and `MPI_Info_create_env` report, as far as
/// they are known (MPI-5.0 §11.2.1).
///
/// `arguments` are those of `main`, or empty: then the operating system is asked.
pub fn environment(arguments: &[String]) -> Info {
    let mut arguments: Vec<String> = arguments.to_vec();
    if arguments.is_empty() {
        arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    }
    let mut info = Info::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| value.len() < MPI_MAX_INFO_VAL as usize) {
            info.push((key.to_owned(), value));
        }
    };
    let mut arguments = arguments.into_iter();
    add("command", arguments.next());
    let rest: Vec<String> = arguments.collect();
    add("argv", (!rest.is_empty()).then(|| rest.join(" ")));
    // The number of processes that the launcher gives; without a launcher, one.
    let processes = std::env::var("PMI_SIZE").unwrap_or_else(|_| "1".to_owned());
    add("maxprocs", Some(processes.clone()));
    add("soft", Some(processes));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    add("host", host.map(|host| host.trim().to_owned()));
    add("arch", Some(std::env::consts::ARCH.to_owned()));
    add("wdir", std::env::current_dir().ok().map(|directory| directory.to_string_lossy().into_owned()));
    info
}
