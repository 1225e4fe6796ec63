//! Formats and parses ISO 8601 dates, times and durations, over the whole range of Arrow's types.
//!
//! A year has four digits; one before 0000 or after 9999 has a sign and as many digits as it needs
//! (the extended form). Calendar libraries end at some year within the range of 64-bit seconds, so
//! the calendar is computed here: days to dates and back, in the proleptic Gregorian calendar
//! (Hinnant, "chrono-Compatible Low-Level Date Algorithms").

use std::io::Write;

use arrow::datatypes::TimeUnit;

use crate::values::digits::{PAIRS, write_unsigned};

const DAY_SECONDS: i64 = 86_400;
/// Days in 400 years, the period of the calendar.
const ERA_DAYS: i64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;

/// The number of units in a second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Appends the date that is `days` after 1970-01-01.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = date_of(days);
    match year {
        0..=9999 => {}
        10_000.. => out.push(b'+'),
        _ => out.push(b'-'),
    }
    let year = year.unsigned_abs();
    if year >= 10_000 {
        write_unsigned(year / 10_000, out);
    }
    let mut text = *b"0000-00-00";
    text[..2].copy_from_slice(&PAIRS[(year / 100 % 100) as usize]);
    text[2..4].copy_from_slice(&PAIRS[(year % 100) as usize]);
    text[5..7].copy_from_slice(&PAIRS[month as usize]);
    text[8..].copy_from_slice(&PAIRS[day as usize]);
    out.extend_from_slice(&text);
}

/// Appends the timestamp that is `value` units after 1970 in UTC, as local time `ahead_seconds`
/// ahead of UTC, without the offset.
pub fn write_moment(value: i64, unit: TimeUnit, ahead_seconds: i32, out: &mut Vec<u8>) {
    let parts = per_second(unit);
    let (seconds, part) = (value.div_euclid(parts), value.rem_euclid(parts));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let second = second + i64::from(ahead_seconds);
    write_date(days + second.div_euclid(DAY_SECONDS), out);
    out.push(b'T');
    write_clock(second.rem_euclid(DAY_SECONDS), part * (1_000_000_000 / parts), out);
}

/// Appends an offset from UTC in minutes, as `+02:00`.
pub fn write_offset(minutes: i32, out: &mut Vec<u8>) {
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    put(out, format_args!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
}

/// Appends the time of day that is `value` units after midnight; `None` if that is outside of the
/// day.
pub fn write_time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) -> Option<()> {
    let parts = per_second(unit);
    let (seconds, part) = (value.div_euclid(parts), value.rem_euclid(parts));
    (0..DAY_SECONDS).contains(&seconds).then_some(())?;
    write_clock(seconds, part * (1_000_000_000 / parts), out);
    Some(())
}

/// Appends a duration in seconds, as `PT1.5S`.
pub fn write_duration(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let parts = per_second(unit).unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    let (seconds, part) = (value.unsigned_abs() / parts, value.unsigned_abs() % parts);
    if value == 0 {
        return out.extend_from_slice(b"P0D");
    }
    put(out, format_args!("{sign}PT{seconds}"));
    if part > 0 {
        let digits = parts.ilog10() as usize;
        let fraction = format!("{part:0digits$}");
        put(out, format_args!(".{}", fraction.trim_end_matches('0')));
    }
    out.push(b'S');
}

/// Parses a date in the extended form to days after 1970-01-01.
pub fn parse_date(text: &str) -> Option<i64> {
    let (days, rest) = split_date(text)?;
    rest.is_empty().then_some(days)
}

/// Parses a timestamp whose date is in the extended form to units after 1970 in UTC. A text without
/// an offset is local time `ahead_seconds` ahead of UTC, and `None` if that is not given.
pub fn parse_moment(text: &str, unit: TimeUnit, ahead_seconds: Option<i32>) -> Option<i64> {
    let (days, rest) = split_date(text)?;
    let (second, nanos, rest) = match rest.strip_prefix(['T', 't', ' ']) {
        Some(clock) => split_clock(clock)?,
        None => (0, 0, rest),
    };
    let ahead = match rest {
        "" => ahead_seconds?,
        "Z" | "z" => 0,
        offset => parse_offset(offset)? * 60,
    };
    let seconds = i128::from(days) * i128::from(DAY_SECONDS) + i128::from(second);
    let nanos = (seconds - i128::from(ahead)) * 1_000_000_000 + i128::from(nanos);
    let each = i128::from(1_000_000_000 / per_second(unit));
    (nanos % each == 0).then(|| i64::try_from(nanos / each).ok()).flatten()
}

/// Parses a time of day to units after midnight; `None` if it is finer.
pub fn parse_time(text: &str, unit: TimeUnit) -> Option<i64> {
    let (second, nanos, rest) = split_clock(text)?;
    let each = 1_000_000_000 / per_second(unit);
    let fits = rest.is_empty() && nanos % each == 0;
    fits.then(|| second * per_second(unit) + nanos / each)
}

/// Parses a duration like `PT1.5S` or `-P1DT2H3M4S` to units; `None` if it is finer.
pub fn parse_duration(text: &str, unit: TimeUnit) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    let text = text.strip_prefix('P')?;
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let mut nanos: i128 = 0;
    let mut parts = 0;
    let date_units = &[('D', 86_400)][..];
    let time_units = &[('H', 3600), ('M', 60), ('S', 1)][..];
    for (mut rest, units) in [(date, date_units), (time, time_units)] {
        for (letter, seconds) in units {
            if let Some((number, behind)) = rest.split_once(*letter) {
                nanos += nanos_of(number)?.checked_mul(*seconds)?;
                (rest, parts) = (behind, parts + 1);
            }
        }
        rest.is_empty().then_some(())?;
    }
    let each = i128::from(1_000_000_000 / per_second(unit));
    let is_whole = parts > 0 && nanos % each == 0;
    is_whole.then(|| i64::try_from(sign * nanos / each).ok()).flatten()
}

/// Parses a date of four, two and two digits to days after 1970-01-01; `None` for other forms,
/// which may be dates as well.
pub fn parse_usual_date(text: &[u8]) -> Option<i64> {
    let [a, b, c, d, b'-', e, f, b'-', g, h] = *text else { return None };
    let year = 100 * number_of(a, b)? + number_of(c, d)?;
    let (month, day) = (number_of(e, f)?, number_of(g, h)?);
    let month_days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    };
    let is_date = (1..=12).contains(&month) && (1..=month_days).contains(&day);
    is_date.then(|| days_of(year, month, day))
}

/// Parses a usual date, `T` or a space, and a clock with seconds to units after 1970 in UTC; `None`
/// for other forms, which may be timestamps as well, and for values that the unit cannot hold.
pub fn parse_usual_moment(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let (date, clock) = text.split_at_checked(10)?;
    let (clock, fraction) = clock.split_at_checked(9)?;
    let [b'T' | b' ', a, b, b':', c, d, b':', e, f] = *clock else { return None };
    let (hour, minute, second) = (number_of(a, b)?, number_of(c, d)?, number_of(e, f)?);
    (hour < 24 && minute < 60 && second < 60).then_some(())?;
    let mut nanos = 0;
    if let Some((point, digits)) = fraction.split_first() {
        (*point == b'.' && (1..=9).contains(&digits.len())).then_some(())?;
        for digit in digits {
            digit.is_ascii_digit().then_some(())?;
            nanos = nanos * 10 + i64::from(digit - b'0');
        }
        nanos *= 10_i64.pow(9 - digits.len() as u32);
    }
    let seconds = parse_usual_date(date)? * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let (parts, each) = (per_second(unit), 1_000_000_000 / per_second(unit));
    (nanos % each == 0).then_some(())?;
    seconds.checked_mul(parts)?.checked_add(nanos / each)
}

/// The number of two digits.
fn number_of(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(10 * tens + ones))
}

/// Whether a text begins with a signed year.
pub fn is_extended(text: &str) -> bool {
    text.starts_with(['+', '-'])
}

/// Parses seconds with a fraction to nanoseconds.
fn nanos_of(number: &str) -> Option<i128> {
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (is_number(seconds) && is_number(fraction) && seconds.len() <= 20).then_some(())?;
    Some(seconds.parse::<i128>().ok()? * 1_000_000_000 + i128::from(fraction_nanos(fraction)?))
}

/// Parses digits after the point to nanoseconds; `None` if they are finer.
fn fraction_nanos(digits: &str) -> Option<i64> {
    let digits = digits.trim_end_matches('0');
    let places = u32::try_from(digits.len()).ok().filter(|places| *places <= 9)?;
    let number = if digits.is_empty() { 0 } else { digits.parse::<i64>().ok()? };
    Some(number * 10_i64.pow(9 - places))
}

/// Parses a date with a signed year at the beginning of a text to days; returns the rest too.
fn split_date(text: &str) -> Option<(i64, &str)> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (year, rest) = digits.split_once('-')?;
    // A year of more digits is beyond 64-bit seconds.
    let is_year = (4..=12).contains(&year.len()) && year.bytes().all(|byte| byte.is_ascii_digit());
    is_year.then_some(())?;
    let (month, rest) = two_digits(rest)?;
    let (day, rest) = two_digits(rest.strip_prefix('-')?)?;
    let (year, month, day) = (sign * year.parse::<i64>().ok()?, month, day);
    let days = days_of(year, month, day);
    // Rejects the 31st of a shorter month, which would become a day of the next.
    (date_of(days) == (year, month, day)).then_some((days, rest))
}

/// Parses a clock at the beginning of a text: the second of the day, its fraction in nanoseconds,
/// and the rest.
fn split_clock(text: &str) -> Option<(i64, i64, &str)> {
    let (hour, rest) = two_digits(text)?;
    let (minute, rest) = two_digits(rest.strip_prefix(':')?)?;
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => two_digits(rest)?,
        None => (0, rest),
    };
    (hour < 24 && minute < 60 && second < 60).then_some(())?;
    let seconds = hour * 3600 + minute * 60 + second;
    let Some(fraction) = rest.strip_prefix('.') else { return Some((seconds, 0, rest)) };
    let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    let (digits, rest) = fraction.split_at(end);
    Some((seconds, fraction_nanos(digits)?, rest))
}

/// Parses an offset from UTC like `+02:00` to minutes.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, text) = match text.split_at_checked(1)? {
        ("+", text) => (1, text),
        ("-", text) => (-1, text),
        _ => return None,
    };
    let (hours, rest) = two_digits(text)?;
    let (minutes, rest) = two_digits(rest.strip_prefix(':').unwrap_or(rest))?;
    (rest.is_empty() && minutes < 60).then(|| sign * (hours * 60 + minutes) as i32)
}

fn two_digits(text: &str) -> Option<(i64, &str)> {
    let (digits, rest) = text.split_at_checked(2)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((is_number.then(|| digits.parse().ok()).flatten()?, rest))
}

/// Appends the clock at a second of the day, with 0, 3, 6 or 9 digits after the point as needed.
fn write_clock(second: i64, nanos: i64, out: &mut Vec<u8>) {
    let mut text = *b"00:00:00.000000000";
    text[..2].copy_from_slice(&PAIRS[(second / 3600) as usize]);
    text[3..5].copy_from_slice(&PAIRS[(second / 60 % 60) as usize]);
    text[6..8].copy_from_slice(&PAIRS[(second % 60) as usize]);
    let mut places = match nanos {
        0 => return out.extend_from_slice(&text[..8]),
        _ if nanos % 1_000_000 == 0 => 3,
        _ if nanos % 1_000 == 0 => 6,
        _ => 9,
    };
    let end = out.len() + 9 + places;
    let mut rest = nanos / 10_i64.pow(9 - places as u32);
    while places >= 2 {
        text[7 + places..9 + places].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        (rest, places) = (rest / 100, places - 2);
    }
    if places > 0 {
        text[9] = b'0' + rest as u8;
    }
    // All of a constant number of bytes is faster than some of them.
    out.extend_from_slice(&text);
    out.truncate(end);
}

fn put(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a vector takes all");
}

/// Year, month and day of a day after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months count from March, so the leap day is the last of the year.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1;
    era * ERA_DAYS + year * 365 + year / 4 - year / 100 + day - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
    use arrow::datatypes::Date32Type;
    use arrow::temporal_conversions::timestamp_s_to_datetime;
    use chrono::Utc;
    use proptest::prelude::*;

    use super::*;

    const UNITS: [TimeUnit; 4] =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = vec![];
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn every_moment_parses_to_what_was_written(
            value: i64,
            unit in 0usize..4,
            minutes in -900..900,
        ) {
            let unit = UNITS[unit];
            let text = written(|out| {
                write_moment(value, unit, minutes * 60, out);
                write_offset(minutes, out);
            });
            // Arrow parses four-digit years without a sign, so the extended form is forced.
            let text = if is_extended(&text) { text } else { format!("+{text}") };
            prop_assert_eq!(parse_moment(&text, unit, None), Some(value), "{}", text);
        }

        #[test]
        fn every_duration_parses_to_what_was_written(value: i64, unit in 0usize..4) {
            let text = written(|out| write_duration(value, UNITS[unit], out));
            prop_assert_eq!(parse_duration(&text, UNITS[unit]), Some(value), "{}", text);
        }

        #[test]
        fn dates_equal_those_of_another_calendar(
            seconds in -8_000_000_000_000i64..8_000_000_000_000,
        ) {
            let text = written(|out| write_moment(seconds, TimeUnit::Second, 0, out));
            let other = format!("{:?}", timestamp_s_to_datetime(seconds).unwrap());
            prop_assert_eq!(text, other);
        }
    }

    proptest! {
        #[test]
        fn usual_dates_and_times_equal_those_of_arrow(
            parts in (0u32..10_100, 0u32..14, 0u32..33),
            clock in (0u32..25, 0u32..61, 0u32..61),
            fraction in "|[.][0-9]{1,10}",
            unit in 0usize..4,
        ) {
            let date = format!("{:04}-{:02}-{:02}", parts.0, parts.1, parts.2);
            let days = Date32Type::parse(&date).filter(|_| date.len() == 10);
            prop_assert_eq!(parse_usual_date(date.as_bytes()), days.map(i64::from), "{}", date);
            let text =
                format!("{date}T{:02}:{:02}:{:02}{fraction}", clock.0, clock.1, clock.2);
            // What it parses, Arrow parses to the same; not all that Arrow parses is usual.
            if let Some(value) = parse_usual_moment(text.as_bytes(), UNITS[unit]) {
                let at = string_to_datetime(&Utc, &text).unwrap();
                let other = match UNITS[unit] {
                    TimeUnit::Second => at.timestamp(),
                    TimeUnit::Millisecond => at.timestamp_millis(),
                    TimeUnit::Microsecond => at.timestamp_micros(),
                    TimeUnit::Nanosecond => at.timestamp_nanos_opt().unwrap(),
                };
                prop_assert_eq!(value, other, "{}", text);
                let again = written(|out| write_moment(value, UNITS[unit], 0, out));
                prop_assert_eq!(&again[..19], &text[..19]);
            }
        }
    }

    #[test]
    fn usual_moment_is_exact_or_refused() {
        for (text, unit, expected) in [
            ("1970-01-02T00:00:01", TimeUnit::Second, Some(86_401)),
            ("1970-01-01 00:00:00.25", TimeUnit::Millisecond, Some(250)),
            ("1969-12-31T23:59:59.000001", TimeUnit::Microsecond, Some(-999_999)),
            ("1970-01-01T00:00:00.1230000", TimeUnit::Millisecond, Some(123)),
            ("1970-01-01T00:00:00.0001", TimeUnit::Millisecond, None),
            ("1970-01-01T00:00:00.", TimeUnit::Second, None),
            ("1970-01-01T00:00:00Z", TimeUnit::Second, None),
            ("1970-02-29T00:00:00", TimeUnit::Second, None),
            ("1970-01-01T00:00:60", TimeUnit::Second, None),
            ("9999-01-01T00:00:00", TimeUnit::Nanosecond, None),
            ("1970-01-01", TimeUnit::Second, None),
        ] {
            assert_eq!(parse_usual_moment(text.as_bytes(), unit), expected, "{text}");
        }
    }

    #[test]
    fn malformed_dates_and_times_are_refused() {
        for text in
            ["+12345-02-30", "+12345-13-01", "12345-01-01", "+123-01-01", "-0001-01-01T25:00:00"]
        {
            assert_eq!(parse_moment(text, TimeUnit::Second, Some(0)), None, "{text}");
        }
        for text in ["", "P", "PT", "PT1", "P1S", "PT1.0005S", "PT99999999999999999999S", "PT-1S"] {
            assert_eq!(parse_duration(text, TimeUnit::Millisecond), None, "{text}");
        }
        assert_eq!(parse_duration("-P1DT2H3M4.5S", TimeUnit::Millisecond), Some(-93_784_500));
        assert_eq!(write_time(86_400, TimeUnit::Second, &mut vec![]), None);
    }
}
