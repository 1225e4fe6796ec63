//! Encodes plain pages: numbers unchanged, byte strings each after its length, truth values as
//! bits.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::Buffer;
use euphrates_flow::Result;

use super::rle_bit_packing::encode_bits;
use super::values::{LENGTH_BYTES, NonNullValues};
use euphrates_device::buffer::{copy_freely, pool};

/// The bytes of a plain page with these values, which must have one layout.
pub fn plain(pieces: impl IntoIterator<Item = NonNullValues>) -> Result<Vec<Buffer>> {
    let (mut buffers, mut strings) = (vec![], vec![]);
    let mut bits = BooleanBufferBuilder::new(0);
    for values in pieces {
        match values {
            NonNullValues::Bits(values) => bits.append_buffer(&values),
            NonNullValues::Four(values) => buffers.push(values.into_inner()),
            NonNullValues::Eight(values) => buffers.push(values.into_inner()),
            NonNullValues::Fixed(_, bytes) => buffers.push(bytes),
            NonNullValues::Bytes(..) => strings.push(values),
        }
    }
    if !strings.is_empty() {
        buffers.push(prefixed(&strings)?);
    }
    if !bits.is_empty() {
        buffers.push(bits.finish().sliced());
    }
    Ok(buffers)
}

/// Runs of truth values, after their length; `None` unless they take less than the bits.
pub fn shorter_runs(bits: &Buffer) -> Option<Buffer> {
    let mut runs = vec![0; LENGTH_BYTES];
    encode_bits(bits, &mut runs);
    let length = (runs.len() - LENGTH_BYTES) as u32;
    runs[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    (runs.len() < bits.len()).then(|| Buffer::from_vec(runs))
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
