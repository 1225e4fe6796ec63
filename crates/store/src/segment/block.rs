//! A block of a segment, as its table of contents lists it.

use euphrates_flow::Error;

/// The end-of-stream mark of an IPC stream.
pub(super) const EOS: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// One batch in a segment: dictionaries if it has any, then the record batch message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its offset in the file.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// The number of its rows.
    pub rows: u64,
    /// The offset of its record batch message, from the block's beginning.
    pub batch_at: u32,
    /// The length of that message's metadata, with prefix and padding.
    pub meta_bytes: u32,
    /// CRC-32C of its bytes.
    pub crc: u32,
    /// Its number in the stream, where a stream's blocks are spread over several segments; else 0.
    pub number: u32,
}

impl Block {
    /// The offset of its end in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The error that a table of contents is not what was written.
pub(super) fn damaged(why: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the table of contents is damaged: {why}"))
}
