//! Encodes the key columns of batches: the bits of all columns, and below them one that is set if
//! the key must be compared whole.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use foldhash::HashMap;

use super::key_bits::mask;
use super::key_layout::{
    ColumnCode, KeyColumn, KeyLayout, LENGTH_BITS, PLACE_BITS, WideInt, word_bits,
};
use super::key_values::{
    BytesVisitor, NumberVisitor, visit_bytes, visit_numbers, without_dictionary,
};

/// Where a text or a prefix lies; nulls have the first or the last code.
const BELOW: u128 = 1;
const WITHIN: u128 = 2;
const ABOVE: u128 = 3;

/// Encodes the columns of batches by one layout.
pub(super) struct ColumnsEncoder {
    pub(super) layout: KeyLayout,
    columns: Vec<KeyColumn>,
    tables: Vec<ValueCodes>,
}

/// The codes of a column's values, by value.
enum ValueCodes {
    Words(HashMap<Vec<u8>, u128>),
    Numbers(HashMap<u128, u128>),
    /// Codes are computed.
    Computed,
}

/// The keys of a batch, without row ids.
pub(super) struct ColumnKeys {
    pub(super) bits: Vec<u128>,
    /// Whether some must be compared whole.
    pub(super) any_tied: bool,
}

/// Whether a key with these bits must be compared whole with one that has the same.
pub(super) fn is_tied(bits: u128) -> bool {
    bits & 1 == 1
}

impl ColumnsEncoder {
    pub(super) fn new(layout: KeyLayout, columns: Vec<KeyColumn>) -> ColumnsEncoder {
        let tables = layout.codes().iter().map(ValueCodes::new).collect();
        ColumnsEncoder { layout, columns, tables }
    }

    /// The keys of a batch, in a buffer whose content is replaced.
    pub(super) fn encode(&self, batch: &RecordBatch, mut bits: Vec<u128>) -> Result<ColumnKeys> {
        bits.clear();
        bits.resize(batch.num_rows(), 0);
        let mut keys = PartialKeys { bits, escaped: vec![], has_escaped: vec![] };
        let codes = self.layout.codes().iter().zip(&self.columns).zip(&self.tables);
        for (number, ((code, key), table)) in codes.enumerate() {
            let column = without_dictionary(batch.column(key.column))?;
            let behind = self.layout.column_bits_behind(number + 1);
            let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            let place = ColumnPlace { key, nulls: nulls.as_ref(), behind };
            keys.push_column(&column, (code, table), place)?;
        }
        Ok(keys.finish(&self.layout))
    }
}

impl ValueCodes {
    fn new(code: &ColumnCode) -> ValueCodes {
        let codes = (1..).map(|number: u128| 2 * number);
        match code {
            ColumnCode::Words(words) => {
                ValueCodes::Words(words.iter().cloned().zip(codes).collect())
            }
            ColumnCode::Numbers(numbers) => {
                ValueCodes::Numbers(numbers.iter().map(|number| number.get()).zip(codes).collect())
            }
            _ => ValueCodes::Computed,
        }
    }
}

/// A column of keys.
#[derive(Clone, Copy)]
struct ColumnPlace<'a> {
    key: &'a KeyColumn,
    nulls: Option<&'a NullBuffer>,
    /// Bits of the columns behind it.
    behind: u32,
}

impl ColumnPlace<'_> {
    /// What reverses codes of this number of bits, if the column is descending.
    fn flip(&self, bits: u32) -> u128 {
        if self.key.descending { mask(bits) } else { 0 }
    }

    /// The code of nulls, the first or the last of this many bits.
    fn null(&self, bits: u32) -> u128 {
        if self.key.nulls_first { 0 } else { mask(bits) }
    }
}

/// The code of a value: exact, or of an escape, with the first bits of the value.
enum ValueCode {
    Exact(u128),
    /// The code itself, and the bits in place of those of the columns behind.
    Escape(u128, u128),
}

/// Keys whose first columns are encoded.
struct PartialKeys {
    bits: Vec<u128>,
    /// Rows whose value in some column escaped, with all bits of their keys.
    escaped: Vec<(usize, u128)>,
    /// By row; empty if none has escaped.
    has_escaped: Vec<bool>,
}

impl PartialKeys {
    fn push_column(
        &mut self,
        column: &ArrayRef,
        (code, table): (&ColumnCode, &ValueCodes),
        place: ColumnPlace,
    ) -> Result<()> {
        let keys = self;
        match code {
            ColumnCode::Numbers(sorted) => {
                let width = number_bits(column);
                visit_numbers(column, FewNumbers { keys, place, width, sorted, table })
            }
            ColumnCode::Full { bits, nullable } => {
                visit_numbers(column, FullNumbers { keys, place, bits: *bits, nullable: *nullable })
            }
            ColumnCode::Range { low, bits } => {
                let width = number_bits(column);
                visit_numbers(
                    column,
                    RangeNumbers { keys, place, width, low: low.get(), bits: *bits },
                )
            }
            ColumnCode::Words(words_sorted) => {
                let last = 2 * words_sorted.len() as u128 + 2;
                let code_of = |value: &[u8]| match table {
                    ValueCodes::Words(codes) => codes.get(value),
                    _ => None,
                };
                let of_word = |value: &[u8]| match code_of(value) {
                    Some(code) => {
                        ValueCode::Exact(if place.key.descending { last - code } else { *code })
                    }
                    None => {
                        let before = words_sorted.partition_point(|word| word[..] < *value);
                        let gap = 2 * before as u128 + 1;
                        let gap = if place.key.descending { last - gap } else { gap };
                        let rest = first_bits(value, place.behind) ^ place.flip(place.behind);
                        ValueCode::Escape(gap, rest)
                    }
                };
                let null = if place.key.nulls_first { 0 } else { last };
                let bits = word_bits(words_sorted.len());
                visit_bytes(column, CodedTexts { keys, place, bits, null, code: of_word })
            }
            ColumnCode::Text { prefix, bytes } => {
                let body = 8 * bytes + LENGTH_BITS;
                let code = text_code(prefix, *bytes, place);
                let null = place.null(PLACE_BITS) << body;
                visit_bytes(column, CodedTexts { keys, place, bits: PLACE_BITS + body, null, code })
            }
            ColumnCode::NumberPrefix { low, span_bits, bits } => {
                let width = number_bits(column);
                let (low, span_bits, bits) = (low.get(), *span_bits, *bits);
                visit_numbers(column, FirstOfNumbers { keys, place, width, low, span_bits, bits })
            }
            ColumnCode::TextPrefix { prefix, bits } => {
                let body = *bits;
                let code = |value: &[u8]| {
                    let (of, from) = place_of(value, prefix);
                    let of = if place.key.descending { 4 - of } else { of };
                    ValueCode::Exact(of << body | (first_bits(from, body) ^ place.flip(body)))
                };
                let null = place.null(PLACE_BITS) << body;
                visit_bytes(column, CodedTexts { keys, place, bits: PLACE_BITS + body, null, code })
            }
        }
    }

    /// Appends the codes of a column. All have `bits`.
    #[inline(always)]
    fn push(
        &mut self,
        (bits, null): (u32, u128),
        place: ColumnPlace,
        codes: impl Iterator<Item = ValueCode>,
    ) {
        let nulls = place.nulls;
        for (row, code) in codes.enumerate().take(self.bits.len()) {
            let key = &mut self.bits[row];
            *key <<= bits;
            match code {
                _ if nulls.is_some_and(|nulls| nulls.is_null(row)) => *key |= null,
                ValueCode::Exact(code) => *key |= code,
                ValueCode::Escape(code, rest) => {
                    *key |= code;
                    let whole = *key << place.behind | rest;
                    escape(row, whole, self.bits.len(), &mut self.escaped, &mut self.has_escaped);
                }
            }
        }
    }

    /// The keys, with the bit that marks ties if the layout has one.
    fn finish(self, layout: &KeyLayout) -> ColumnKeys {
        let PartialKeys { mut bits, escaped, .. } = self;
        if layout.may_tie() {
            let mark = u128::from(layout.is_cut());
            bits.iter_mut().for_each(|bits| *bits = *bits << 1 | mark);
        }
        for (row, whole) in &escaped {
            bits[*row] = whole << 1 | 1;
        }
        let any_tied = !bits.is_empty() && (layout.is_cut() || !escaped.is_empty());
        ColumnKeys { bits, any_tied }
    }
}

/// Notes that a row's value escaped, unless one of a column before it did.
#[cold]
fn escape(
    row: usize,
    whole: u128,
    rows: usize,
    escaped: &mut Vec<(usize, u128)>,
    has_escaped: &mut Vec<bool>,
) {
    has_escaped.resize(rows, false);
    if !std::mem::replace(&mut has_escaped[row], true) {
        escaped.push((row, whole));
    }
}

struct FullNumbers<'a> {
    keys: &'a mut PartialKeys,
    place: ColumnPlace<'a>,
    bits: u32,
    nullable: bool,
}

impl NumberVisitor for FullNumbers<'_> {
    type Output = ();

    fn visit(self, values: impl ExactSizeIterator<Item = u128>) {
        let FullNumbers { keys, place, bits, nullable } = self;
        let flip = place.flip(bits);
        if !nullable {
            return keys.push((bits, 0), place, values.map(|value| ValueCode::Exact(value ^ flip)));
        }
        let (null, present) = if place.key.nulls_first { (0, 1) } else { (1, 0) };
        let value = |value| ValueCode::Exact(present << bits | (value ^ flip));
        keys.push((bits + 1, null << bits), place, values.map(value));
    }
}

struct RangeNumbers<'a> {
    keys: &'a mut PartialKeys,
    place: ColumnPlace<'a>,
    /// Bits of the column's type.
    width: u32,
    low: u128,
    bits: u32,
}

impl NumberVisitor for RangeNumbers<'_> {
    type Output = ();

    fn visit(self, values: impl ExactSizeIterator<Item = u128>) {
        let RangeNumbers { keys, place, width, low, bits } = self;
        let (flip, last) = (place.flip(width), mask(bits));
        let code = |value: u128| {
            let value = value ^ flip;
            // If it is below, this wraps beyond all codes: the range ends within the type, so at
            // least as many numbers as there are codes are not below it.
            let above_low = value.wrapping_sub(low);
            match above_low <= last - 4 {
                true => ValueCode::Exact(above_low + 2),
                false => {
                    let code = if value < low { 1 } else { last - 1 };
                    ValueCode::Escape(code, scaled(value, width, place.behind))
                }
            }
        };
        keys.push((bits, place.null(bits)), place, values.map(code));
    }
}

struct FewNumbers<'a> {
    keys: &'a mut PartialKeys,
    place: ColumnPlace<'a>,
    width: u32,
    sorted: &'a [WideInt],
    table: &'a ValueCodes,
}

impl NumberVisitor for FewNumbers<'_> {
    type Output = ();

    fn visit(self, values: impl ExactSizeIterator<Item = u128>) {
        let FewNumbers { keys, place, width, sorted, table } = self;
        let ValueCodes::Numbers(codes) = table else { return };
        let flip = place.flip(width);
        let code = |value: u128| {
            let value = value ^ flip;
            match codes.get(&value) {
                Some(code) => ValueCode::Exact(*code),
                None => {
                    let before = sorted.partition_point(|number| number.get() < value);
                    let gap = 2 * before as u128 + 1;
                    ValueCode::Escape(gap, scaled(value, width, place.behind))
                }
            }
        };
        let null = if place.key.nulls_first { 0 } else { 2 * sorted.len() as u128 + 2 };
        keys.push((word_bits(sorted.len()), null), place, values.map(code));
    }
}

struct FirstOfNumbers<'a> {
    keys: &'a mut PartialKeys,
    place: ColumnPlace<'a>,
    width: u32,
    low: u128,
    span_bits: u32,
    bits: u32,
}

impl NumberVisitor for FirstOfNumbers<'_> {
    type Output = ();

    fn visit(self, values: impl ExactSizeIterator<Item = u128>) {
        let FirstOfNumbers { keys, place, width, low, span_bits, bits } = self;
        let flip = place.flip(width);
        let code = |value: u128| {
            let value = value ^ flip;
            let (of, body) = match value.checked_sub(low) {
                None => (BELOW, scaled(value, width, bits)),
                Some(above_low) if above_low <= mask(span_bits) => {
                    (WITHIN, scaled(above_low, span_bits, bits))
                }
                Some(_) => (ABOVE, scaled(value, width, bits)),
            };
            ValueCode::Exact(of << bits | body)
        };
        let null = place.null(PLACE_BITS) << bits;
        keys.push((PLACE_BITS + bits, null), place, values.map(code));
    }
}

/// A column of bytes, and the function that encodes them.
struct CodedTexts<'a, F> {
    keys: &'a mut PartialKeys,
    place: ColumnPlace<'a>,
    bits: u32,
    null: u128,
    code: F,
}

impl<F: Fn(&[u8]) -> ValueCode> BytesVisitor for CodedTexts<'_, F> {
    type Output = ();

    fn visit<'a>(self, values: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.keys.push((self.bits, self.null), self.place, values.map(self.code));
    }
}

/// Encodes texts behind `prefix` of at most `bytes`.
fn text_code(prefix: &[u8], bytes: u32, place: ColumnPlace) -> impl Fn(&[u8]) -> ValueCode {
    let body_bits = 8 * bytes + LENGTH_BITS;
    let flip = place.flip(body_bits);
    let (rest_bits, rest_flip) = (place.behind, place.flip(place.behind));
    let all_flip = place.flip(body_bits + rest_bits);
    let descending = place.key.descending;
    move |value: &[u8]| {
        let (of, from) = place_of(value, prefix);
        let of = (if descending { 4 - of } else { of }) << body_bits;
        if of == WITHIN << body_bits {
            let head = first_bits(from, 8 * bytes) << LENGTH_BITS;
            return match from.get(bytes as usize..).unwrap_or_default() {
                [] => ValueCode::Exact(of | ((head | from.len() as u128) ^ flip)),
                rest => {
                    let longer = u128::from(bytes) + 1;
                    let code = of | ((head | longer) ^ flip);
                    ValueCode::Escape(code, first_bits(rest, rest_bits) ^ rest_flip)
                }
            };
        }
        let all = first_bits(value, body_bits + rest_bits) ^ all_flip;
        ValueCode::Escape(of | all >> rest_bits, all & mask(rest_bits))
    }
}

/// Where a text lies, and the bytes that tell it from others there: those behind the prefix, or
/// all.
fn place_of<'a>(value: &'a [u8], prefix: &[u8]) -> (u128, &'a [u8]) {
    if prefix.is_empty() {
        return (WITHIN, value);
    }
    match value.strip_prefix(prefix) {
        Some(rest) => (WITHIN, rest),
        None if value < prefix => (BELOW, value),
        None => (ABOVE, value),
    }
}

/// The first bits of a text, at most 96; zeros stand behind its end.
#[inline(always)]
fn first_bits(text: &[u8], bits: u32) -> u128 {
    let whole = match text.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first[..text.len()].copy_from_slice(text);
            u128::from_be_bytes(first)
        }
    };
    // A shift by all bits is none.
    if bits == 0 { 0 } else { whole >> (u128::BITS - bits) }
}

/// The first `bits` of an integer of `width` bits; zeros stand behind its end.
fn scaled(value: u128, width: u32, bits: u32) -> u128 {
    match bits.checked_sub(width) {
        Some(more) => value << more,
        None => value.checked_shr(width - bits).unwrap_or(0),
    }
}

fn number_bits(column: &ArrayRef) -> u32 {
    super::key_bits::key_bits(column.data_type()).expect("a code of numbers is of such a column")
}
