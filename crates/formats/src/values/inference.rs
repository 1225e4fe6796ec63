//! Infers the type of a column from a sample of its texts.
//!
//! | seen | type |
//! |---|---|
//! | `true`, `false` in any case | bool |
//! | whole numbers | int64; uint64 if one is at least 2^63 and none is negative |
//! | the same, one at least 2^63 and one negative | Decimal128(20, 0) |
//! | also fractions or exponents, `inf`, `infinity`, `nan` in any case | float64 |
//! | whole numbers beyond 64 bits | text |
//! | dates | date |
//! | also times of day | timestamp of microseconds; nanoseconds if one is that fine |
//! | times with a zone or `Z` | the same, in UTC |
//! | times of day with seconds | time of microseconds; nanoseconds if one is that fine |
//! | anything else, and mixtures | text |
//!
//! A text that has the form of a date or a time and is none (`2024-02-30`) is text. So is a number
//! that would lose characters (`007`, `+49`). Blanks around a number do not count.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{DataType, Date32Type, TimeUnit};

/// Number of records of a sample that inference examines.
pub const SAMPLE_RECORDS: usize = 4096;

/// The narrowest kind of value that a column has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferredKind {
    /// No value so far.
    Nothing,
    /// Empty texts only, which any type can hold as nulls.
    Empty,
    /// `true` or `false` only.
    Bool,
    /// Integers of up to 64 bits only.
    Whole {
        /// Whether one is negative.
        negative: bool,
        /// Whether one exceeds the largest int64.
        large: bool,
    },
    /// Numbers with a fraction or an exponent, or integers among such.
    Float,
    /// Dates without a time of day.
    Date,
    /// Times of day.
    Clock {
        /// Whether one is finer than microseconds.
        fine: bool,
    },
    /// Timestamps, or dates among such.
    Time {
        /// Whether one is finer than microseconds.
        fine: bool,
        /// Whether they have a zone.
        zone: bool,
    },
    /// Any other text, or a mixture.
    Text,
}

impl InferredKind {
    /// The kind of one text.
    pub fn of(text: &str) -> InferredKind {
        let bytes = text.as_bytes();
        if let [b' ', ..] | [.., b' '] = bytes {
            let kind = InferredKind::of(text.trim_ascii());
            let is_number = matches!(kind, InferredKind::Whole { .. } | InferredKind::Float);
            return if is_number { kind } else { InferredKind::Text };
        }
        match bytes.first() {
            Some(b'0'..=b'9' | b'-' | b'.') if !is_word_number(text) => {
                number(text).or_else(|| time(bytes)).or_else(|| clock(bytes))
            }
            Some(b'+' | b'-' | b'i' | b'I' | b'n' | b'N') => {
                is_word_number(text).then_some(InferredKind::Float)
            }
            Some(b't' | b'T' | b'f' | b'F') => ["true", "false"]
                .iter()
                .any(|word| text.eq_ignore_ascii_case(word))
                .then_some(InferredKind::Bool),
            _ => None,
        }
        .unwrap_or(InferredKind::Text)
    }

    /// The kind of value that a type holds; `Text` for types that are not inferred.
    pub fn of_type(data_type: &DataType) -> InferredKind {
        use DataType::*;
        match data_type {
            Boolean => InferredKind::Bool,
            Int8 | Int16 | Int32 | Int64 => InferredKind::Whole { negative: true, large: false },
            UInt8 | UInt16 | UInt32 => InferredKind::Whole { negative: false, large: false },
            UInt64 => InferredKind::Whole { negative: false, large: true },
            Float16 | Float32 | Float64 => InferredKind::Float,
            Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => InferredKind::Float,
            Date32 => InferredKind::Date,
            Time32(_) => InferredKind::Clock { fine: false },
            Time64(unit) => InferredKind::Clock { fine: *unit == TimeUnit::Nanosecond },
            Timestamp(unit, zone) => {
                InferredKind::Time { fine: *unit == TimeUnit::Nanosecond, zone: zone.is_some() }
            }
            _ => InferredKind::Text,
        }
    }

    /// The narrowest kind that holds the values of both.
    pub fn and(self, other: InferredKind) -> InferredKind {
        use InferredKind::*;
        match (self, other) {
            (one, other) if one == other => one,
            (Nothing, other) | (other, Nothing) => other,
            (Empty, other) | (other, Empty) => other,
            (Whole { negative: a, large: b }, Whole { negative: c, large: d }) => {
                Whole { negative: a || c, large: b || d }
            }
            (Whole { .. }, Float) | (Float, Whole { .. }) => Float,
            (Clock { fine: a }, Clock { fine: b }) => Clock { fine: a || b },
            (Date, Time { fine, zone: false }) | (Time { fine, zone: false }, Date) => {
                Time { fine, zone: false }
            }
            (Time { fine: a, zone }, Time { fine: b, zone: other }) if zone == other => {
                Time { fine: a || b, zone }
            }
            _ => Text,
        }
    }

    /// The type to read the column with.
    pub fn data_type(self) -> DataType {
        match self {
            InferredKind::Nothing => DataType::Null,
            InferredKind::Bool => DataType::Boolean,
            InferredKind::Whole { large: false, .. } => DataType::Int64,
            InferredKind::Whole { negative: false, .. } => DataType::UInt64,
            InferredKind::Whole { .. } => DataType::Decimal128(20, 0),
            InferredKind::Float => DataType::Float64,
            InferredKind::Date => DataType::Date32,
            InferredKind::Clock { fine } => DataType::Time64(unit(fine)),
            InferredKind::Time { fine, zone } => {
                DataType::Timestamp(unit(fine), zone.then(|| "UTC".into()))
            }
            InferredKind::Empty | InferredKind::Text => DataType::Utf8,
        }
    }

    /// The name of that type in the option `types`.
    pub fn name(self) -> &'static str {
        match self {
            InferredKind::Bool => "bool",
            InferredKind::Whole { large: false, .. } => "int64",
            InferredKind::Whole { negative: false, .. } => "uint64",
            InferredKind::Whole { .. } => "Decimal128(20, 0)",
            InferredKind::Float => "float64",
            InferredKind::Date => "date",
            InferredKind::Clock { fine: true } => "Time64(ns)",
            InferredKind::Clock { .. } => "time",
            InferredKind::Time { zone: true, .. } => "timestamptz",
            InferredKind::Time { fine: true, .. } => "timestamp_ns",
            InferredKind::Time { .. } => "timestamp",
            InferredKind::Nothing | InferredKind::Empty | InferredKind::Text => "string",
        }
    }
}

fn unit(fine: bool) -> TimeUnit {
    if fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond }
}

/// Whether a text parses as a number and would lose characters: zeros in front, a plus, digits
/// beyond 64 bits.
pub fn is_code(text: &str) -> bool {
    let text = text.trim_ascii();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.as_bytes() {
        [b'+', b'0'..=b'9' | b'.', ..] => true,
        [b'0', b'0'..=b'9', ..] => is_digits(unsigned),
        digits => digits.len() > 19 && is_digits(unsigned) && text.parse::<u64>().is_err(),
    }
}

/// Whether the text is infinity or NaN as a word, in any case, with or without a sign.
pub fn is_word_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let words = ["inf", "infinity", "nan"];
    words.iter().any(|word| unsigned.eq_ignore_ascii_case(word))
}

fn number(text: &str) -> Option<InferredKind> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, Some(exponent)),
        None => (text, None),
    };
    let is_number = |digits: &str| !digits.is_empty() && is_digits(digits);
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (unsigned, None),
    };
    let exponent_fits = exponent
        .is_none_or(|exponent| is_number(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    let fraction_fits = fraction.is_none_or(is_digits);
    let some_digit = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    if !(is_digits(whole) && fraction_fits && exponent_fits && some_digit) {
        return None;
    }
    if exponent.is_some() || fraction.is_some() {
        // A number that a double cannot hold stays text.
        let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        return Some(if is_finite { InferredKind::Float } else { InferredKind::Text });
    }
    // As a number it would lose its zeros, which codes have.
    if whole.len() > 1 && whole.starts_with('0') {
        return Some(InferredKind::Text);
    }
    let negative = digits.len() > unsigned.len();
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(_), _) => Some(InferredKind::Whole { negative, large: false }),
        (_, Ok(_)) => Some(InferredKind::Whole { negative, large: true }),
        _ => Some(InferredKind::Text),
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The kind of a date or timestamp: `2024-01-02`, `2024-01-02T03:04:05.678+02:00`.
fn time(text: &[u8]) -> Option<InferredKind> {
    let (date, rest) = text.split_at_checked(10)?;
    if !like(date, b"0000-00-00") || Date32Type::parse(str::from_utf8(date).ok()?).is_none() {
        return None;
    }
    let Some((between, rest)) = rest.split_first() else { return Some(InferredKind::Date) };
    if !matches!(between, b'T' | b' ') {
        return None;
    }
    let (digits, rest) = split_clock(rest)?;
    let zone = match rest {
        b"" => false,
        b"Z" => true,
        [b'+' | b'-', zone @ ..] => {
            let is_zone = like(zone, b"00:00") || like(zone, b"0000") || like(zone, b"00");
            // A zone's offset from UTC is less than a day.
            if !is_zone || zone[..2] >= b"24"[..] || zone[zone.len() - 2..] >= b"60"[..] {
                return None;
            }
            true
        }
        _ => return None,
    };
    Some(InferredKind::Time { fine: digits > 6, zone })
}

/// The kind of a time of day: `03:04:05.678`.
fn clock(text: &[u8]) -> Option<InferredKind> {
    let (digits, rest) = split_clock(text)?;
    rest.is_empty().then_some(InferredKind::Clock { fine: digits > 6 })
}

/// The digits of the fraction of a clock with seconds, and what is behind it.
fn split_clock(text: &[u8]) -> Option<(usize, &[u8])> {
    let (time, rest) = text.split_at_checked(8)?;
    // A leap second is not accepted: 23:59:60 would become the next day.
    let is_clock = like(time, b"00:00:00")
        && time[..2] < b"24"[..]
        && time[3..5] < b"60"[..]
        && time[6..] < b"60"[..];
    is_clock.then_some(())?;
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=9).contains(&digits).then(|| (digits, &rest[digits..]))
}

/// Whether a text has a digit wherever the pattern has `0`, and the pattern's bytes elsewhere.
fn like(text: &[u8], pattern: &[u8]) -> bool {
    text.len() == pattern.len()
        && text.iter().zip(pattern).all(|(byte, pattern)| match pattern {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_get_the_type_that_holds_all_their_values() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let cases: [(&[&str], DataType); 41] = [
            (&[], DataType::Null),
            (&["1", "-2"], DataType::Int64),
            (&["1", "18446744073709551615"], DataType::UInt64),
            (&["-1", "18446744073709551615"], DataType::Decimal128(20, 0)),
            (&["18446744073709551616"], DataType::Utf8),
            (&["1", "1.5"], DataType::Float64),
            (&[".5", "-1.", "1e9", "1.5E-3"], DataType::Float64),
            (&["1", "-Infinity", "+nan"], DataType::Float64),
            (&["INF"], DataType::Float64),
            (&["infinite"], DataType::Utf8),
            (&["1e400"], DataType::Utf8),
            (&["1", "007"], DataType::Utf8),
            (&["0", "-0", "0.5", "00.5"], DataType::Float64),
            (&["."], DataType::Utf8),
            (&["-"], DataType::Utf8),
            (&["e5"], DataType::Utf8),
            (&["1e"], DataType::Utf8),
            (&["TRUE", "false"], DataType::Boolean),
            (&["true", "1"], DataType::Utf8),
            (&["2024-01-02"], DataType::Date32),
            (&["2024-01-02", "2024-01-02T03:04:05"], micros.clone()),
            (&["2024-01-02 03:04:05.123"], micros),
            (&["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.5+02:00"], utc),
            (&["2024-01-02T03:04:05Z", "2024-01-02T03:04:05"], DataType::Utf8),
            (&["2024-01-02 03:04:05.123456789"], DataType::Timestamp(TimeUnit::Nanosecond, None)),
            (&["2024-01-02 03:04"], DataType::Utf8),
            (&["2024-02-30"], DataType::Utf8),
            (&["0000-00-00"], DataType::Utf8),
            (&["2024-01-02 24:00:00"], DataType::Utf8),
            (&["2016-12-31 23:59:60"], DataType::Utf8),
            (&["2024-01-02 03:60:00"], DataType::Utf8),
            (&["2024-01-02T03:04:05+99:00"], DataType::Utf8),
            (&["2024-01-02T03:04:05-01:60"], DataType::Utf8),
            (&["2024-01-02 03:04:05 CET"], DataType::Utf8),
            (&["03:04:05", "23:59:59.5"], DataType::Time64(TimeUnit::Microsecond)),
            (&["03:04:05.123456789"], DataType::Time64(TimeUnit::Nanosecond)),
            (&["24:00:00"], DataType::Utf8),
            (&["03:04"], DataType::Utf8),
            (&[" 1", "2 "], DataType::Int64),
            (&[" 007"], DataType::Utf8),
            (&[" x", " true", " "], DataType::Utf8),
        ];
        for (texts, expected) in cases {
            let guess = texts
                .iter()
                .fold(InferredKind::Nothing, |guess, text| guess.and(InferredKind::of(text)));
            assert_eq!(guess.data_type(), expected, "{texts:?}");
        }
    }

    #[test]
    fn numbers_that_inference_leaves_text_are_codes() {
        for text in ["007", "-01", "+7", "+.5", " 007", "00", "18446744073709551616"] {
            assert!(is_code(text), "{text}");
            assert_eq!(InferredKind::of(text), InferredKind::Text, "{text}");
        }
        for text in ["0", "-0", "0.5", "00.5", "7", "1e5", "-0.25", "12345678901234567890.5"] {
            assert!(!is_code(text), "{text}");
            assert_ne!(InferredKind::of(text), InferredKind::Text, "{text}");
        }
    }
}
