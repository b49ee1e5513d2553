//! Values as bytes: numbers little-endian, texts and lists with a length in front.

use crate::JobSecret;

/// The most elements of a list for which memory is reserved before its bytes have been seen.
const LIST_CAPACITY_MAX: usize = 4096;

/// A value that can be written into a message.
pub(crate) trait Encode {
    fn encode(&self, out: &mut Vec<u8>);
}

/// A value that can be read from a message; `None` when the bytes do not hold it.
pub(crate) trait Decode: Sized {
    fn decode(reader: &mut Reader<'_>) -> Option<Self>;
}

/// The bytes of a message that were not read yet.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Encode for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl Decode for $number {
            fn decode(reader: &mut Reader<'_>) -> Option<Self> {
                Some(Self::from_le_bytes(reader.take(size_of::<Self>())?.try_into().ok()?))
            }
        }
    )*};
}

numbers!(u8, u32, i32, u64);

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        u8::from(*self).encode(out);
    }
}

impl Decode for bool {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        match u8::decode(reader)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Decode for String {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Self::from_utf8(Vec::decode(reader)?).ok()
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_length(self.len(), out);
        for element in self {
            element.encode(out);
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let length = u32::decode(reader)? as usize;
        let mut elements = Self::with_capacity(length.min(LIST_CAPACITY_MAX));
        for _ in 0..length {
            elements.push(T::decode(reader)?);
        }
        Some(elements)
    }
}

impl Encode for JobSecret {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.expose());
    }
}

impl Decode for JobSecret {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self::new(reader.take(Self::LENGTH)?.try_into().ok()?))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::decode(reader)? { Some(T::decode(reader)?) } else { None })
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_ok().encode(out);
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }
}

impl<T: Decode, E: Decode> Decode for Result<T, E> {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::decode(reader)? { Ok(T::decode(reader)?) } else { Err(E::decode(reader)?) })
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        T::decode(reader).map(Self::new)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: Encode),+> Encode for ($($name,)+) {
            #[allow(non_snake_case)]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.encode(out);)+
            }
        }

        impl<$($name: Decode),+> Decode for ($($name,)+) {
            fn decode(reader: &mut Reader<'_>) -> Option<Self> {
                Some(($($name::decode(reader)?,)+))
            }
        }
    )*};
}

tuples! { (A, B) (A, B, C) (A, B, C, D) }

/// Writes a length in 32 bits. Longer ones never occur: frames are far shorter ([`super::FRAME_MAX`]).
fn encode_length(length: usize, out: &mut Vec<u8>) {
    u32::try_from(length).expect("a list shorter than a frame").encode(out);
}

/// Writes and reads a structure field by field, in the order given.
macro_rules! structure {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::control::codec::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::control::codec::Encode::encode(&self.$field, out);)+
            }
        }

        impl $crate::control::codec::Decode for $name {
            fn decode(reader: &mut $crate::control::codec::Reader<'_>) -> Option<Self> {
                Some(Self { $($field: $crate::control::codec::Decode::decode(reader)?),+ })
            }
        }
    };
}

/// Writes and reads an enumeration without fields as one byte, in the order given.
macro_rules! enumeration {
    ($name:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::control::codec::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let all = [$(Self::$variant),+];
                let code = all.iter().position(|other| other == self).expect("all are listed");
                out.push(u8::try_from(code).expect("few variants"));
            }
        }

        impl $crate::control::codec::Decode for $name {
            fn decode(reader: &mut $crate::control::codec::Reader<'_>) -> Option<Self> {
                let code: u8 = $crate::control::codec::Decode::decode(reader)?;
                [$(Self::$variant),+].get(usize::from(code)).copied()
            }
        }
    };
}

pub(crate) use {enumeration, structure};
