//! Appends numbers as decimal digits to bytes, in pairs of digits, where the standard library's
//! formatter takes longer than all else about a row.

use std::fmt::Display;
use std::io::Write;

use arrow::datatypes::ArrowNativeType;

/// The two digits of each number below 100.
pub const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// The most digits of 64 bits.
const DIGITS_MAX: usize = 20;

/// Appends an integer, negative ones after `-`.
pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(value.unsigned_abs(), out);
}

/// Appends an integer.
#[inline]
pub fn write_unsigned(mut value: u64, out: &mut Vec<u8>) {
    let mut text = [0; 2 * DIGITS_MAX];
    let mut begin = DIGITS_MAX;
    while value >= 100 {
        begin -= 2;
        text[begin..begin + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value >= 10 {
        begin -= 2;
        text[begin..begin + 2].copy_from_slice(&PAIRS[value as usize]);
    } else {
        begin -= 1;
        text[begin] = b'0' + value as u8;
    }
    let end = out.len() + DIGITS_MAX - begin;
    // A copy of a constant number of bytes is a few instructions, any other one a call.
    out.extend_from_slice(&text[begin..begin + DIGITS_MAX]);
    out.truncate(end);
}

/// Appends a decimal, given without its point: with `scale` digits after the point, or, if that is
/// negative, that many zeros before it. The digits may be more than its type has.
pub fn write_decimal<N: ArrowNativeType + Display>(value: N, scale: i8, out: &mut Vec<u8>) {
    let begin = out.len();
    match value.to_i64() {
        Some(value) => write_signed(value, out),
        None => write!(out, "{value}").expect("a vector takes all"),
    }
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        if out[begin..] != *b"0" {
            out.resize(out.len() + places, b'0');
        }
        return;
    }
    let begin = begin + usize::from(out[begin] == b'-');
    let missing = (places + 1).saturating_sub(out.len() - begin);
    out.splice(begin..begin, std::iter::repeat_n(b'0', missing));
    out.insert(out.len() - places, b'.');
}

/// A number of at most 18 digits, which cannot overflow, with or without a minus; `None` if the
/// text is anything else.
#[inline(always)]
pub fn few_digits(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut number = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::i256;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(7)).unwrap()
    }

    #[test]
    fn all_digits_of_a_decimal_are_written() {
        for (value, scale, expected) in [
            (9_223_372_036_854_775_807_009, 3, "9223372036854775807.009"),
            (-5, 3, "-0.005"),
            (123, 3, "0.123"),
            (-1234, 3, "-1.234"),
            (12, -2, "1200"),
            (0, -2, "0"),
            (0, 2, "0.00"),
            (-7, 0, "-7"),
        ] {
            assert_eq!(written(|out| write_decimal(value, scale, out)), expected);
            let wide = i256::from_i128(value);
            assert_eq!(written(|out| write_decimal(wide, scale, out)), expected);
        }
    }

    proptest! {
        #[test]
        fn integers_equal_those_of_the_standard_library(value: i64, shift in 0u32..64) {
            for value in [value >> shift, i64::MIN, i64::MAX, 0] {
                prop_assert_eq!(written(|out| write_signed(value, out)), value.to_string());
                let value = value as u64;
                prop_assert_eq!(written(|out| write_unsigned(value, out)), value.to_string());
            }
        }
    }
}
