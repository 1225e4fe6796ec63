//! Chooses the layout of keys by the values of a batch: those that come first.
//!
//! It need not be right: values that it does not foresee escape (`key_layout`).

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_policy::key_bits::{BitShare, KeyBits, key_bit_shares};
use foldhash::{HashSet, HashSetExt};

use super::key_bits::mask;
use super::key_layout::{
    COLUMN_BITS, ColumnCode, KeyColumn, KeyLayout, PLACE_BITS, TEXT_BYTES_MAX, WideInt, range_bits,
    text_bits, word_bits,
};
use super::key_values::{
    BytesVisitor, KeyKind, NumberVisitor, visit_bytes, visit_numbers, without_dictionary,
};
use super::owned_keys::common_bytes;

/// The most words or numbers of a column that get codes of their own.
const WORDS_MAX: usize = 1024;
/// Bytes of all words of a column, as each process holds the layout.
const WORD_BYTES_MAX: usize = 128 << 10;
/// Rows for each word, at least: with fewer, later rows have other words.
const WORD_ROWS_MIN: usize = 8;
/// The longest common beginning, in bytes, as each process holds the layout: ties of what has a
/// longer one are refined.
const PREFIX_BYTES_MAX: usize = 256;
/// The fewest bits of a value that are worth a prefix.
const PREFIX_BITS_MIN: u32 = 8;

/// What is known of a column's values.
enum ColumnSurvey {
    Number {
        bits: u32,
        nullable: bool,
        /// The least and the greatest value, in the direction of the key.
        range: Option<(u128, u128)>,
        /// All values in the order of the key, if they are few.
        distinct: Option<Vec<u128>>,
    },
    Bytes {
        longest: usize,
        /// What all begin with.
        prefix: Vec<u8>,
        /// All values in the order of bytes, if they are few.
        words: Option<Vec<Vec<u8>>>,
    },
    Nested,
}

/// The layout for keys of these columns, by the values of a batch. `None` if the first column is of
/// nested values.
pub(super) fn survey(
    batch: &RecordBatch,
    columns: &[KeyColumn],
    nullable: &[bool],
) -> Result<Option<KeyLayout>> {
    let surveys = columns.iter().zip(nullable).map(|(key, nullable)| {
        let column = without_dictionary(batch.column(key.column))?;
        ColumnSurvey::of(&column, key.descending, *nullable)
    });
    let surveys: Vec<ColumnSurvey> = surveys.collect::<Result<_>>()?;
    let needs: Vec<KeyBits> = surveys.iter().map(ColumnSurvey::needs).collect();
    let shares = key_bit_shares(&needs, COLUMN_BITS);
    let codes = surveys.into_iter().zip(shares).map_while(|(survey, share)| match share {
        BitShare::Exact(bits) => Some(survey.exact(bits)),
        BitShare::Prefix(bits) => survey.prefix(bits),
        BitShare::Absent => None,
    });
    let codes: Vec<ColumnCode> = codes.collect();
    Ok((!codes.is_empty()).then(|| KeyLayout::adapted(codes, columns.len())))
}

impl ColumnSurvey {
    fn of(column: &ArrayRef, descending: bool, nullable: bool) -> Result<ColumnSurvey> {
        let nulls = column.logical_nulls();
        let nulls = nulls.as_ref();
        match KeyKind::of(column.data_type()) {
            KeyKind::Number(bits) => {
                let flip = if descending { mask(bits) } else { 0 };
                let (range, distinct) = visit_numbers(column, NumberSurvey { nulls, flip })?;
                Ok(ColumnSurvey::Number { bits, nullable, range, distinct })
            }
            KeyKind::Bytes => visit_bytes(column, TextSurvey { nulls }),
            KeyKind::Nested => Ok(ColumnSurvey::Nested),
        }
    }

    fn needs(&self) -> KeyBits {
        match self {
            ColumnSurvey::Number { bits, nullable, range, distinct } => {
                let most = bits + u32::from(*nullable);
                let by_value = distinct.as_ref().map_or(most, |all| word_bits(all.len()));
                KeyBits { least: Some(range_bits(span(*range)).min(by_value).min(most)), most }
            }
            ColumnSurvey::Bytes { longest, prefix, words } => {
                let bytes = [*longest, longest - prefix.len()];
                let texts = bytes.into_iter().filter(|bytes| *bytes <= TEXT_BYTES_MAX);
                let words = words.as_ref().map(|words| word_bits(words.len()));
                let text = texts.map(text_bits).min();
                let most = if text.is_some() { COLUMN_BITS } else { words.unwrap_or(0) };
                KeyBits { least: text.into_iter().chain(words).min(), most }
            }
            ColumnSurvey::Nested => KeyBits { least: None, most: 0 },
        }
    }

    /// A code of this number of bits, at least those it needs.
    fn exact(self, share: u32) -> ColumnCode {
        match self {
            ColumnSurvey::Number { bits, nullable, .. } if share >= bits + u32::from(nullable) => {
                ColumnCode::Full { bits, nullable }
            }
            ColumnSurvey::Number { range, distinct: Some(all), .. }
                if range_bits(span(range)) > share =>
            {
                ColumnCode::Numbers(all.into_iter().map(WideInt::new).collect())
            }
            ColumnSurvey::Number { bits, range, .. } => {
                // Below and above what was seen, equal numbers of other values.
                let (low, high) = range.unwrap_or((0, 0));
                let values = (1u128 << share) - 4;
                let spare = values - (high - low + 1);
                let low = low.saturating_sub(spare / 2).min(mask(bits) - (values - 1));
                ColumnCode::Range { low: WideInt::new(low), bits: share }
            }
            ColumnSurvey::Bytes { longest, prefix, words } => {
                let bytes = share.saturating_sub(text_bits(0)) / 8;
                let fits =
                    |longest: usize| longest <= TEXT_BYTES_MAX && text_bits(longest) <= share;
                match words {
                    _ if fits(longest) => ColumnCode::Text { prefix: vec![], bytes },
                    _ if fits(longest - prefix.len()) => ColumnCode::Text { prefix, bytes },
                    words => ColumnCode::Words(words.unwrap_or_default()),
                }
            }
            ColumnSurvey::Nested => unreachable!("no number of bits is enough"),
        }
    }

    /// A code for the first bits of the values; `None` if they are too few.
    fn prefix(self, share: u32) -> Option<ColumnCode> {
        let bits = share.checked_sub(PLACE_BITS).filter(|bits| *bits >= PREFIX_BITS_MIN)?;
        match self {
            ColumnSurvey::Number { range, .. } => {
                let (low, high) = range.unwrap_or((0, 0));
                let span_bits = u128::BITS - (high - low).leading_zeros();
                Some(ColumnCode::NumberPrefix { low: WideInt::new(low), span_bits, bits })
            }
            ColumnSurvey::Bytes { prefix, .. } => Some(ColumnCode::TextPrefix { prefix, bits }),
            ColumnSurvey::Nested => None,
        }
    }
}

/// How many numbers there are from the least to the greatest.
fn span(range: Option<(u128, u128)>) -> u128 {
    range.map_or(1, |(low, high)| (high - low).saturating_add(1))
}

/// How many distinct values of this number of rows get codes of their own.
fn words_max(rows: usize) -> usize {
    (rows / WORD_ROWS_MIN).min(WORDS_MAX)
}

/// Finds the least and the greatest value, and all values if they are few; each with `flip`
/// applied.
struct NumberSurvey<'a> {
    nulls: Option<&'a NullBuffer>,
    flip: u128,
}

impl NumberVisitor for NumberSurvey<'_> {
    type Output = (Option<(u128, u128)>, Option<Vec<u128>>);

    fn visit(self, values: impl ExactSizeIterator<Item = u128>) -> Self::Output {
        let words_max = words_max(values.len());
        let mut distinct: Option<HashSet<u128>> = Some(HashSet::new());
        let present = values
            .enumerate()
            .filter(|(row, _)| self.nulls.is_none_or(|nulls| nulls.is_valid(*row)))
            .map(|(_, value)| value ^ self.flip);
        let range = present.fold(None, |range, value| {
            if let Some(all) = &mut distinct {
                all.insert(value);
                distinct = distinct.take().filter(|all| all.len() <= words_max);
            }
            let (low, high) = range.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        });
        let distinct = distinct.map(|all| {
            let mut all: Vec<u128> = all.into_iter().collect();
            all.sort_unstable();
            all
        });
        (range, distinct)
    }
}

struct TextSurvey<'a> {
    nulls: Option<&'a NullBuffer>,
}

impl BytesVisitor for TextSurvey<'_> {
    type Output = ColumnSurvey;

    fn visit<'a>(self, values: impl ExactSizeIterator<Item = &'a [u8]>) -> ColumnSurvey {
        let (words_max, mut word_bytes) = (words_max(values.len()), 0);
        let (mut longest, mut prefix): (usize, Option<&[u8]>) = (0, None);
        let mut words: Option<HashSet<&[u8]>> = Some(HashSet::new());
        for (row, value) in values.enumerate() {
            if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            longest = longest.max(value.len());
            let known = prefix.unwrap_or(&value[..value.len().min(PREFIX_BYTES_MAX)]);
            let common = common_bytes(known, value);
            prefix = Some(&value[..common]);
            if let Some(all) = &mut words {
                word_bytes += if all.insert(value) { value.len() } else { 0 };
                words = words.filter(|all| all.len() <= words_max && word_bytes <= WORD_BYTES_MAX);
            }
        }
        let words = words.map(|words| {
            let mut words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
            words.sort_unstable();
            words
        });
        ColumnSurvey::Bytes { longest, prefix: prefix.unwrap_or_default().to_vec(), words }
    }
}
