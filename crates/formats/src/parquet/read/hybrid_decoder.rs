//! Decodes Parquet's hybrid of run-length encoding and bit packing: definition levels and
//! dictionary codes.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use euphrates_flow::{Error, Result};

/// Number of values in a bit-packed group.
const GROUP: usize = 8;
/// Bytes of the word from which one value is extracted: 7 bits before it, and 32 of its own.
const WORD_BYTES: usize = size_of::<u64>();

/// A cursor over encoded values of `width` bits.
pub struct HybridDecoder {
    bytes: Bytes,
    width: u32,
    run: EncodedRun,
}

/// What is left of the run at the cursor.
enum EncodedRun {
    /// `left` times the same value.
    Repeated { value: u32, left: usize },
    /// `left` values, of which the first begins at this bit of `bytes`.
    Packed { bit: usize, left: usize },
}

impl EncodedRun {
    fn left(&self) -> usize {
        match self {
            EncodedRun::Repeated { left, .. } | EncodedRun::Packed { left, .. } => *left,
        }
    }
}

impl HybridDecoder {
    /// A cursor before the first value. A corruption error if a value has more than 32 bits.
    pub fn new(bytes: Bytes, width: u32) -> Result<HybridDecoder> {
        if width > u32::BITS {
            return Err(Error::corrupt(format!("a dictionary code of {width} bits")));
        }
        Ok(HybridDecoder { bytes, width, run: EncodedRun::Packed { bit: 0, left: 0 } })
    }

    /// A cursor over single bits without runs, the lowest of each byte first: plain truth values.
    pub fn over_plain_bits(bytes: Bytes) -> HybridDecoder {
        let run = EncodedRun::Packed { bit: 0, left: bytes.len() * 8 };
        HybridDecoder { bytes, width: 1, run }
    }

    /// A cursor over single bits without runs, of which the highest of each byte comes first:
    /// levels in the encoding `BIT_PACKED` of old files.
    pub fn over_old_levels(bytes: &[u8]) -> HybridDecoder {
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.reverse_bits()).collect();
        HybridDecoder::over_plain_bits(bytes.into())
    }

    /// Appends the next `count` values. A corruption error if there are fewer.
    pub fn values(&mut self, count: usize, out: &mut Vec<u32>) -> Result<()> {
        out.reserve(count);
        self.each_part(count, |bytes, width, part| match part {
            EncodedRun::Repeated { value, left } => out.resize(out.len() + left, value),
            EncodedRun::Packed { bit, left } => unpack(bytes, bit, width, left, out),
        })
    }

    /// Appends the next `count` values of one bit. A corruption error if there are fewer.
    pub fn bits(&mut self, count: usize, out: &mut BooleanBufferBuilder) -> Result<()> {
        self.each_part(count, |bytes, _, part| match part {
            EncodedRun::Repeated { value, left } => out.append_n(left, value & 1 > 0),
            EncodedRun::Packed { bit, left } => out.append_packed_range(bit..bit + left, bytes),
        })
    }

    /// Appends those of the next values whose bit is set in `mask`, and passes over the others. A
    /// corruption error if there are fewer than it has bits.
    pub fn selected(&mut self, mask: &BooleanBuffer, out: &mut Vec<u32>) -> Result<()> {
        let mut done = 0;
        self.each_part(mask.len(), |bytes, width, part| {
            let mask = mask.slice(done, part.left());
            done += part.left();
            match part {
                EncodedRun::Repeated { value, .. } => {
                    out.resize(out.len() + mask.count_set_bits(), value);
                }
                EncodedRun::Packed { bit, .. } => {
                    let values = Extractor::new(bytes, width);
                    out.extend(mask.set_indices().map(|at| values.at(bit + at * width as usize)));
                }
            }
        })
    }

    /// Calls `each` with the bytes, the width and the parts of runs that make up `count` values.
    fn each_part(
        &mut self,
        mut count: usize,
        mut each: impl FnMut(&[u8], u32, EncodedRun),
    ) -> Result<()> {
        while count > 0 {
            if self.run.left() == 0 {
                self.run = self.next_run()?;
            }
            let taken = self.run.left().min(count);
            let width = self.width as usize;
            each(
                &self.bytes,
                self.width,
                match &mut self.run {
                    EncodedRun::Repeated { value, left } => {
                        *left -= taken;
                        EncodedRun::Repeated { value: *value, left: taken }
                    }
                    EncodedRun::Packed { bit, left } => {
                        let part = EncodedRun::Packed { bit: *bit, left: taken };
                        (*bit, *left) = (*bit + taken * width, *left - taken);
                        part
                    }
                },
            );
            count -= taken;
        }
        Ok(())
    }

    /// Reads the header of the run behind the current one, which has ended.
    fn next_run(&mut self) -> Result<EncodedRun> {
        let short = || Error::corrupt("a page has fewer values than its header says");
        if let EncodedRun::Packed { bit, .. } = self.run {
            let _ = self.bytes.split_to(bit.div_ceil(8).min(self.bytes.len()));
        }
        let header = self.varint().ok_or_else(short)?;
        let count = (header >> 1) as usize;
        if header & 1 > 0 {
            // The last group may lack the bytes that fill it up.
            let values = count.saturating_mul(GROUP);
            let stored = (self.bytes.len() * 8).checked_div(self.width as usize);
            return Ok(EncodedRun::Packed {
                bit: 0,
                left: stored.map_or(values, |it| it.min(values)),
            });
        }
        let bytes = self.width.div_ceil(8) as usize;
        if self.bytes.len() < bytes {
            return Err(short());
        }
        let mut value = [0; size_of::<u32>()];
        value[..bytes].copy_from_slice(&self.bytes.split_to(bytes));
        Ok(EncodedRun::Repeated { value: u32::from_le_bytes(value), left: count })
    }

    /// An unsigned varint of at most 32 bits.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.first()?;
            let _ = self.bytes.split_to(1);
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value.try_into().ok();
            }
        }
        None
    }
}

/// Appends `count` values of `width` bits, of which the first begins at a bit.
fn unpack(bytes: &[u8], bit: usize, width: u32, count: usize, out: &mut Vec<u32>) {
    let values = Extractor::new(bytes, width);
    let width = width as usize;
    let bits_before = values.loadable_bits.saturating_sub(bit);
    let whole = bits_before.div_ceil(width.max(1)).min(count);
    out.extend((0..whole).map(|at| values.of_word(bytes, bit + at * width)));
    out.extend((whole..count).map(|at| values.at(bit + at * width)));
}

/// Extracts values of some bits from bytes.
struct Extractor<'a> {
    bytes: &'a [u8],
    mask: u64,
    /// At bits before this one, a whole word can be loaded.
    loadable_bits: usize,
    /// A copy of the bytes from `loadable_bits` on, with zeros behind.
    tail: [u8; 2 * WORD_BYTES],
}

impl<'a> Extractor<'a> {
    fn new(bytes: &'a [u8], width: u32) -> Extractor<'a> {
        let loadable = (bytes.len() + 1).saturating_sub(WORD_BYTES);
        let mut tail = [0; 2 * WORD_BYTES];
        tail[..bytes.len() - loadable].copy_from_slice(&bytes[loadable..]);
        Extractor { bytes, mask: (1 << width) - 1, loadable_bits: loadable * 8, tail }
    }

    /// The value at a bit.
    fn at(&self, bit: usize) -> u32 {
        match bit.checked_sub(self.loadable_bits) {
            None => self.of_word(self.bytes, bit),
            Some(bit) => self.of_word(&self.tail, bit),
        }
    }

    fn of_word(&self, bytes: &[u8], bit: usize) -> u32 {
        let word = bytes[bit / 8..][..WORD_BYTES].try_into().expect("a word");
        (u64::from_le_bytes(word) >> (bit % 8) & self.mask) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::rle_bit_packing::{bit_width, encode};
    use super::*;

    proptest! {
        #[test]
        fn decodes_what_was_encoded_in_any_steps(
            codes in prop::collection::vec((0u32..5000, 1usize..30), 0..80),
            shift in 0u32..13,
            steps in prop::collection::vec((1usize..300, 1usize..5), 1..20),
        ) {
            let codes: Vec<u32> = codes
                .into_iter()
                .flat_map(|(code, times)| std::iter::repeat_n(code >> shift, times))
                .collect();
            let width = bit_width(codes.iter().max().map_or(0, |most| *most as usize + 1));
            let mut bytes = vec![];
            encode(&codes, width, &mut bytes);
            let mut decoder = HybridDecoder::new(bytes.into(), width).unwrap();
            let (mut done, mut found) = (0, vec![]);
            for (step, every) in steps.into_iter().cycle() {
                let step = step.min(codes.len() - done);
                if step == 0 {
                    break;
                }
                found.clear();
                let mask = BooleanBuffer::collect_bool(step, |at| at.is_multiple_of(every));
                match every {
                    1 => decoder.values(step, &mut found).unwrap(),
                    _ => decoder.selected(&mask, &mut found).unwrap(),
                }
                let expected: Vec<u32> =
                    mask.set_indices().map(|at| codes[done + at]).collect();
                prop_assert_eq!(&found, &expected);
                done += step;
            }
        }

        #[test]
        fn bits_equal_values_of_one_bit(
            codes in prop::collection::vec((0u32..2, 1usize..30), 1..80),
        ) {
            let codes: Vec<u32> = codes
                .into_iter()
                .flat_map(|(code, times)| std::iter::repeat_n(code, times))
                .collect();
            let mut bytes = vec![];
            encode(&codes, 1, &mut bytes);
            let mut decoder = HybridDecoder::new(bytes.into(), 1).unwrap();
            let mut found = BooleanBufferBuilder::new(0);
            decoder.bits(codes.len() / 2, &mut found).unwrap();
            decoder.bits(codes.len() - codes.len() / 2, &mut found).unwrap();
            let expected: Vec<bool> = codes.iter().map(|code| *code > 0).collect();
            prop_assert_eq!(found.finish().iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_end_in_an_error_or_in_values(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            width in 0u32..=40,
        ) {
            let mut out = vec![];
            if let Ok(mut decoder) = HybridDecoder::new(bytes.into(), width) {
                while out.len() < 1000 && decoder.values(7, &mut out).is_ok() {}
            }
        }
    }

    #[test]
    fn old_levels_have_the_highest_bit_first() {
        let mut found = BooleanBufferBuilder::new(0);
        HybridDecoder::over_old_levels(&[0b1010_0000, 0b1000_0000]).bits(9, &mut found).unwrap();
        let ones: Vec<usize> = found.finish().set_indices().collect();
        assert_eq!(ones, [0, 2, 8]);
    }

    #[test]
    fn missing_values_are_an_error() {
        let mut decoder = HybridDecoder::new(Bytes::from_static(&[4, 9]), 8).unwrap();
        decoder.values(2, &mut vec![]).unwrap();
        assert!(decoder.values(1, &mut vec![]).is_err());
    }
}
