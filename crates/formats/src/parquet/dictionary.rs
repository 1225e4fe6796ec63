//! The distinct values of a column chunk, and whether they are worth a dictionary.

use arrow::buffer::Buffer;

use super::interner::{Numbers, Strings};
use super::statistics::Range;
use super::values::{Layout, Values};

/// The most bytes of a dictionary page: a reader keeps it in a cache.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Values after which it is decided whether there is a dictionary.
pub const SAMPLE_VALUES: usize = 32 << 10;

/// Whether a dictionary pays, seen from the first values of a chunk. Where three in four are new,
/// it saves next to nothing and costs readers a look-up for each.
pub fn pays(values: usize, distinct: usize) -> bool {
    values > 0 && distinct * 4 <= values * 3
}

/// The fewest values that show that a dictionary will not pay.
const GLIMPSE_VALUES: usize = 8 << 10;

/// Whether the sample can end early. So many values are new this soon where more than three in four
/// will be at its end, if values are spread evenly.
pub fn is_hopeless(values: usize, distinct: usize) -> bool {
    values >= GLIMPSE_VALUES && distinct * 16 > values * 15
}

/// A dictionary in the making.
pub enum Dictionary {
    /// Numbers of four bytes.
    Four(Numbers<u32>),
    /// Numbers of eight bytes.
    Eight(Numbers<u64>),
    /// Byte strings.
    Bytes(Strings),
}

impl Dictionary {
    /// An empty one; `None` for values that are always written plainly.
    pub fn new(layout: Layout) -> Option<Dictionary> {
        match layout {
            Layout::Four => Some(Dictionary::Four(Numbers::new())),
            Layout::Eight => Some(Dictionary::Eight(Numbers::new())),
            Layout::Bytes => Some(Dictionary::Bytes(Strings::new())),
            Layout::Fixed(_) => None,
        }
    }

    /// Appends the codes of values, up to the first that does not fit in; returns how many.
    pub fn intern(&mut self, values: &Values, codes: &mut Vec<u32>) -> usize {
        match (self, values) {
            (Dictionary::Four(known), Values::Four(values)) => {
                known.intern(values, DICTIONARY_BYTES_MAX, codes)
            }
            (Dictionary::Eight(known), Values::Eight(values)) => {
                known.intern(values, DICTIONARY_BYTES_MAX, codes)
            }
            (Dictionary::Bytes(known), Values::Bytes(offsets, data)) => {
                known.intern(offsets, data, DICTIONARY_BYTES_MAX, codes)
            }
            _ => unreachable!("values and dictionary of a chunk have one layout"),
        }
    }

    /// How many distinct values there are.
    pub fn len(&self) -> usize {
        match self {
            Dictionary::Four(known) => known.values().len(),
            Dictionary::Eight(known) => known.values().len(),
            Dictionary::Bytes(known) => known.len(),
        }
    }

    /// The bytes of its page.
    pub fn bytes(&self) -> usize {
        match self {
            Dictionary::Four(known) => size_of_val(known.values()),
            Dictionary::Eight(known) => size_of_val(known.values()),
            Dictionary::Bytes(known) => known.bytes(),
        }
    }

    /// The bytes it takes in memory.
    pub fn held_bytes(&self) -> usize {
        match self {
            Dictionary::Four(known) => known.held_bytes(),
            Dictionary::Eight(known) => known.held_bytes(),
            Dictionary::Bytes(known) => known.held_bytes(),
        }
    }

    /// Widens a range to all values.
    pub fn note(&self, range: &mut Range) {
        match self {
            Dictionary::Four(known) => range.note_four(known.values()),
            Dictionary::Eight(known) => range.note_eight(known.values()),
            Dictionary::Bytes(known) => range.note_bytes(known.iter()),
        }
    }

    /// Its page.
    pub fn into_page(self) -> Buffer {
        match self {
            Dictionary::Four(known) => Buffer::from_vec(known.into_values()),
            Dictionary::Eight(known) => Buffer::from_vec(known.into_values()),
            Dictionary::Bytes(known) => Buffer::from_vec(known.into_page()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_pays_unless_three_in_four_values_are_new() {
        for (values, distinct, does) in
            [(0, 0, false), (1, 1, false), (2, 1, true), (4, 3, true), (32768, 24577, false)]
        {
            assert_eq!(pays(values, distinct), does, "{distinct} of {values}");
        }
    }

    #[test]
    fn a_sample_ends_early_only_where_its_end_is_foreseen() {
        for (values, distinct, is) in [(8191, 8191, false), (8192, 7680, false), (8192, 7681, true)]
        {
            assert_eq!(is_hopeless(values, distinct), is, "{distinct} of {values}");
            assert!(!is || !pays(values, distinct));
        }
    }
}
