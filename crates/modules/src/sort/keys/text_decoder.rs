//! Decodes texts from sort keys: words by their codes, short texts from the bits of the key.
//!
//! Both are at hand, where a text in its row is a cache miss.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use euphrates_device::buffer::pool;
use euphrates_flow::{Error, Result};

use super::key_bits::mask;
use super::key_layout::{
    ColumnCode, KeyColumn, LENGTH_BITS, PLACE_BITS, TEXT_BYTES_MAX, word_bits,
};
use crate::batches::array_values::bytes_array;

/// Bytes of a text are copied in steps of this many, which may go beyond its end.
const STEP: usize = 16;

/// Decodes texts and binaries of variable length.
#[derive(Clone, Debug)]
pub(crate) struct KeyTextDecoder {
    shift: u32,
    /// The bits of the column's code.
    mask: u128,
    null: u128,
    texts: DecodedTexts,
}

#[derive(Clone, Debug)]
enum DecodedTexts {
    /// Word `i` is `bytes[ends[i]..ends[i + 1]]`; `last` is the greatest code.
    Words { bytes: Arc<[u8]>, ends: Arc<[u32]>, last: u128, descending: bool },
    /// A prefix, and the first of `bytes` bytes behind it; `flip` has the bits that differ.
    Short { prefix: Arc<[u8]>, bytes: u32, flip: u128 },
}

impl KeyTextDecoder {
    /// A decoder for texts of this type with these codes, `shift` bits up in a key. `None` if the
    /// type is another one, or the layout has words that are no text.
    pub(super) fn new(
        data_type: &DataType,
        code: &ColumnCode,
        shift: u32,
        key: &KeyColumn,
    ) -> Option<KeyTextDecoder> {
        let is_text = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 => true,
            DataType::Binary | DataType::LargeBinary => false,
            _ => return None,
        };
        let descending = key.descending;
        let (bits, last, texts) = match code {
            ColumnCode::Words(words) => {
                if is_text && words.iter().any(|word| std::str::from_utf8(word).is_err()) {
                    return None;
                }
                let last = 2 * words.len() as u128 + 2;
                let mut bytes = words.concat();
                let mut end = 0;
                let ends = words.iter().map(|word| {
                    end += word.len() as u32;
                    end
                });
                let ends = std::iter::once(0).chain(ends).collect();
                bytes.extend([0; STEP]);
                let bytes = bytes.into();
                (
                    word_bits(words.len()),
                    last,
                    DecodedTexts::Words { bytes, ends, last, descending },
                )
            }
            ColumnCode::Text { prefix, bytes } if *bytes as usize <= TEXT_BYTES_MAX => {
                let body_bits = 8 * bytes + LENGTH_BITS;
                let flip = if descending { mask(body_bits) } else { 0 };
                let short = DecodedTexts::Short { prefix: prefix[..].into(), bytes: *bytes, flip };
                (PLACE_BITS + body_bits, mask(PLACE_BITS) << body_bits, short)
            }
            _ => return None,
        };
        let null = if key.nulls_first { 0 } else { last };
        Some(KeyTextDecoder { shift, mask: mask(bits), null, texts })
    }

    /// The bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        match &self.texts {
            DecodedTexts::Words { ends, .. } => {
                ends.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
            }
            DecodedTexts::Short { prefix, bytes, .. } => prefix.len() + *bytes as usize,
        }
    }

    pub(super) fn decode(&self, data_type: &DataType, keys: &[u128]) -> Result<ArrayRef> {
        match &self.texts {
            DecodedTexts::Words { bytes, ends, last, descending } => {
                let word = |code: u128| {
                    let code = if *descending { last - code } else { code };
                    let number = (code as usize / 2).wrapping_sub(1);
                    let ends = ends.get(number..)?.first_chunk::<2>()?;
                    Some((ends[0] as usize, (ends[1] - ends[0]) as usize))
                };
                let length = |code| word(code).map_or(0, |(_, length)| length);
                self.collect(data_type, keys, length, |code, out| {
                    let (from, length) = word(code).unwrap_or_default();
                    copy_in_steps(&bytes[from..], length, out);
                })
            }
            DecodedTexts::Short { prefix, bytes, flip } => {
                let body = |code: u128| code ^ flip;
                let length = |code| {
                    let behind = (body(code) & mask(LENGTH_BITS)) as usize;
                    prefix.len() + behind.min(*bytes as usize)
                };
                // The bytes behind the prefix move to the upper end.
                let up = u128::BITS - 8 * bytes - LENGTH_BITS;
                self.collect(data_type, keys, length, |code, out| {
                    let (begin, rest) = out.split_at_mut(prefix.len());
                    begin.copy_from_slice(prefix);
                    let text = (body(code) >> LENGTH_BITS << LENGTH_BITS << up).to_be_bytes();
                    copy_in_steps(&text, length(code) - prefix.len(), rest);
                })
            }
        }
    }

    /// The texts of these keys, of these lengths; `write` gets what remains of the column from the
    /// begin of the text on, and may write beyond its end.
    fn collect(
        &self,
        data_type: &DataType,
        keys: &[u128],
        length: impl Fn(u128) -> usize,
        write: impl Fn(u128, &mut [u8]),
    ) -> Result<ArrayRef> {
        let code = |key: &u128| (key >> self.shift) & self.mask;
        let nulls = BooleanBuffer::collect_bool(keys.len(), |row| code(&keys[row]) != self.null);
        let nulls = Some(NullBuffer::new(nulls)).filter(|nulls| nulls.null_count() > 0);
        let mut ends = Vec::with_capacity(keys.len() + 1);
        let mut end = 0;
        ends.push(0);
        for key in keys.iter().map(code) {
            end += if key == self.null { 0 } else { length(key) };
            ends.push(end as i32);
        }
        if i32::try_from(end).is_err() {
            return Err(Error::failed("a batch would hold more than 2 GiB of text"));
        }
        let mut out = pool().take(end)?;
        for (key, at) in keys.iter().map(code).zip(&ends) {
            if key != self.null {
                write(key, &mut out[*at as usize..]);
            }
        }
        Ok(bytes_array(data_type, ends, out.into_arrow(), nulls))
    }
}

/// Copies the first `length` bytes, in whole steps where both have as many.
#[inline(always)]
fn copy_in_steps(from: &[u8], length: usize, to: &mut [u8]) {
    match (from.first_chunk::<STEP>(), to.first_chunk_mut::<STEP>()) {
        (Some(from), Some(to)) if length <= STEP => *to = *from,
        _ => to[..length].copy_from_slice(&from[..length]),
    }
}
