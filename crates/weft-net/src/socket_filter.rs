//! Classic BPF programs. The kernel runs a program on each datagram or frame that arrives at a socket, before
//! it keeps any of it. An empty answer drops the datagram.

/// `struct sock_filter` of linux/filter.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) value: u32,
}

// linux/bpf_common.h
/// Operation: take a number.
pub(crate) const TAKE: u16 = 0x00;
/// Operation: load a word, a halfword or a byte of the datagram, most significant byte first. Where there is
/// none, the program ends and drops the datagram.
pub(crate) const LOAD_WORD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
/// Operation: load the datagram's length.
pub(crate) const LOAD_LENGTH: u16 = 0x80;
/// Operation: skip so many of the next instructions, depending on whether the loaded value is this.
pub(crate) const JUMP_IF_EQUAL: u16 = 0x15;
/// Operation: end, with this many bytes accepted.
pub(crate) const RETURN: u16 = 0x06;

/// An instruction that does not jump.
pub(crate) const fn step(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

/// Goes on if the loaded value is `value`; otherwise skips the next `rest` instructions.
pub(crate) const fn only(value: u32, rest: u8) -> Instruction {
    Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: rest, value }
}

/// Words of the secret that [`whoever_knows`] compares.
pub(crate) const SECRET_WORDS: usize = 4;
/// Makes a program that accepts a datagram of these words and no other.
pub(crate) fn whoever_knows(secret: [u32; SECRET_WORDS]) -> Vec<Instruction> {
    // Behind the comparison of the length: two instructions for each word, and two that end.
    let mut rest = 2 * SECRET_WORDS as u8 + 1;
    let mut program = vec![step(LOAD_LENGTH, 0), only(size_of_val(&secret) as u32, rest)];
    for (word, at) in secret.into_iter().zip((0..).step_by(size_of::<u32>())) {
        rest -= 2;
        program.extend([step(LOAD_WORD, at), only(word, rest)]);
    }
    program.extend([step(RETURN, u32::MAX), step(RETURN, 0)]);
    program
}
