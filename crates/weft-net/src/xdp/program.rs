//! The program that the kernel runs on every frame which an interface receives.
//!
//! Weft's frames go to the AF_XDP socket of their port; all other frames go on as if there were no program.
//! The program is written here instruction by instruction (RFC 9669), so that neither a compiler nor a loader
//! is needed.

use crate::ethernet::frame::{ETHER_TYPE, ETHER_TYPE_AT, HEADER, LENGTH_AT, MAGIC, MAGIC_AT, PORT_AT};

/// `struct bpf_insn` of linux/bpf.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Instruction {
    operation: u8,
    /// The destination in the lower four bits, the source in the upper four.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Operations, RFC 9669 §4 and §5. "Value": the second operand is in the instruction; else it is the source
/// register.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
/// Operation that takes two instructions and loads a value of 64 bits, here a map by its descriptor.
const LOAD_LONG_VALUE: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_VALUE: u8 = 0x07;
const AND_VALUE: u8 = 0x57;
/// Operation that converts the lower 16 bits from network order.
const FROM_NETWORK: u8 = 0xdc;
const JUMP_IF_ABOVE: u8 = 0x2d;
const JUMP_IF_AT_MOST: u8 = 0xbd;
const JUMP_UNLESS_EQUAL_VALUE: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Value in the source register's place that means "the value is the descriptor of a map" (linux/bpf.h).
const PSEUDO_MAP: u8 = 1;
/// `bpf_redirect_map(map, key, what to do with a frame whose key has no socket)`.
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Fields of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// The properties that tell Weft's frames from others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Descriptor of the map from ports to sockets.
    pub(super) map: i32,
    /// The interface's address: a promiscuous interface hears frames for others too.
    pub(super) mac: [u8; 6],
    /// The receive queue of the sockets: they get frames of this queue only.
    pub(super) queue: u32,
    /// Longest frame that the sockets take, in bytes.
    pub(super) frame_max: u16,
}

/// Makes the program. A frame that is cut, too long for a socket, or in several pieces passes, and reaches
/// the packet sockets.
pub(super) fn redirecting(plan: &Plan) -> Vec<Instruction> {
    let [a, b, c, d, e, f] = plan.mac;
    let mac = |high, low| i32::from(u16::from_ne_bytes([high, low]));
    let half = |number: u16| i32::from(u16::from_ne_bytes(number.to_be_bytes()));
    let load = |operation, to, from, offset| register(operation, to, from, offset, 0);
    let value = |operation, to, value| register(operation, to, 0, 0, value);
    // Jumps to the end, see below.
    let unless_equal = |value| register(JUMP_UNLESS_EQUAL_VALUE, 3, 0, 0, value);
    let mut code = vec![
        load(LOAD_WORD, 6, 1, DATA),
        load(LOAD_WORD, 7, 1, DATA_END),
        // The header is there, in one piece.
        load(MOVE, 2, 6, 0),
        value(ADD_VALUE, 2, HEADER as i32),
        load(JUMP_IF_ABOVE, 2, 7, 0),
        // The frame is Weft's, for this host.
        load(LOAD_HALF, 3, 6, ETHER_TYPE_AT as i16),
        unless_equal(half(ETHER_TYPE)),
        load(LOAD_HALF, 3, 6, MAGIC_AT as i16),
        unless_equal(half(MAGIC)),
        load(LOAD_HALF, 3, 6, 0),
        unless_equal(mac(a, b)),
        load(LOAD_HALF, 3, 6, 2),
        unless_equal(mac(c, d)),
        load(LOAD_HALF, 3, 6, 4),
        unless_equal(mac(e, f)),
        // The frame came over the sockets' queue.
        load(LOAD_WORD, 3, 1, QUEUE),
        unless_equal(plan.queue as i32),
        // A socket has room for the frame.
        load(MOVE, 2, 6, 0),
        value(ADD_VALUE, 2, i32::from(plan.frame_max) + 1),
        load(JUMP_IF_AT_MOST, 2, 7, 0),
        // All bytes of the packet are here: a long frame may arrive in pieces, and only the first piece is
        // seen.
        load(LOAD_HALF, 3, 6, LENGTH_AT as i16),
        value(FROM_NETWORK, 3, 16),
        // The kernel's verifier wants to see the bound.
        value(AND_VALUE, 3, 0xffff),
        load(MOVE, 2, 6, 0),
        value(ADD_VALUE, 2, HEADER as i32),
        load(ADD, 2, 3, 0),
        load(JUMP_IF_ABOVE, 2, 7, 0),
        // The frame goes to the socket of its port, or on when there is none.
        load(LOAD_HALF, 2, 6, PORT_AT as i16),
        value(FROM_NETWORK, 2, 16),
        register(LOAD_LONG_VALUE, 1, PSEUDO_MAP, 0, plan.map),
        Instruction::default(),
        value(MOVE_VALUE, 3, XDP_PASS),
        value(CALL, 0, REDIRECT_MAP),
        value(EXIT, 0, 0),
        value(MOVE_VALUE, 0, XDP_PASS),
        value(EXIT, 0, 0),
    ];
    // All jumps lead to the last two instructions: "pass". An offset counts from the instruction behind the
    // jump.
    let pass = code.len() - 2;
    for (at, instruction) in code.iter_mut().enumerate() {
        if matches!(instruction.operation, JUMP_IF_ABOVE | JUMP_IF_AT_MOST | JUMP_UNLESS_EQUAL_VALUE) {
            instruction.offset = (pass - at - 1) as i16;
        }
    }
    code
}

fn register(operation: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { operation, registers: to | from << 4, offset, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::frame;

    const MAC: [u8; 6] = [0xfe, 0x80, 0x81, 0x82, 0x83, 0x84];
    const PORT: u16 = 0x9234;
    const FRAME_MAX: u16 = 1792;
    const PLAN: Plan = Plan { map: 77, mac: MAC, queue: 3, frame_max: FRAME_MAX };

    /// The verdict on a frame.
    #[derive(Debug, PartialEq, Eq)]
    enum Verdict {
        Pass,
        /// The frame goes to the socket of this key, if there is one.
        Socket(u64),
    }

    /// Does as the kernel would. Panics where its verifier would refuse: a load beyond the bytes that were
    /// compared with the end, an unknown operation, a jump out of the program.
    fn run(program: &[Instruction], queue: u32, bytes: &[u8]) -> Verdict {
        // The frame begins at an address that no other number here comes near.
        const START: u64 = 1 << 40;
        let end = START + bytes.len() as u64;
        let (mut registers, mut at, mut checked) = ([0_u64; 11], 0, 0_u64);
        loop {
            let Instruction { operation, registers: both, offset, value } = program[at];
            let (to, from) = (usize::from(both & 15), usize::from(both >> 4));
            at += 1;
            let (left, right) = (registers[to], registers[from]);
            let mut jump = |taken: bool| at = if taken { at + usize::try_from(offset).unwrap() } else { at };
            match operation {
                LOAD_WORD if from == 1 => {
                    registers[to] = match offset {
                        DATA => START,
                        DATA_END => end,
                        QUEUE => u64::from(queue),
                        _ => panic!("no field of the context"),
                    }
                }
                LOAD_WORD | LOAD_HALF => {
                    let (first, size) =
                        ((right - START) as usize + offset as usize, if operation == LOAD_HALF { 2 } else { 4 });
                    assert!((first + size) as u64 <= checked, "a load of bytes that may not be there");
                    let mut word = [0; 8];
                    word[..size].copy_from_slice(&bytes[first..first + size]);
                    registers[to] = u64::from_ne_bytes(word);
                }
                LOAD_LONG_VALUE => {
                    assert_eq!((from, value, program[at]), (usize::from(PSEUDO_MAP), PLAN.map, Instruction::default()));
                    at += 1;
                }
                MOVE => registers[to] = right,
                MOVE_VALUE => registers[to] = value as u64,
                ADD => registers[to] = left + right,
                ADD_VALUE => registers[to] = left + value as u64,
                AND_VALUE => registers[to] = left & value as u64,
                FROM_NETWORK if value == 16 => registers[to] = u64::from(u16::from_be(left as u16)),
                JUMP_IF_ABOVE => {
                    jump(left > right);
                    if left <= right {
                        checked = checked.max(left - START);
                    }
                }
                JUMP_IF_AT_MOST => jump(left <= right),
                JUMP_UNLESS_EQUAL_VALUE => jump(left != i64::from(value) as u64),
                CALL => {
                    assert_eq!((value, registers[3]), (REDIRECT_MAP, XDP_PASS as u64));
                    return Verdict::Socket(registers[2]);
                }
                EXIT => {
                    assert_eq!(registers[0], XDP_PASS as u64);
                    return Verdict::Pass;
                }
                _ => panic!("operation {operation:#x}"),
            }
        }
    }

    fn framed(packet: &[u8]) -> Vec<u8> {
        let mut bytes = frame::template([2, 0, 0, 0, 0, 1]);
        let length = frame::emit(&mut bytes, MAC, PORT, packet);
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn frames_for_this_host_and_queue_go_to_the_socket_of_their_port() {
        let program = redirecting(&PLAN);
        for length in [0, 1, 28, 40, 1494, usize::from(FRAME_MAX) - HEADER] {
            let mut bytes = framed(&vec![7; length]);
            assert_eq!(run(&program, PLAN.queue, &bytes), Verdict::Socket(PORT.into()), "{length} bytes");
            bytes.resize(bytes.len().max(60), 0xee);
            assert_eq!(run(&program, PLAN.queue, &bytes), Verdict::Socket(PORT.into()), "{length} bytes, padded");
        }
    }

    #[test]
    fn everything_else_passes() {
        let (program, bytes) = (redirecting(&PLAN), framed(b"hello"));
        assert_eq!(run(&program, PLAN.queue + 1, &bytes), Verdict::Pass, "another queue");
        for end in 0..bytes.len() {
            assert_eq!(run(&program, PLAN.queue, &bytes[..end]), Verdict::Pass, "cut to {end} bytes");
        }
        let too_long = framed(&[0; FRAME_MAX as usize + 1 - HEADER]);
        assert_eq!(run(&program, PLAN.queue, &too_long), Verdict::Pass, "longer than a socket takes");
        let foreign = (0..6).chain(ETHER_TYPE_AT..PORT_AT);
        for (at, bit) in foreign.flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            assert_eq!(run(&program, PLAN.queue, &other), Verdict::Pass, "bit {bit} of byte {at} differs");
        }
        // ARP, IPv4 and IPv6 of others, also with Weft's magic in its place.
        for ether_type in [0x0806_u16, 0x0800, 0x86dd, 0x8100] {
            let mut other = bytes.clone();
            other[ETHER_TYPE_AT..MAGIC_AT].copy_from_slice(&ether_type.to_be_bytes());
            assert_eq!(run(&program, PLAN.queue, &other), Verdict::Pass, "EtherType {ether_type:#x}");
        }
    }
}
