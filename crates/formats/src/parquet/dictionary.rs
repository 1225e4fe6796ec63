//! The dictionary of a column chunk: its distinct values, and whether dictionary encoding pays.

use arrow::buffer::Buffer;

use super::interner::{NumberInterner, Strings};
use super::statistics::ValueRange;
use super::values::{NonNullValues, PhysicalLayout, leading};

/// The most bytes of a dictionary page, so that a reader keeps it in a cache.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Number of values after which dictionary encoding is decided.
pub const SAMPLE_VALUES: usize = 32 << 10;

/// Whether a dictionary pays, given the first values of a chunk. If three in four values are new,
/// it saves next to nothing and costs readers a look-up per value.
pub fn pays(values: usize, distinct: usize) -> bool {
    values > 0 && distinct * 4 <= values * 3
}

/// Whether a dictionary of numbers pays in a file that is not compressed, of whose sample the
/// second half has brought `new` values. If one in eight is new, so will those be that follow: the
/// dictionary soon fills, and until then each number costs a look-up to save a few bytes.
pub fn numbers_pay_uncompressed(half: usize, new: usize) -> bool {
    new * 8 <= half
}

/// The fewest values that can show that a dictionary will not pay.
pub const GLIMPSE_VALUES: usize = 8 << 10;

/// Whether the sample can end early: at this many values, this many distinct ones mean that more
/// than three in four will be new at the sample's end, if values are spread evenly.
pub fn will_likely_not_pay(values: usize, distinct: usize) -> bool {
    values >= GLIMPSE_VALUES && distinct * 16 > values * 15
}

/// Chunks of a column that are written plain after one in which a dictionary did not pay.
const PAUSE_CHUNKS: u8 = 3;

/// Whether the chunks of a column begin with a dictionary, by how that went before: the values of
/// one file are mostly alike, and looking up the first ones of each chunk for nothing took a tenth
/// of a join's time.
#[derive(Clone, Debug, Default)]
pub struct DictionaryTrials {
    /// Chunks to come without a dictionary.
    pause: u8,
}

impl DictionaryTrials {
    /// Whether the next chunk tries a dictionary.
    pub fn tries(&self) -> bool {
        self.pause == 0
    }

    /// Notes a chunk that is complete, of whose values `coded` are codes of `distinct` ones. It
    /// paid if these are most values, and each is there twice. Few values say nothing.
    pub fn note(&mut self, values: usize, coded: usize, distinct: usize) {
        let paid = coded * 2 > values && distinct * 2 <= coded;
        self.pause = match self.pause {
            0 if values < GLIMPSE_VALUES || paid => 0,
            0 => PAUSE_CHUNKS,
            pause => pause - 1,
        };
    }
}

/// A dictionary under construction, by layout of its values.
pub enum Dictionary {
    /// Numbers of four bytes, compared by bits.
    Four(NumberInterner<u32>),
    /// Numbers of eight bytes, compared by bits.
    Eight(NumberInterner<u64>),
    /// Byte strings of any length.
    Bytes(Strings),
    /// Byte strings of this many bytes each, at most 16, as numbers whose first byte is the most
    /// significant.
    Fixed(usize, NumberInterner<u128>),
}

/// The most bytes of values of a fixed size that have a dictionary.
const FIXED_BYTES_MAX: usize = size_of::<u128>();

impl Dictionary {
    /// An empty dictionary; `None` for layouts that are always written plain.
    pub fn new(layout: PhysicalLayout) -> Option<Dictionary> {
        match layout {
            PhysicalLayout::Four => Some(Dictionary::Four(NumberInterner::new())),
            PhysicalLayout::Eight => Some(Dictionary::Eight(NumberInterner::new())),
            PhysicalLayout::Bytes => Some(Dictionary::Bytes(Strings::new())),
            PhysicalLayout::Fixed(width) if width <= FIXED_BYTES_MAX => {
                Some(Dictionary::Fixed(width, NumberInterner::new()))
            }
            PhysicalLayout::Bits | PhysicalLayout::Fixed(_) => None,
        }
    }

    /// Appends the codes of values up to the first that does not fit; returns their number.
    pub fn intern(&mut self, values: &NonNullValues, codes: &mut Vec<u32>) -> usize {
        match (self, values) {
            (Dictionary::Four(known), NonNullValues::Four(values)) => {
                known.intern(values, DICTIONARY_BYTES_MAX, codes)
            }
            (Dictionary::Eight(known), NonNullValues::Eight(values)) => {
                known.intern(values, DICTIONARY_BYTES_MAX, codes)
            }
            (Dictionary::Bytes(known), NonNullValues::Bytes(offsets, data)) => {
                known.intern(offsets, data, DICTIONARY_BYTES_MAX, codes)
            }
            (Dictionary::Fixed(width, known), NonNullValues::Fixed(_, bytes)) => {
                let numbers: Vec<u128> = bytes.chunks_exact(*width).map(number).collect();
                // A number takes 16 bytes here, and fewer in the page.
                known.intern(&numbers, DICTIONARY_BYTES_MAX / *width * FIXED_BYTES_MAX, codes)
            }
            _ => unreachable!("values and dictionary of a chunk have one layout"),
        }
    }

    /// Number of distinct values.
    pub fn len(&self) -> usize {
        match self {
            Dictionary::Four(known) => known.values().len(),
            Dictionary::Eight(known) => known.values().len(),
            Dictionary::Bytes(known) => known.len(),
            Dictionary::Fixed(_, known) => known.values().len(),
        }
    }

    /// Bytes of the dictionary page before compression.
    pub fn bytes(&self) -> usize {
        match self {
            Dictionary::Four(known) => size_of_val(known.values()),
            Dictionary::Eight(known) => size_of_val(known.values()),
            Dictionary::Bytes(known) => known.bytes(),
            Dictionary::Fixed(width, known) => known.values().len() * width,
        }
    }

    /// Memory it holds in bytes, including the hash table.
    pub fn held_bytes(&self) -> usize {
        match self {
            Dictionary::Four(known) => known.held_bytes(),
            Dictionary::Eight(known) => known.held_bytes(),
            Dictionary::Bytes(known) => known.held_bytes(),
            Dictionary::Fixed(_, known) => known.held_bytes(),
        }
    }

    /// Widens a range of statistics to the values with these codes.
    pub fn widen(&self, codes: &[u32], range: &mut ValueRange) {
        let mut is_used = vec![false; self.len()];
        codes.iter().for_each(|code| is_used[*code as usize] = true);
        match self {
            Dictionary::Four(known) => range.note_four(&used(known.values(), &is_used)),
            Dictionary::Eight(known) => range.note_eight(&used(known.values(), &is_used)),
            Dictionary::Bytes(known) => {
                let values = known.iter().zip(&is_used).filter(|(_, is_used)| **is_used);
                range.note_bytes(values.map(|(value, _)| value));
            }
            Dictionary::Fixed(width, known) => {
                let values = fixed(*width, &used(known.values(), &is_used));
                range.note_fixed(values.chunks_exact(*width));
            }
        }
    }

    /// The dictionary page, in plain encoding.
    pub fn into_page(self) -> Buffer {
        match self {
            Dictionary::Four(known) => Buffer::from_vec(known.into_values()),
            Dictionary::Eight(known) => Buffer::from_vec(known.into_values()),
            Dictionary::Bytes(known) => Buffer::from_vec(known.into_page()),
            Dictionary::Fixed(width, known) => Buffer::from_vec(fixed(width, known.values())),
        }
    }
}

/// A value of at most 16 bytes as a number.
fn number(value: &[u8]) -> u128 {
    leading(value) >> ((FIXED_BYTES_MAX - value.len()) * 8)
}

/// The last `width` bytes of each number.
fn fixed(width: usize, numbers: &[u128]) -> Vec<u8> {
    let bytes = numbers.iter().map(|number| number.to_be_bytes());
    bytes.flat_map(|bytes| bytes.into_iter().skip(FIXED_BYTES_MAX - width)).collect()
}

fn used<T: Copy>(values: &[T], is_used: &[bool]) -> Vec<T> {
    let values = values.iter().zip(is_used).filter(|(_, is_used)| **is_used);
    values.map(|(value, _)| *value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_pays_unless_three_in_four_values_are_new() {
        for (values, distinct, does) in
            [(0, 0, false), (1, 1, false), (2, 1, true), (4, 3, true), (32768, 24577, false)]
        {
            assert_eq!(pays(values, distinct), does, "{distinct} of {values}");
        }
    }

    #[test]
    fn dictionary_of_numbers_pays_uncompressed_unless_new_ones_keep_coming() {
        assert!(numbers_pay_uncompressed(16_384, 2048));
        assert!(!numbers_pay_uncompressed(16_384, 2049));
    }

    #[test]
    fn chunks_are_plain_for_a_while_after_a_dictionary_did_not_pay() {
        let mut trials = DictionaryTrials::default();
        let mut tried = vec![];
        for (values, coded, distinct) in
            [(100, 0, 0), (90_000, 50_000, 25_000), (90_000, 40_000, 9)]
        {
            tried.push(trials.tries());
            trials.note(values, coded, distinct);
        }
        for _ in 0..5 {
            tried.push(trials.tries());
            trials.note(90_000, if trials.tries() { 90_000 } else { 0 }, 50_000);
        }
        assert_eq!(tried, [true, true, true, false, false, false, true, false]);
    }

    #[test]
    fn sample_ends_early_if_the_dictionary_would_likely_not_pay() {
        for (values, distinct, is) in [(8191, 8191, false), (8192, 7680, false), (8192, 7681, true)]
        {
            assert_eq!(will_likely_not_pay(values, distinct), is, "{distinct} of {values}");
            assert!(!is || !pays(values, distinct));
        }
    }
}
