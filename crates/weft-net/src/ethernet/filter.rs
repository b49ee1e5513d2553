//! The classic BPF program by which a socket gets only the frames for its own process: the kernel runs it on every frame of our
//! EtherType, before anything is copied.

use super::frame::{MAGIC, MAGIC_AT, PORT_AT};

/// `struct sock_filter` of linux/filter.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// Load a halfword of the frame; load a byte; go on if equal; end with this many bytes accepted. linux/bpf_common.h
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Where a load finds to whom the frame was addressed (SKF_AD_OFF + SKF_AD_PKTTYPE), and the answer "this host" (PACKET_HOST).
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
const PACKET_HOST: u32 = 0;

/// Accepts frames that are addressed to this host's interface, of our kind, for `port`. A frame too short for a load is not accepted.
pub(super) fn for_port(port: u16) -> [Instruction; 8] {
    let load = |code, value| Instruction { code, if_true: 0, if_false: 0, value };
    // The last instruction refuses; `rest` instructions stand between this one and it.
    let only = |value, rest| Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: rest, value };
    [
        load(LOAD_BYTE, PACKET_TYPE),
        only(PACKET_HOST, 5),
        load(LOAD_HALF, PORT_AT as u32),
        only(u32::from(port), 3),
        load(LOAD_HALF, MAGIC_AT as u32),
        only(u32::from(MAGIC), 1),
        load(RETURN, u32::MAX),
        load(RETURN, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    /// What the kernel would do; `None`: the program is wrong.
    fn run(program: &[Instruction], packet_type: u32, bytes: &[u8]) -> Option<u32> {
        let (mut at, mut value) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, value: k } = *program.get(at)?;
            at += 1;
            match code {
                LOAD_BYTE if k == PACKET_TYPE => value = packet_type,
                LOAD_HALF => match bytes.get(k as usize..k as usize + 2) {
                    Some(two) => value = u32::from(u16::from_be_bytes([two[0], two[1]])),
                    None => return Some(0),
                },
                JUMP_IF_EQUAL => at += usize::from(if value == k { if_true } else { if_false }),
                RETURN => return Some(k),
                _ => return None,
            }
        }
    }

    #[test]
    fn only_frames_for_this_host_and_port_pass() {
        let program = for_port(0x1234);
        let mut bytes = frame::template([2, 0, 0, 0, 0, 1]);
        let length = frame::emit(&mut bytes, [2, 0, 0, 0, 0, 2], 0x1234, b"hello");
        assert_eq!(run(&program, PACKET_HOST, &bytes[..length]), Some(u32::MAX));
        for other_type in 1..=4 {
            assert_eq!(run(&program, other_type, &bytes[..length]), Some(0), "broadcast, multicast, others', outgoing");
        }
        for end in 0..MAGIC_AT.max(PORT_AT) + 2 {
            assert_eq!(run(&program, PACKET_HOST, &bytes[..end]), Some(0), "{end} bytes");
        }
        for at in [MAGIC_AT, MAGIC_AT + 1, PORT_AT, PORT_AT + 1] {
            let mut other = bytes[..length].to_vec();
            other[at] ^= 1;
            assert_eq!(run(&program, PACKET_HOST, &other), Some(0), "byte {at} differs");
        }
    }
}
