//! A block of a chunk on one disk: a header that says to what it belongs, and the bytes.
//!
//! A segment's file on a disk is a sequence of blocks. They describe themselves, so a replay finds
//! them without a map, also behind a damaged one: blocks begin at multiples of 512.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

use crate::tree::{BytesIn, BytesOut};

/// Blocks begin at multiples of this.
pub const BLOCK_ALIGN: u64 = 512;
/// Length of a header.
pub const HEADER_BYTES: usize = 72;
const MAGIC: u32 = 0x4c56_4531;

/// The checksum of blocks and payloads.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// What a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// The volume's number.
    pub volume: u64,
    /// The mount that has written it.
    pub epoch: u64,
    /// The number of its chunk.
    pub chunk: u64,
    /// All chunks before this one were durable when it was written.
    pub durable: u64,
    /// Length and checksum of the chunk's payload.
    pub payload_bytes: u32,
    pub payload_crc: u32,
    /// Length and checksum of this block.
    pub block_bytes: u32,
    pub block_crc: u32,
    /// Its place in the chunk: data blocks first.
    pub index: u8,
    /// Data blocks of the chunk; 1 if the blocks are copies.
    pub data: u8,
    /// Other blocks of the chunk.
    pub parity: u8,
}

impl BlockHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = BytesOut::default();
        out.u32(MAGIC);
        out.u32(0);
        for one in [self.volume, self.epoch, self.chunk, self.durable] {
            out.u64(one);
        }
        let lengths = [self.payload_bytes, self.payload_crc, self.block_bytes, self.block_crc];
        for one in lengths {
            out.u32(one);
        }
        for one in [self.index, self.data, self.parity] {
            out.u8(one);
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes[..out.0.len()].copy_from_slice(&out.0);
        let sum = crc(&bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<BlockHeader> {
        let mut bytes: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let stored = u32::from_le_bytes(bytes[4..8].try_into().ok()?);
        bytes[4..8].fill(0);
        let mut from = BytesIn::new(&bytes);
        if from.u32()? != MAGIC || crc(&bytes) != stored {
            return None;
        }
        from.u32()?;
        Some(BlockHeader {
            volume: from.u64()?,
            epoch: from.u64()?,
            chunk: from.u64()?,
            durable: from.u64()?,
            payload_bytes: from.u32()?,
            payload_crc: from.u32()?,
            block_bytes: from.u32()?,
            block_crc: from.u32()?,
            index: from.u8()?,
            data: from.u8()?,
            parity: from.u8()?,
        })
    }

    /// Bytes that header and block take in a file.
    pub fn stored_bytes(&self) -> u64 {
        stored_bytes(self.block_bytes as usize)
    }
}

/// Bytes that a block of this length takes in a file, its header included.
pub fn stored_bytes(block_bytes: usize) -> u64 {
    ((HEADER_BYTES + block_bytes) as u64).next_multiple_of(BLOCK_ALIGN)
}

/// The blocks of a file that are whole, with the offsets of their headers. What is damaged or torn
/// is skipped.
pub fn find_blocks(file: &[u8]) -> Vec<(BlockHeader, usize)> {
    let (mut at, mut found) = (0, vec![]);
    while at < file.len() {
        let header = BlockHeader::decode(&file[at..]);
        let body = header.and_then(|header| {
            let start = at + HEADER_BYTES;
            file.get(start..start + header.block_bytes as usize)
        });
        match (header, body) {
            (Some(header), Some(body)) => {
                if crc(body) == header.block_crc {
                    found.push((header, at));
                }
                at += header.stored_bytes() as usize;
            }
            _ => at += BLOCK_ALIGN as usize,
        }
    }
    found
}
