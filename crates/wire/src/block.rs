//! What says how the batch in a frame's body is to be read, as it travels in the frame's meta.
//!
//! The checksum was made when the block was encoded, and is checked by whoever decodes it: from end
//! to end. Here it is only made sure that all places lie within the body.

use euphrates_io::segment::Block;

use crate::letter::Malformed;

/// Bytes of a block's description; what else is in the meta comes behind it.
pub const BLOCK_BYTES: usize = 28;

/// Appends what the receiver of this block has to know.
pub fn write(block: &Block, out: &mut Vec<u8>) {
    out.extend(block.bytes.to_le_bytes());
    out.extend(block.rows.to_le_bytes());
    out.extend(block.batch_at.to_le_bytes());
    out.extend(block.meta_bytes.to_le_bytes());
    out.extend(block.crc.to_le_bytes());
}

/// Reads it from the beginning of a meta, for a body of this length; returns what comes behind it.
pub fn read(meta: &[u8], body_bytes: u64) -> Result<(Block, &[u8]), Malformed> {
    let (described, rest) = meta.split_first_chunk::<BLOCK_BYTES>().ok_or(Malformed)?;
    let u64_at = |at| u64::from_le_bytes(described[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at| u32::from_le_bytes(described[at..at + 4].try_into().expect("four bytes"));
    let block = Block {
        bytes: u64_at(0),
        rows: u64_at(8),
        batch_at: u32_at(16),
        meta_bytes: u32_at(20),
        crc: u32_at(24),
        ..Block::default()
    };
    let head = u64::from(block.batch_at) + u64::from(block.meta_bytes);
    if block.bytes == body_bytes && head <= body_bytes { Ok((block, rest)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (rows, crc, bytes) in any::<(u64, u32, u64)>(),
            (batch_at, meta_bytes) in any::<(u32, u32)>(),
            tail in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let block = Block { bytes, rows, batch_at, meta_bytes, crc, ..Block::default() };
            let mut meta = vec![];
            write(&block, &mut meta);
            prop_assert_eq!(meta.len(), BLOCK_BYTES);
            meta.extend(&tail);
            let fits = u64::from(batch_at) + u64::from(meta_bytes) <= bytes;
            let read_back = read(&meta, bytes);
            prop_assert_eq!(read_back, if fits { Ok((block, &tail[..])) } else { Err(Malformed) });
            prop_assert_eq!(read(&meta, bytes ^ 1), Err(Malformed), "a body of another length");
            prop_assert_eq!(read(&meta[..BLOCK_BYTES - 1], bytes), Err(Malformed));
        }
    }
}
