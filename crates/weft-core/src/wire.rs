//! What travels: the header of a packet, its tag, and the frames behind it.

/// Bytes in front of every packet's body.
pub const HEADER_SIZE: usize = 28;
/// Bytes of the body that the tag covers unless a setting says otherwise.
pub const TAG_BYTES: usize = 64;
/// Most bytes that stand in a packet beside one message: header, acknowledgement's echo, transmission, lane and frame prefix.
pub const OVERHEAD_MAX: usize = 49;

/// The index of the process that claims to have sent this datagram; `None` if it is too short to be a packet.
/// Nothing is proved until `Flow::handle_packet` has verified the tag.
pub fn peek_sender(bytes: &[u8]) -> Option<u32> {
    if bytes.len() < HEADER_SIZE {
        return None;
    }
    let word: [u8; 4] = bytes[8..12].try_into().ok()?;
    Some(u32::from_le_bytes(word) & 0x00ff_ffff)
}
