//! C's `long double` by the instructions that C compilers use for it, with 64 bits of precision, or the
//! precision of the program's control word.

use core::arch::asm;
use core::cmp::Ordering;

/// A number of the x87 format in 16 bytes, of which the last 6 mean nothing.
#[derive(Clone, Copy)]
pub(crate) struct Extended([u8; 16]);

impl Extended {
    #[inline(always)]
    pub(crate) fn from_ne_bytes(bytes: [u8; 16]) -> Extended {
        Extended(bytes)
    }
}

/// Computes `inout = input op inout`, each result at the place of the right operand; the bytes behind the
/// number stay.
macro_rules! in_place {
    ($(#[$what:meta])* $name:ident, $instruction:literal) => {
        $(#[$what])*
        #[inline(always)]
        pub(crate) fn $name(input: &[u8], inout: &mut [u8]) {
            let (input, _) = input.as_chunks::<16>();
            let (inout, _) = inout.as_chunks_mut::<16>();
            for (input, inout) in input.iter().zip(inout) {
                // SAFETY: both are 16 bytes, which may lie anywhere; 10 are read, and 10 written to the
                // second. The register stack, which is empty between functions (System V ABI for x86-64,
                // §3.2.3), is left empty.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{a}]",
                        "fld tbyte ptr [{b}]",
                        $instruction,
                        "fstp tbyte ptr [{b}]",
                        a = in(reg) input,
                        b = in(reg) inout,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
            }
        }
    };
}

in_place!(sum, "faddp");
in_place!(product, "fmulp");

/// `inout = input * inout` on numbers of two parts, each product rounded by itself.
#[inline(always)]
pub(crate) fn complex_product(input: &[u8], inout: &mut [u8]) {
    let (input, _) = input.as_chunks::<32>();
    let (inout, _) = inout.as_chunks_mut::<32>();
    for (input, inout) in input.iter().zip(inout) {
        // SAFETY: both are 32 bytes, which may lie anywhere; of each half of both 10 are read, and of the
        // second 10 written, after everything has been read. The register stack is empty before and after.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                "fmulp",
                "fld tbyte ptr [{a} + 16]",
                "fld tbyte ptr [{b} + 16]",
                "fmulp",
                "fsubp st(1), st",
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b} + 16]",
                "fmulp",
                "fld tbyte ptr [{a} + 16]",
                "fld tbyte ptr [{b}]",
                "fmulp",
                "faddp",
                "fstp tbyte ptr [{b} + 16]",
                "fstp tbyte ptr [{b}]",
                a = in(reg) input,
                b = in(reg) inout,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
    }
}

/// The larger of each two numbers; the one of `inout` where neither is larger.
#[inline(always)]
pub(crate) fn maximum(input: &[u8], inout: &mut [u8]) {
    choose(input, inout, is_greater);
}

/// The smaller of each two numbers; the one of `inout` where neither is smaller.
#[inline(always)]
pub(crate) fn minimum(input: &[u8], inout: &mut [u8]) {
    choose(
        input,
        inout,
        #[inline(always)]
        |a, b| is_greater(b, a),
    );
}

#[inline(always)]
fn choose(input: &[u8], inout: &mut [u8], is_better: impl Fn(&[u8; 16], &[u8; 16]) -> bool) {
    let (input, _) = input.as_chunks::<16>();
    let (inout, _) = inout.as_chunks_mut::<16>();
    for (input, inout) in input.iter().zip(inout) {
        *inout = if is_better(input, inout) { *input } else { *inout };
    }
}

/// Returns whether a > b; false where one is not a number.
#[inline(always)]
fn is_greater(a: &[u8; 16], b: &[u8; 16]) -> bool {
    let above: u8;
    // SAFETY: 10 bytes of each are read. The register stack is empty before and after.
    unsafe {
        asm!(
            "fld tbyte ptr [{b}]",
            "fld tbyte ptr [{a}]",
            "fucomip st, st(1)",
            "seta {above}",
            "fstp st(0)",
            a = in(reg) a,
            b = in(reg) b,
            above = out(reg_byte) above,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack, readonly),
        );
    }
    above != 0
}

/// Returns whether a = b; false where one is not a number.
#[inline(always)]
fn is_equal(a: &[u8; 16], b: &[u8; 16]) -> bool {
    let (equal, ordered): (u8, u8);
    // SAFETY: as for `is_greater`.
    unsafe {
        asm!(
            "fld tbyte ptr [{b}]",
            "fld tbyte ptr [{a}]",
            "fucomip st, st(1)",
            "sete {equal}",
            "setnp {ordered}",
            "fstp st(0)",
            a = in(reg) a,
            b = in(reg) b,
            equal = out(reg_byte) equal,
            ordered = out(reg_byte) ordered,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack, readonly),
        );
    }
    equal & ordered != 0
}

impl PartialEq for Extended {
    #[inline(always)]
    fn eq(&self, other: &Extended) -> bool {
        is_equal(&self.0, &other.0)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
        match (self > other, self < other, self == other) {
            (true, ..) => Some(Ordering::Greater),
            (_, true, _) => Some(Ordering::Less),
            (.., true) => Some(Ordering::Equal),
            _ => None,
        }
    }

    #[inline(always)]
    fn gt(&self, other: &Extended) -> bool {
        is_greater(&self.0, &other.0)
    }

    #[inline(always)]
    fn lt(&self, other: &Extended) -> bool {
        is_greater(&other.0, &self.0)
    }
}
