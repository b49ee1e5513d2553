//! Absent parts of a node: where a type has to be named for a part, it is
//! [`Infallible`](core::convert::Infallible), of which no value exists.
//!
//! [`part!`](part) writes a part and its absence from one text, so neither can be without a method that the
//! other has.

/// Defines a trait, and implements it for `Infallible`. Associated types stand in front, in `type { … }`.
macro_rules! part {
    (
        $(#[$about:meta])*
        pub trait $part:ident {
            $(type { $($(#[$kind_about:meta])* $kind:ident $(: $bound:path)?),+ $(,)? })?
            $($(#[$method_about:meta])* fn $method:ident $(<$result:ident>)? ($($parameters:tt)*) $(-> $returns:ty)?;)+
        }
    ) => {
        $(#[$about])*
        pub trait $part {
            $($($(#[$kind_about])* type $kind $(: $bound)?;)+)?
            $($(#[$method_about])* fn $method $(<$result>)? ($($parameters)*) $(-> $returns)?;)+
        }

        impl $part for core::convert::Infallible {
            $($(type $kind = Self;)+)?
            $(part!(@absent fn $method $(<$result>)? ($($parameters)*) $(-> $returns)?);)+
        }
    };
    (@absent fn $method:ident $(<$result:ident>)? (&$this:ident $(, $name:ident: $kind:ty)*) $(-> $returns:ty)?) => {
        fn $method $(<$result>)? (&$this $(, _: $kind)*) $(-> $returns)? {
            match *$this {}
        }
    };
    (@absent fn $method:ident $(<$result:ident>)? (&mut $this:ident $(, $name:ident: $kind:ty)*) $(-> $returns:ty)?) => {
        fn $method $(<$result>)? (&mut $this $(, _: $kind)*) $(-> $returns)? {
            match *$this {}
        }
    };
}

pub(super) use part;
