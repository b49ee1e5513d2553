//! The basic types of which every datatype is made (MPI-5.0 §3.2.2, §6.9.4, §19.1.9).

/// A predefined datatype as the library sees it: how its bytes are laid out and what arithmetic they allow.
///
/// Several MPI names share one element: `MPI_INT`, `MPI_INT32_T`, `MPI_INTEGER` and `MPI_INTEGER4` are all
/// [`Int32`](Element::Int32); `MPI_AINT`, `MPI_OFFSET` and `MPI_COUNT` are [`Int64`](Element::Int64).
/// `REAL*16` and the complex type made of it have no element: the library does not offer them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Element {
    /// 8-bit signed: `MPI_SIGNED_CHAR`, `MPI_INT8_T`, `MPI_INTEGER1`.
    Int8,
    /// 16-bit signed: `MPI_SHORT`, `MPI_INT16_T`, `MPI_INTEGER2`.
    Int16,
    /// 32-bit signed: `MPI_INT`, `MPI_INT32_T`, `MPI_INTEGER`, `MPI_INTEGER4`.
    Int32,
    /// 64-bit signed: `MPI_LONG`, `MPI_LONG_LONG`, `MPI_INT64_T`, `MPI_INTEGER8`, `MPI_AINT`, `MPI_COUNT`,
    /// `MPI_OFFSET`.
    Int64,
    /// 128-bit signed: `MPI_INTEGER16`.
    Int128,
    /// 8-bit unsigned: `MPI_UNSIGNED_CHAR`, `MPI_UINT8_T`.
    UInt8,
    /// 16-bit unsigned: `MPI_UNSIGNED_SHORT`, `MPI_UINT16_T`.
    UInt16,
    /// 32-bit unsigned: `MPI_UNSIGNED`, `MPI_UINT32_T`.
    UInt32,
    /// 64-bit unsigned: `MPI_UNSIGNED_LONG`, `MPI_UNSIGNED_LONG_LONG`, `MPI_UINT64_T`.
    UInt64,
    /// IEEE binary16: `MPI_REAL2`.
    Float16,
    /// IEEE binary32: `MPI_FLOAT`, `MPI_REAL`, `MPI_REAL4`.
    Float32,
    /// IEEE binary64: `MPI_DOUBLE`, `MPI_DOUBLE_PRECISION`, `MPI_REAL8`.
    Float64,
    /// `MPI_LONG_DOUBLE`: the x87 80-bit format in 16 bytes, of which the last 6 mean nothing.
    LongDouble,
    /// Two binary16: `MPI_COMPLEX4`.
    ComplexFloat16,
    /// Two binary32: `MPI_C_FLOAT_COMPLEX`, `MPI_CXX_FLOAT_COMPLEX`, `MPI_COMPLEX`, `MPI_COMPLEX8`.
    ComplexFloat32,
    /// Two binary64: `MPI_C_DOUBLE_COMPLEX`, `MPI_CXX_DOUBLE_COMPLEX`, `MPI_DOUBLE_COMPLEX`, `MPI_COMPLEX16`.
    ComplexFloat64,
    /// Two long doubles: `MPI_C_LONG_DOUBLE_COMPLEX`, `MPI_CXX_LONG_DOUBLE_COMPLEX`.
    ComplexLongDouble,
    /// A truth value of one byte, zero or not: `MPI_C_BOOL`, `MPI_CXX_BOOL`.
    Bool,
    /// `MPI_LOGICAL1`.
    Logical8,
    /// `MPI_LOGICAL2`.
    Logical16,
    /// `MPI_LOGICAL`, `MPI_LOGICAL4`.
    Logical32,
    /// `MPI_LOGICAL8`.
    Logical64,
    /// `MPI_LOGICAL16`.
    Logical128,
    /// `MPI_BYTE`: uninterpreted, bitwise operations only.
    Byte,
    /// `MPI_CHAR`, `MPI_CHARACTER`: printable. Reductions treat it as a signed integer, which the standard
    /// does not ask for.
    Char,
    /// `MPI_WCHAR`: 4 bytes, printable, not reducible.
    WChar,
    /// `MPI_PACKED`: bytes made by `MPI_Pack`, not reducible.
    Packed,
    /// `MPI_FLOAT_INT`: value and index for MINLOC and MAXLOC.
    FloatInt,
    /// `MPI_DOUBLE_INT`.
    DoubleInt,
    /// `MPI_LONG_INT`.
    LongInt,
    /// `MPI_2INT`, `MPI_2INTEGER`.
    TwoInt,
    /// `MPI_SHORT_INT`.
    ShortInt,
    /// `MPI_LONG_DOUBLE_INT`.
    LongDoubleInt,
    /// `MPI_2REAL`.
    TwoFloat32,
    /// `MPI_2DOUBLE_PRECISION`.
    TwoFloat64,
}

/// The index of a value–index pair: where it stands in memory and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Size of the value, which stands at offset 0, in bytes.
    pub value_size: usize,
    /// Offset of the index in bytes, as the C compiler places it in `struct { value; index; }`.
    pub index_offset: usize,
    /// Size of the index in bytes.
    pub index_size: usize,
}

impl Element {
    /// Every element, in the order of declaration.
    pub const ALL: [Element; 35] = [
        Element::Int8,
        Element::Int16,
        Element::Int32,
        Element::Int64,
        Element::Int128,
        Element::UInt8,
        Element::UInt16,
        Element::UInt32,
        Element::UInt64,
        Element::Float16,
        Element::Float32,
        Element::Float64,
        Element::LongDouble,
        Element::ComplexFloat16,
        Element::ComplexFloat32,
        Element::ComplexFloat64,
        Element::ComplexLongDouble,
        Element::Bool,
        Element::Logical8,
        Element::Logical16,
        Element::Logical32,
        Element::Logical64,
        Element::Logical128,
        Element::Byte,
        Element::Char,
        Element::WChar,
        Element::Packed,
        Element::FloatInt,
        Element::DoubleInt,
        Element::LongInt,
        Element::TwoInt,
        Element::ShortInt,
        Element::LongDoubleInt,
        Element::TwoFloat32,
        Element::TwoFloat64,
    ];

    /// Bytes of data, padding not counted: the result of `MPI_Type_size`, and the bytes that travel.
    #[inline]
    pub const fn size(self) -> usize {
        match self.pair() {
            Some(pair) => pair.value_size + pair.index_size,
            None => self.extent(),
        }
    }

    /// Bytes from one element to the next in an array, padding counted (x86-64 System V).
    #[inline]
    pub const fn extent(self) -> usize {
        use Element::*;
        match self {
            Int8 | UInt8 | Bool | Logical8 | Byte | Char | Packed => 1,
            Int16 | UInt16 | Float16 | Logical16 => 2,
            Int32 | UInt32 | Float32 | ComplexFloat16 | Logical32 | WChar => 4,
            Int64 | UInt64 | Float64 | ComplexFloat32 | Logical64 => 8,
            FloatInt | TwoInt | ShortInt | TwoFloat32 => 8,
            Int128 | LongDouble | ComplexFloat64 | Logical128 => 16,
            DoubleInt | LongInt | TwoFloat64 => 16,
            ComplexLongDouble | LongDoubleInt => 32,
        }
    }

    /// The C compiler's alignment of the element, in bytes (x86-64 System V); it rounds the extent of a
    /// structure (the ε of MPI-5.0 §5.1.6).
    pub const fn alignment(self) -> usize {
        use Element::*;
        match self {
            Int8 | UInt8 | Bool | Logical8 | Byte | Char | Packed => 1,
            Int16 | UInt16 | Float16 | ComplexFloat16 | Logical16 => 2,
            Int32 | UInt32 | Float32 | Logical32 | WChar | ComplexFloat32 => 4,
            FloatInt | TwoInt | ShortInt | TwoFloat32 => 4,
            Int64 | UInt64 | Float64 | ComplexFloat64 | Logical64 => 8,
            DoubleInt | LongInt | TwoFloat64 => 8,
            Int128 | LongDouble | ComplexLongDouble | LongDoubleInt | Logical128 => 16,
        }
    }

    /// The places of the two members of a value–index pair; None for everything else (MPI-5.0 §6.9.4).
    pub const fn pair(self) -> Option<Pair> {
        use Element::*;
        let (value_size, index_offset, index_size) = match self {
            FloatInt | TwoInt | TwoFloat32 => (4, 4, 4),
            DoubleInt | LongInt => (8, 8, 4),
            ShortInt => (2, 4, 4),
            LongDoubleInt => (16, 16, 4),
            TwoFloat64 => (8, 8, 8),
            _ => return None,
        };
        Some(Pair { value_size, index_offset, index_size })
    }

    /// Basic elements for which `MPI_Get_elements` counts the element (MPI-5.0 §5.1.11): 2 for a pair, which
    /// the standard describes as a structure of two, else 1.
    pub const fn basic_elements(self) -> u64 {
        if self.pair().is_some() { 2 } else { 1 }
    }

    /// Basic elements that end exactly `bytes` bytes into its packed form; None when one is cut in two.
    pub(crate) const fn basic_elements_in(self, bytes: u64) -> Option<u64> {
        match self.pair() {
            _ if bytes == 0 => Some(0),
            Some(pair) if bytes == pair.value_size as u64 => Some(1),
            _ if bytes == self.size() as u64 => Some(self.basic_elements()),
            _ => None,
        }
    }
}
