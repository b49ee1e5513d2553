//! The classic BPF program by which a socket gets only the frames for its own process.
//!
//! The kernel runs the program on every frame of Weft's EtherType, before it copies anything. The program
//! checks everything by which a frame is this process's own. So the filter also holds when the socket is
//! bound to another interface or protocol later (`weft-netd` locks the filter).

use super::frame::{ETHER_TYPE, MAGIC, MAGIC_AT, PORT_AT};
use crate::socket_filter::{
    Instruction, JUMP_IF_EQUAL, LOAD_BYTE, LOAD_HALF, LOAD_WORD, RETURN, TAKE, only, step as load,
};

/// Offset by which a load finds the kind of a frame's destination (SKF_AD_OFF + SKF_AD_PKTTYPE). PACKET_HOST
/// is the answer "this host".
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
const PACKET_HOST: u32 = 0;
/// The answer "a multicast address" (PACKET_MULTICAST).
const PACKET_MULTICAST: u32 = 2;
/// Offset by which a load finds the index of the interface (SKF_AD_OFF + SKF_AD_IFINDEX).
const INTERFACE: u32 = (-0x1000_i32 + 8) as u32;
const ETHER_TYPE_AT: u32 = 12;
/// Positions in the program of [`Filter`] whose values differ from filter to filter.
const USER_IN: usize = 0;
const INTERFACE_IN: usize = 4;
const PORT_IN: usize = 10;
const LENGTH: usize = 13;
/// The same positions where the socket gets frames for multicast groups, too.
const INTERFACE_WITH_GROUPS_IN: usize = 2;
const GROUPS_IN: usize = 11;
const PORT_WITH_GROUPS_IN: usize = 13;
const LENGTH_WITH_GROUPS: usize = 16;

/// The frames that a socket gets.
///
/// The program has these values in it, and the kernel shows it to a process that may administer the network.
/// So `weft-netd` knows which ports are taken, without keeping anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Index of the interface.
    pub interface: u32,
    /// The process's number on this host.
    pub port: u16,
    /// The user for whom the socket was made.
    pub user: u32,
    /// The number that frames for the multicast groups of the process's job have in place of a port, once the
    /// process has joined one.
    pub groups: Option<u16>,
}

impl Filter {
    /// Makes the program. It accepts frames of Weft's kind that are addressed to this host's interface, for
    /// the port, and frames to multicast addresses for the number of the job's groups, if there is one. It
    /// refuses a frame that is too short for a load.
    pub(super) fn program(&self) -> Vec<Instruction> {
        // Each `only` skips the instructions between itself and the last one, which refuses.
        if let Some(groups) = self.groups {
            return vec![
                load(TAKE, self.user),
                load(LOAD_WORD, INTERFACE),
                only(self.interface, 12),
                load(LOAD_HALF, ETHER_TYPE_AT),
                only(u32::from(ETHER_TYPE), 10),
                load(LOAD_HALF, MAGIC_AT as u32),
                only(u32::from(MAGIC), 8),
                load(LOAD_BYTE, PACKET_TYPE),
                // Frames for this host are checked further down.
                Instruction { code: JUMP_IF_EQUAL, if_true: 3, if_false: 0, value: PACKET_HOST },
                only(PACKET_MULTICAST, 5),
                load(LOAD_HALF, PORT_AT as u32),
                Instruction { code: JUMP_IF_EQUAL, if_true: 2, if_false: 3, value: u32::from(groups) },
                load(LOAD_HALF, PORT_AT as u32),
                only(u32::from(self.port), 1),
                load(RETURN, u32::MAX),
                load(RETURN, 0),
            ];
        }
        vec![
            // The instruction changes nothing: its value is there to be read.
            load(TAKE, self.user),
            load(LOAD_BYTE, PACKET_TYPE),
            only(PACKET_HOST, 9),
            load(LOAD_WORD, INTERFACE),
            only(self.interface, 7),
            load(LOAD_HALF, ETHER_TYPE_AT),
            only(u32::from(ETHER_TYPE), 5),
            load(LOAD_HALF, MAGIC_AT as u32),
            only(u32::from(MAGIC), 3),
            load(LOAD_HALF, PORT_AT as u32),
            only(u32::from(self.port), 1),
            load(RETURN, u32::MAX),
            load(RETURN, 0),
        ]
    }

    /// Returns the filter of which these are the program's bytes, as the kernel shows them; none for another
    /// program.
    pub fn read(program: &[u8]) -> Option<Self> {
        let instruction = |bytes: &[u8]| {
            let &[c0, c1, if_true, if_false, v0, v1, v2, v3] = bytes else { return None };
            let value = u32::from_ne_bytes([v0, v1, v2, v3]);
            Some(Instruction { code: u16::from_ne_bytes([c0, c1]), if_true, if_false, value })
        };
        let instructions: Vec<_> = program.chunks(size_of::<Instruction>()).map(instruction).collect::<Option<_>>()?;
        let value = |at: usize| instructions.get(at).map(|one| one.value);
        let (interface, port, groups) = match instructions.len() {
            LENGTH => (INTERFACE_IN, PORT_IN, None),
            LENGTH_WITH_GROUPS => (INTERFACE_WITH_GROUPS_IN, PORT_WITH_GROUPS_IN, Some(value(GROUPS_IN)?)),
            _ => return None,
        };
        let number = |value: u32| u16::try_from(value).ok();
        let groups = match groups {
            Some(groups) => Some(number(groups)?),
            None => None,
        };
        let filter = Self { interface: value(interface)?, port: number(value(port)?)?, user: value(USER_IN)?, groups };
        (filter.program() == instructions).then_some(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    const FILTER: Filter = Filter { interface: 3, port: 0x1234, user: 1000, groups: None };
    const WITH_GROUPS: Filter = Filter { groups: Some(0x4321), ..FILTER };

    /// Does as the kernel would with a frame of this type from this interface; `None`: the program is wrong.
    fn run(program: &[Instruction], (packet_type, interface): (u32, u32), bytes: &[u8]) -> Option<u32> {
        let (mut at, mut value) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, value: k } = *program.get(at)?;
            at += 1;
            match code {
                TAKE => value = k,
                LOAD_BYTE if k == PACKET_TYPE => value = packet_type,
                LOAD_WORD if k == INTERFACE => value = interface,
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
    fn only_frames_for_this_host_interface_and_port_pass() {
        let mut bytes = frame::template([2, 0, 0, 0, 0, 1]);
        let length = frame::emit(&mut bytes, [2, 0, 0, 0, 0, 2], 0x1234, b"hello");
        let from = (PACKET_HOST, 3);
        for program in [FILTER.program(), WITH_GROUPS.program()] {
            assert_eq!(run(&program, from, &bytes[..length]), Some(u32::MAX));
            for other_type in 1..=4 {
                let (frame, other) = (&bytes[..length], (other_type, 3));
                assert_eq!(run(&program, other, frame), Some(0), "broadcast, multicast, others', outgoing");
            }
            assert_eq!(run(&program, (PACKET_HOST, 4), &bytes[..length]), Some(0), "another interface");
            for end in 0..MAGIC_AT.max(PORT_AT) + 2 {
                assert_eq!(run(&program, from, &bytes[..end]), Some(0), "{end} bytes");
            }
            for at in 12..PORT_AT + 2 {
                let mut other = bytes[..length].to_vec();
                other[at] ^= 1;
                assert_eq!(run(&program, from, &other), Some(0), "byte {at} differs");
            }
        }
    }

    #[test]
    fn frames_for_groups_pass_where_one_has_been_joined_and_only_if_they_came_to_a_multicast_address() {
        let mut bytes = frame::template([2, 0, 0, 0, 0, 1]);
        let length = frame::emit(&mut bytes, [3, 0, 0, 0, 0, 2], 0x4321, b"hello");
        let (frame, with) = (&bytes[..length], WITH_GROUPS.program());
        assert_eq!(run(&with, (PACKET_MULTICAST, 3), frame), Some(u32::MAX));
        assert_eq!(run(&FILTER.program(), (PACKET_MULTICAST, 3), frame), Some(0), "nothing has been joined");
        assert_eq!(run(&with, (PACKET_MULTICAST, 4), frame), Some(0), "another interface");
        for other_type in [0, 1, 3, 4] {
            assert_eq!(run(&with, (other_type, 3), frame), Some(0), "for this host, broadcast, others', outgoing");
        }
        for at in 12..PORT_AT + 2 {
            let mut other = frame.to_vec();
            other[at] ^= 1;
            assert_eq!(run(&with, (PACKET_MULTICAST, 3), &other), Some(0), "byte {at} differs");
        }
    }

    #[test]
    fn a_program_says_whose_it_is_and_no_other_is_taken_for_one() {
        let bytes_of = |program: &[Instruction]| -> Vec<u8> {
            let bytes = |one: &Instruction| {
                [&one.code.to_ne_bytes()[..], &[one.if_true, one.if_false], &one.value.to_ne_bytes()].concat()
            };
            program.iter().flat_map(bytes).collect()
        };
        for filter in [FILTER, WITH_GROUPS] {
            let bytes = bytes_of(&filter.program());
            assert_eq!(Filter::read(&bytes), Some(filter));
            assert_eq!(Filter::read(&bytes[8..]), None);
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                let read = Filter::read(&other);
                assert!(
                    read.is_none_or(|read| read != filter && bytes_of(&read.program()) == other),
                    "byte {at} differs"
                );
            }
        }
    }
}
