//! What the text of a number or a time says beyond its value: zeros, zones, units.

use arrow::datatypes::TimeUnit;

use crate::values::iso8601::is_extended;

/// The `2` of `2.0`: programs that have only floats write integers so.
pub fn without_zeros(text: &str) -> Option<&str> {
    let (whole, zeros) = text.split_once('.')?;
    let is_whole = whole.ends_with(|c: char| c.is_ascii_digit());
    (is_whole && zeros.bytes().all(|byte| byte == b'0')).then_some(whole)
}

/// Whether a time of day has a 60th second, which Arrow parses as the first of the next minute.
pub fn has_leap_second(text: &str) -> bool {
    let mut parts = text.split(':').skip(2);
    parts.next().is_some_and(|seconds| seconds.starts_with("60"))
}

/// Whether a timestamp has a zone.
pub fn has_zone(text: &str) -> bool {
    // The shortest date has at least this many characters after the year.
    let year = if is_extended(text) { text[1..].find('-').unwrap_or(0) + 1 } else { 4 };
    let time = text.as_bytes().get(year + 7..).unwrap_or_default();
    time.iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'))
}

/// Whether a time has a part smaller than the unit.
pub fn is_finer(text: &str, unit: TimeUnit) -> bool {
    let digits = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let mut fraction = fraction.bytes().take_while(u8::is_ascii_digit).skip(digits);
    fraction.any(|digit| digit != b'0')
}
