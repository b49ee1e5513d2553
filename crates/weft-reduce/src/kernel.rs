//! All loops, compiled for each width of registers.

/// Compiles all loops for the registers of `$feature`. Loops that the compiler optimises best alone get their
/// own function.
macro_rules! compile {
    ($(#[$feature:meta])* $name:ident) => {
        pub(crate) mod $name {
            use crate::{Kind, Op, half, number, pair};

            /// The caller has checked lengths and legality, and that the processor has the features.
            $(#[$feature])*
            pub(crate) fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
                match kind {
                    _ if matches!(op, Op::Replace) => inout.copy_from_slice(input),
                    _ if matches!(op, Op::NoOp) => {}
                    Kind::Float16 | Kind::ComplexFloat16 => halves(op, kind, input, inout),
                    Kind::Pair(_) | Kind::PackedPair(_) => pairs(op, kind, input, inout),
                    _ => numbers(op, kind, input, inout),
                }
            }

            $(#[$feature])*
            #[inline(never)]
            fn numbers(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
                number::apply(op, kind, input, inout);
            }

            $(#[$feature])*
            #[inline(never)]
            fn halves(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
                half::apply(op, kind, input, inout);
            }

            $(#[$feature])*
            #[inline(never)]
            fn pairs(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
                pair::apply(op, kind, input, inout);
            }
        }
    };
}

compile!(of_all);
#[cfg(all(target_arch = "x86_64", not(miri)))]
compile!(
    #[target_feature(enable = "avx2")]
    of_avx2
);
#[cfg(all(target_arch = "x86_64", not(miri)))]
compile!(
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    of_avx512
);
