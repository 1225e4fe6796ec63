//! Encoding of a block's description, which a frame's meta carries for the batch in its body.
//!
//! The block's checksum is end to end: made when the block is encoded, checked when it is decoded.
//! This file checks only that all offsets lie within the body.

use euphrates_store::segment::Block;

use crate::message::Malformed;

/// Bytes of a block's description, with which the meta begins.
pub const BLOCK_BYTES: usize = 28;

/// Appends a block's description to `out`.
pub fn write(block: &Block, out: &mut Vec<u8>) {
    out.extend(block.bytes.to_le_bytes());
    out.extend(block.rows.to_le_bytes());
    out.extend(block.batch_at.to_le_bytes());
    out.extend(block.meta_bytes.to_le_bytes());
    out.extend(block.crc.to_le_bytes());
}

/// Decodes the description at the start of `meta`, for a body of `body_bytes`; returns it with the
/// rest of the meta.
///
/// ```
/// use euphrates_store::segment::Block;
/// use euphrates_wire::block::{BLOCK_BYTES, read, write};
///
/// let block = Block {
///     offset: 0,
///     bytes: 1000,
///     rows: 10,
///     batch_at: 0,
///     meta_bytes: 200,
///     crc: 7,
///     number: 0,
/// };
/// let mut meta = vec![];
/// write(&block, &mut meta);
/// assert_eq!(meta.len(), BLOCK_BYTES);
/// meta.push(b'!');
/// let (described, rest) = read(&meta, 1000).expect("what was written");
/// assert_eq!((described.rows, rest), (10, &b"!"[..]));
/// assert!(read(&meta[..5], 1000).is_err());
/// ```
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
        fn descriptions_roundtrip_if_they_fit_the_body(
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
