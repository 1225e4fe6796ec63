//! Encodes plain pages: numbers unchanged, byte strings each after its length.

use arrow::buffer::Buffer;
use euphrates_flow::Result;

use super::values::{LENGTH_BYTES, NonNullValues};
use euphrates_device::buffer::{copy_freely, pool};

/// The bytes of a plain page with these values, which must have one layout.
pub fn plain(pieces: impl IntoIterator<Item = NonNullValues>) -> Result<Vec<Buffer>> {
    let (mut buffers, mut strings) = (vec![], vec![]);
    for values in pieces {
        match values {
            NonNullValues::Four(values) => buffers.push(values.into_inner()),
            NonNullValues::Eight(values) => buffers.push(values.into_inner()),
            NonNullValues::Fixed(_, bytes) => buffers.push(bytes),
            NonNullValues::Bytes(..) => strings.push(values),
        }
    }
    if !strings.is_empty() {
        buffers.push(prefixed(&strings)?);
    }
    Ok(buffers)
}

/// Concatenates strings, each after its length.
fn prefixed(pieces: &[NonNullValues]) -> Result<Buffer> {
    let bytes: usize = pieces.iter().map(NonNullValues::plain_bytes).sum();
    let mut buffer = pool().take(bytes)?;
    let out = &mut buffer[..];
    let mut at = 0;
    for piece in pieces {
        let NonNullValues::Bytes(offsets, data) = piece else { continue };
        for ends in offsets.windows(2) {
            let begin = ends[0] as usize;
            let length = ends[1] as usize - begin;
            out[at..at + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
            at += LENGTH_BYTES;
            copy_freely(data, begin, out, at, length);
            at += length;
        }
    }
    Ok(buffer.into_arrow())
}
