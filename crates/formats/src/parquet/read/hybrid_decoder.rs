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
    /// The byte behind what has been read of runs of one value, and of headers.
    at: usize,
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
        Ok(HybridDecoder { bytes, at: 0, width, run: EncodedRun::Packed { bit: 0, left: 0 } })
    }

    /// A cursor over single bits without runs, the lowest of each byte first: plain truth values.
    pub fn over_plain_bits(bytes: Bytes) -> HybridDecoder {
        let run = EncodedRun::Packed { bit: 0, left: bytes.len() * 8 };
        HybridDecoder { bytes, at: 0, width: 1, run }
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
            self.at = bit.div_ceil(8).min(self.bytes.len());
        }
        let header = self.varint().ok_or_else(short)?;
        let count = (header >> 1) as usize;
        let rest = &self.bytes[self.at..];
        if header & 1 > 0 {
            // The last group may lack the bytes that fill it up.
            let values = count.saturating_mul(GROUP);
            let stored = (rest.len() * 8).checked_div(self.width as usize);
            return Ok(EncodedRun::Packed {
                bit: self.at * 8,
                left: stored.map_or(values, |it| it.min(values)),
            });
        }
        let bytes = self.width.div_ceil(8) as usize;
        let own = rest.get(..bytes).ok_or_else(short)?;
        let mut value = [0; size_of::<u32>()];
        value[..bytes].copy_from_slice(own);
        self.at += bytes;
        Ok(EncodedRun::Repeated { value: u32::from_le_bytes(value), left: count })
    }

    /// An unsigned varint of at most 32 bits.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
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
    // Values before the first group that begins at a byte.
    let before = (0..GROUP).find(|at| (bit + at * width).is_multiple_of(8)).unwrap_or(0).min(count);
    out.extend((0..before).map(|at| values.at(bit + at * width)));
    let groups_at = ((bit + before * width) / 8).min(bytes.len());
    let loadable = (bytes.len() - groups_at).saturating_sub(GROUP_BYTES_LOADED) / width.max(1);
    let groups = loadable.min((count - before) / GROUP);
    unpack_groups(&bytes[groups_at..], width, groups, out);
    out.extend((before + groups * GROUP..count).map(|at| values.at(bit + at * width)));
}

/// Bytes from the begin of a group on that are loaded to unpack it: 8 values of at most 32 bits,
/// and what a word has behind the last.
const GROUP_BYTES_LOADED: usize = GROUP * size_of::<u32>() + WORD_BYTES;

/// Appends the values of `groups` groups of `width` bits, of which each is loaded whole.
fn unpack_groups(bytes: &[u8], width: usize, groups: usize, out: &mut Vec<u32>) {
    out.reserve(groups * GROUP);
    macro_rules! of_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_groups_of::<$width>(bytes, groups, out),)*
                // Of no bits.
                _ => out.resize(out.len() + groups * GROUP, 0),
            }
        };
    }
    of_width!(
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    )
}

/// `unpack_groups`, with shifts that the compiler knows.
fn unpack_groups_of<const WIDTH: usize>(bytes: &[u8], groups: usize, out: &mut Vec<u32>) {
    let mask = (1_u64 << WIDTH) - 1;
    for group in 0..groups {
        let bytes: &[u8; GROUP_BYTES_LOADED] =
            bytes[group * WIDTH..][..GROUP_BYTES_LOADED].try_into().expect("a group");
        out.extend_from_slice(&std::array::from_fn::<u32, GROUP, _>(|at| {
            let bit = at * WIDTH;
            let word: [u8; WORD_BYTES] = bytes[bit / 8..][..WORD_BYTES].try_into().expect("a word");
            (u64::from_le_bytes(word) >> (bit % 8) & mask) as u32
        }));
    }
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
        fn packed_values_of_any_width_begin_at_any_bit(
            values in prop::collection::vec(any::<u32>(), 0..200), width in 1_usize..=32,
            skipped in 0_usize..9,
        ) {
            let values: Vec<u32> =
                values.iter().map(|it| (u64::from(*it) & ((1 << width) - 1)) as u32).collect();
            let mut bytes = vec![0_u8; (values.len() * width).div_ceil(8)];
            for (at, value) in values.iter().enumerate() {
                for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
                    bytes[(at * width + bit) / 8] |= 1 << ((at * width + bit) % 8);
                }
            }
            let skipped = skipped.min(values.len());
            let mut found = vec![];
            let count = values.len() - skipped;
            unpack(&bytes, skipped * width, width as u32, count, &mut found);
            prop_assert_eq!(&found, &values[skipped..]);
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
