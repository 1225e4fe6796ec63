//! Computes the statistics of column chunks and pages, minimum and maximum, as the `parquet` crate
//! does; readers skip row groups and pages by them.

use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use parquet::basic::{LogicalType, Type};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescriptor;

use super::values::{NonNullValues, leading};
use super::write::page_index::PageBounds;

/// Longer values of a fixed size get no minimum and maximum, to keep footers small.
const FIXED_BYTES_MAX: usize = 256;

/// Longer strings are truncated to a bound, which serves as well.
const STRING_BYTES_MAX: usize = 64;

/// Bytes kept of a string: enough to truncate it after a character, and all of a value of a fixed
/// size.
const KEPT_BYTES: usize = FIXED_BYTES_MAX + 4;

/// How the bits of a number compare.
#[derive(Clone, Copy, Debug)]
enum NumberOrder {
    Signed,
    Unsigned,
    Float,
}

/// The minimum and maximum so far.
pub struct ValueRange {
    order: NumberOrder,
    /// Numbers, mapped to unsigned ones of the same order; the range is empty while `least` is
    /// above `greatest`.
    least: u64,
    greatest: u64,
    /// The first `KEPT_BYTES` of the least and the greatest string. The sign bits of decimals are
    /// inverted, so that they are in the order of their bytes.
    strings: Option<(Vec<u8>, Vec<u8>)>,
    is_decimal: bool,
}

const SIGN_FOUR: u32 = 1 << 31;
const SIGN_EIGHT: u64 = 1 << 63;
const SIGN_SIXTEEN: u128 = 1 << 127;

impl ValueRange {
    /// An empty range for values of this type.
    pub fn new(kind: &DataType) -> ValueRange {
        use DataType::*;
        let order = match kind {
            Float32 | Float64 => NumberOrder::Float,
            Boolean | UInt8 | UInt16 | UInt32 | UInt64 => NumberOrder::Unsigned,
            _ => NumberOrder::Signed,
        };
        let is_decimal = matches!(kind, Decimal128(..));
        ValueRange { order, least: u64::MAX, greatest: 0, strings: None, is_decimal }
    }

    /// Widens the range to these values.
    pub fn note(&mut self, values: &NonNullValues) {
        match values {
            NonNullValues::Bits(values) => self.note_bits(values),
            NonNullValues::Four(values) => self.note_four(values),
            NonNullValues::Eight(values) => self.note_eight(values),
            NonNullValues::Bytes(offsets, data) => {
                let ends = offsets.windows(2);
                self.note_bytes(ends.map(|ends| &data[ends[0] as usize..ends[1] as usize]));
            }
            NonNullValues::Fixed(width, bytes) if *width <= FIXED_BYTES_MAX => {
                self.note_fixed(bytes.chunks_exact(*width));
            }
            NonNullValues::Fixed(..) => {}
        }
    }

    fn note_bits(&mut self, values: &BooleanBuffer) {
        let set = values.count_set_bits();
        let keys = [(set < values.len()).then_some(0), (set > 0).then_some(1)];
        self.note_keys(keys.into_iter().flatten());
    }

    /// Widens the range to 4-byte numbers; NaN is left out.
    pub fn note_four(&mut self, values: &[u32]) {
        let signed = |value: u32| value as i32;
        let (least, greatest) = match self.order {
            NumberOrder::Signed => {
                let ends = (i32::MAX as u32, i32::MIN as u32);
                widest(values, ends, |one, other| signed(one) < signed(other))
            }
            NumberOrder::Unsigned => widest(values, (u32::MAX, 0), |one, other| one < other),
            NumberOrder::Float => {
                let ends = (f32::INFINITY.to_bits(), f32::NEG_INFINITY.to_bits());
                let (least, greatest) =
                    widest(values, ends, |one, other| f32::from_bits(one) < f32::from_bits(other));
                // Only if all are NaN.
                if f32::from_bits(least) > f32::from_bits(greatest) {
                    return;
                }
                (least, greatest)
            }
        };
        let key = |value: u32| match (self.order, value & SIGN_FOUR) {
            (NumberOrder::Signed, _) => (value ^ SIGN_FOUR).into(),
            (NumberOrder::Unsigned, _) => value.into(),
            (NumberOrder::Float, 0) => (value | SIGN_FOUR).into(),
            (NumberOrder::Float, _) => (!value).into(),
        };
        self.note_ends(values.is_empty(), key(least), key(greatest));
    }

    /// Widens the range to 8-byte numbers; NaN is left out.
    pub fn note_eight(&mut self, values: &[u64]) {
        let signed = |value: u64| value as i64;
        let (least, greatest) = match self.order {
            NumberOrder::Signed => {
                let ends = (i64::MAX as u64, i64::MIN as u64);
                widest(values, ends, |one, other| signed(one) < signed(other))
            }
            NumberOrder::Unsigned => widest(values, (u64::MAX, 0), |one, other| one < other),
            NumberOrder::Float => {
                let ends = (f64::INFINITY.to_bits(), f64::NEG_INFINITY.to_bits());
                let (least, greatest) =
                    widest(values, ends, |one, other| f64::from_bits(one) < f64::from_bits(other));
                if f64::from_bits(least) > f64::from_bits(greatest) {
                    return;
                }
                (least, greatest)
            }
        };
        let key = |value: u64| match (self.order, value & SIGN_EIGHT) {
            (NumberOrder::Signed, _) => value ^ SIGN_EIGHT,
            (NumberOrder::Unsigned, _) => value,
            (NumberOrder::Float, 0) => value | SIGN_EIGHT,
            (NumberOrder::Float, _) => !value,
        };
        self.note_ends(values.is_empty(), key(least), key(greatest));
    }

    fn note_ends(&mut self, is_empty: bool, least: u64, greatest: u64) {
        if !is_empty {
            self.note_keys([least, greatest].into_iter());
        }
    }

    fn note_keys(&mut self, keys: impl Iterator<Item = u64>) {
        let range = (self.least, self.greatest);
        let wider = |(least, greatest): (u64, u64), key: u64| (least.min(key), greatest.max(key));
        (self.least, self.greatest) = keys.fold(range, wider);
    }

    /// Widens the range to values of a fixed size: byte strings, or decimals of at most 16 bytes.
    pub fn note_fixed<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) {
        if !self.is_decimal {
            return self.note_bytes(values);
        }
        let mut width = 0;
        let key = |value: &[u8]| {
            width = value.len();
            leading(value) ^ SIGN_SIXTEEN
        };
        let wider =
            |(least, greatest): (u128, u128), key: u128| (least.min(key), greatest.max(key));
        let (least, greatest) = values.map(key).fold((u128::MAX, 0), wider);
        if least <= greatest {
            let ends = [least, greatest].map(|key| key.to_be_bytes());
            self.note_bytes(ends.iter().map(|key| &key[..width]));
        }
    }

    /// The least and the greatest string, as they are stored.
    fn stored_strings(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let stored = |mut value: Vec<u8>| {
            if let (true, Some(first)) = (self.is_decimal, value.first_mut()) {
                *first ^= 1 << 7;
            }
            value
        };
        self.strings.map(|(least, greatest)| (stored(least), stored(greatest))).unzip()
    }

    /// Widens the range to byte strings, compared by unsigned bytes.
    pub fn note_bytes<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) {
        let mut values = values.peekable();
        let Some(&first) = values.peek() else { return };
        let (mut least, mut greatest) = match &self.strings {
            Some((least, greatest)) => (&least[..], &greatest[..]),
            None => (first, first),
        };
        // The first eight bytes decide most comparisons.
        let (mut least_head, mut greatest_head) = (head(least), head(greatest));
        for value in values {
            let value_head = head(value);
            if value_head <= least_head && value < least {
                (least, least_head) = (value, value_head);
            }
            if value_head >= greatest_head && value > greatest {
                (greatest, greatest_head) = (value, value_head);
            }
        }
        let kept = |value: &[u8]| value[..value.len().min(KEPT_BYTES)].to_vec();
        self.strings = Some((kept(least), kept(greatest)));
    }

    /// Widens the range to another.
    pub fn merge(&mut self, other: &ValueRange) {
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        if let Some((least, greatest)) = &other.strings {
            self.note_bytes([&least[..], &greatest[..]].into_iter());
        }
    }

    /// The bounds for the column index of a page that has values.
    pub fn page_bounds(self, descr: &ColumnDescriptor) -> PageBounds {
        let numbers = [self.least, self.greatest].map(|key| key.to_be_bytes().to_vec());
        let decimals = self.strings.clone().filter(|_| self.is_decimal);
        let statistics = self.statistics(descr, 0);
        let bounds = (statistics.min_bytes_opt(), statistics.max_bytes_opt());
        let (Some(least), Some(greatest)) = bounds else { return PageBounds::Unknown };
        let (mut least, mut greatest) = (least.to_vec(), greatest.to_vec());
        match descr.physical_type() {
            Type::BYTE_ARRAY => {}
            Type::FIXED_LEN_BYTE_ARRAY => {
                least = lower_bound(&least, false).unwrap_or(least);
                greatest = upper_bound(&greatest, false).unwrap_or(greatest);
            }
            _ => return PageBounds::Known { stored: [least, greatest], ordered: numbers },
        }
        let stored = [least, greatest];
        let ordered =
            decimals.map_or_else(|| stored.clone(), |(least, greatest)| [least, greatest]);
        PageBounds::Known { ordered, stored }
    }

    /// The statistics for the footer. Bounds of truncated strings are marked as inexact.
    pub fn statistics(self, descr: &ColumnDescriptor, nulls: usize) -> Statistics {
        match descr.physical_type() {
            Type::BOOLEAN => self.numbers(descr, nulls, |key, _| key == 1),
            Type::INT32 => self.numbers(descr, nulls, |key, order| match order {
                NumberOrder::Signed => (key as u32 ^ SIGN_FOUR) as i32,
                _ => key as i32,
            }),
            Type::INT64 => self.numbers(descr, nulls, |key, order| match order {
                NumberOrder::Signed => (key ^ SIGN_EIGHT) as i64,
                _ => key as i64,
            }),
            Type::FLOAT => self.zeros(descr, nulls, |key| {
                let key = key as u32;
                f32::from_bits(if key & SIGN_FOUR > 0 { key ^ SIGN_FOUR } else { !key })
            }),
            Type::DOUBLE => self.zeros(descr, nulls, |key| {
                f64::from_bits(if key & SIGN_EIGHT > 0 { key ^ SIGN_EIGHT } else { !key })
            }),
            Type::BYTE_ARRAY => self.cut_strings(descr, nulls),
            _ => {
                let value = |bytes: Vec<u8>| FixedLenByteArray::from(ByteArray::from(bytes));
                let (least, greatest) = self.stored_strings();
                noted(least.map(value), greatest.map(value), descr, nulls)
            }
        }
    }

    fn numbers<T>(
        &self,
        descr: &ColumnDescriptor,
        nulls: usize,
        value: impl Fn(u64, NumberOrder) -> T,
    ) -> Statistics
    where
        Statistics: From<ValueStatistics<T>>,
    {
        let is_some = self.least <= self.greatest;
        let some = |key| is_some.then(|| value(key, self.order));
        noted(some(self.least), some(self.greatest), descr, nulls)
    }

    /// Statistics of floats: a minimum of zero becomes -0.0 and a maximum 0.0, so that the range
    /// holds both zeros.
    fn zeros<T: PartialEq + From<i8> + std::ops::Neg<Output = T>>(
        &self,
        descr: &ColumnDescriptor,
        nulls: usize,
        value: impl Fn(u64) -> T,
    ) -> Statistics
    where
        Statistics: From<ValueStatistics<T>>,
    {
        let is_some = self.least <= self.greatest;
        let some = |key, zero: T| {
            let value = is_some.then(|| value(key));
            value.map(|value| if value == T::from(0) { zero } else { value })
        };
        let (least, greatest) = (some(self.least, -T::from(0)), some(self.greatest, T::from(0)));
        noted(least, greatest, descr, nulls)
    }

    fn cut_strings(self, descr: &ColumnDescriptor, nulls: usize) -> Statistics {
        let Some((least, greatest)) = self.strings else {
            return noted::<ByteArray>(None, None, descr, nulls);
        };
        let is_text = descr.logical_type_ref() == Some(&LogicalType::String);
        let (lower, upper) = (lower_bound(&least, is_text), upper_bound(&greatest, is_text));
        // Where there is no shorter bound, the value itself is used, unless it was truncated.
        let is_whole = |value: &Vec<u8>| value.len() < KEPT_BYTES;
        let (least, greatest) = (Some(least).filter(is_whole), Some(greatest).filter(is_whole));
        let is_least = lower.is_none() && least.is_some();
        let is_greatest = upper.is_none() && greatest.is_some();
        let (lower, upper) = (lower.or(least), upper.or(greatest));
        let (lower, upper) = (lower.map(ByteArray::from), upper.map(ByteArray::from));
        ValueStatistics::new(lower, upper, None, Some(nulls as u64), false)
            .with_min_is_exact(is_least)
            .with_max_is_exact(is_greatest)
            .into()
    }
}

/// The least and the greatest of these values and of two others, with vector instructions where the
/// processor has them for all types.
fn widest<T: Copy>(values: &[T], ends: (T, T), is_less: impl Fn(T, T) -> bool + Copy) -> (T, T) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        return unsafe { widest_avx2(values, ends, is_less) };
    }
    widest_by_lanes(values, ends, is_less)
}

/// Without 256-bit instructions, comparing eight-byte integers takes several.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn widest_avx2<T: Copy>(
    values: &[T],
    ends: (T, T),
    is_less: impl Fn(T, T) -> bool + Copy,
) -> (T, T) {
    widest_by_lanes(values, ends, is_less)
}

/// Keeps the ends of each lane apart, so that no comparison waits for the one before.
#[inline(always)]
fn widest_by_lanes<T: Copy>(
    values: &[T],
    (least, greatest): (T, T),
    is_less: impl Fn(T, T) -> bool + Copy,
) -> (T, T) {
    const LANES: usize = 16;
    let lesser = |one: T, other: T| if is_less(one, other) { one } else { other };
    let greater = |one: T, other: T| if is_less(other, one) { one } else { other };
    let (mut lows, mut highs) = ([least; LANES], [greatest; LANES]);
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lows[lane] = lesser(block[lane], lows[lane]);
            highs[lane] = greater(block[lane], highs[lane]);
        }
    }
    let low = lows.iter().chain(rest).fold(least, |low, value| lesser(*value, low));
    let high = highs.iter().chain(rest).fold(greatest, |high, value| greater(*value, high));
    (low, high)
}

fn noted<T>(
    least: Option<T>,
    greatest: Option<T>,
    descr: &ColumnDescriptor,
    nulls: usize,
) -> Statistics
where
    Statistics: From<ValueStatistics<T>>,
{
    ValueStatistics::new(least, greatest, None, Some(nulls as u64), false)
        .with_backwards_compatible_min_max(descr.sort_order().is_signed())
        .into()
}

/// The first eight bytes of a string as a number of the same order.
fn head(value: &[u8]) -> u64 {
    if let Some(head) = value.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..value.len()].copy_from_slice(value);
    u64::from_be_bytes(head)
}

/// A short string that is not above the value; `None` if the value is short.
fn lower_bound(value: &[u8], is_text: bool) -> Option<Vec<u8>> {
    (value.len() > STRING_BYTES_MAX).then_some(())?;
    match text(value, is_text) {
        Some(text) => {
            let end = (1..=STRING_BYTES_MAX).rfind(|end| text.is_char_boundary(*end))?;
            Some(value[..end].to_vec())
        }
        None => Some(value[..STRING_BYTES_MAX].to_vec()),
    }
}

/// A short string that is above the value; `None` if there is none or the value is short.
fn upper_bound(value: &[u8], is_text: bool) -> Option<Vec<u8>> {
    (value.len() > STRING_BYTES_MAX).then_some(())?;
    let Some(text) = text(value, is_text) else {
        let last = value[..STRING_BYTES_MAX].iter().rposition(|byte| *byte < u8::MAX)?;
        let mut bound = value[..STRING_BYTES_MAX].to_vec();
        bound[last] += 1;
        bound[last + 1..].fill(0);
        return Some(bound);
    };
    let ends = STRING_BYTES_MAX - 3..=STRING_BYTES_MAX;
    let text = &text[..ends.rev().find(|end| text.is_char_boundary(*end))?];
    // The last character whose successor has the same number of bytes.
    text.char_indices().rev().find_map(|(at, last)| {
        let next = char::from_u32(last as u32 + 1)?;
        (next.len_utf8() == last.len_utf8()).then(|| format!("{}{next}", &text[..at]).into_bytes())
    })
}

/// The complete characters of a text, which may be truncated within the last one; `None` if it is
/// not text.
fn text(value: &[u8], is_text: bool) -> Option<&str> {
    let whole = || match str::from_utf8(value) {
        Ok(text) => Some(text),
        Err(cut) if cut.error_len().is_none() => str::from_utf8(&value[..cut.valid_up_to()]).ok(),
        Err(_) => None,
    };
    is_text.then(whole).flatten()
}
