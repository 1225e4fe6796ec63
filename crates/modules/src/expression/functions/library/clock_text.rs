//! Instants as text and back by a format with the signs of `strftime`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use super::row_functions::ArgumentKind::{Instant, Text};
use super::row_functions::{Computed, ResultKind, RowFunction, each, text, wrong};

pub(super) const FUNCTIONS: [RowFunction; 3] = [
    RowFunction {
        names: &["strftime"],
        takes: &[Instant, Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let instants = args[0].as_primitive::<TimestampMicrosecondType>();
            let found = each(args, |row| {
                shown(time_of(instants.value(row))?, text(args, 1).value(row)).map(Some)
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["strptime"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| {
            instants(args, |of, format| match read(of, format)? {
                Some(found) => Ok(Some(found)),
                None => wrong(format!("`{of}` does not read as `{format}`")),
            })
        },
    },
    RowFunction {
        names: &["try_strptime"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| instants(args, read),
    },
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The time of microseconds since 1970.
pub(super) fn time_of(microseconds: i64) -> Computed<NaiveDateTime> {
    match DateTime::from_timestamp_micros(microseconds) {
        Some(time) => Ok(time.naive_utc()),
        None => wrong("overflow: the calendar ends in the year 262142".into()),
    }
}

fn instants(
    args: &[ArrayRef],
    of: impl Fn(&str, &str) -> Computed<Option<NaiveDateTime>>,
) -> Computed<ArrayRef> {
    let found = each(args, |row| {
        let found = of(text(args, 0).value(row), text(args, 1).value(row))?;
        Ok(found.map(|time| time.and_utc().timestamp_micros()))
    })?;
    let found: PrimitiveArray<Int64Type> = found.into_iter().collect();
    Ok(Arc::new(found.reinterpret_cast::<TimestampMicrosecondType>()))
}

/// The signs of a format, and the text between them. A sign with a minus has no leading zeros.
fn signs(format: &str) -> Computed<Vec<FormatPart<'_>>> {
    let mut parts = vec![];
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            parts.push(FormatPart::Plain(&rest[..at]));
        }
        let behind = &rest[at + 1..];
        let (is_short, behind) = match behind.strip_prefix('-') {
            Some(behind) => (true, behind),
            None => (false, behind),
        };
        let Some(sign) = behind.chars().next() else {
            return wrong(format!("the format `{format}` ends with `%`"));
        };
        rest = &behind[sign.len_utf8()..];
        parts.push(match sign {
            '%' => FormatPart::Plain("%"),
            sign => FormatPart::Sign { sign, is_short },
        });
    }
    if !rest.is_empty() {
        parts.push(FormatPart::Plain(rest));
    }
    Ok(parts)
}

/// A part of a format.
enum FormatPart<'a> {
    Plain(&'a str),
    Sign { sign: char, is_short: bool },
}

fn unknown<T>(sign: char) -> Computed<T> {
    wrong(format!("a format has no sign `%{sign}` here"))
}

/// The text of a time.
fn shown(time: NaiveDateTime, format: &str) -> Computed<String> {
    let mut out = String::new();
    for part in signs(format)? {
        let (sign, is_short) = match part {
            FormatPart::Plain(text) => {
                out += text;
                continue;
            }
            FormatPart::Sign { sign, is_short } => (sign, is_short),
        };
        let hour12 = (time.hour() + 11) % 12 + 1;
        let weekday = time.weekday().num_days_from_monday();
        let week_from = |first: u32| (time.ordinal0() + 7 - (weekday + 7 - first) % 7) / 7;
        let (number, width) = match sign {
            'Y' => (i64::from(time.year()), 4),
            'y' => (i64::from(time.year()).rem_euclid(100), 2),
            'm' => (time.month().into(), 2),
            'd' => (time.day().into(), 2),
            'H' => (time.hour().into(), 2),
            'I' => (hour12.into(), 2),
            'M' => (time.minute().into(), 2),
            'S' => (time.second().into(), 2),
            'j' => (time.ordinal().into(), 3),
            'f' => ((time.nanosecond() / 1000).into(), 6),
            'g' => ((time.nanosecond() / 1_000_000).into(), 3),
            'n' => (time.nanosecond().into(), 9),
            'w' => (time.weekday().num_days_from_sunday().into(), 1),
            'u' => (time.weekday().number_from_monday().into(), 1),
            'U' => (week_from(6).into(), 2),
            'W' => (week_from(0).into(), 2),
            'V' => (time.iso_week().week().into(), 2),
            'G' => (time.iso_week().year().into(), 4),
            other => {
                out += &match other {
                    'p' => if time.hour() < 12 { "AM" } else { "PM" }.to_string(),
                    'a' => DAYS[weekday as usize][..3].to_string(),
                    'A' => DAYS[weekday as usize].to_string(),
                    'b' | 'h' => MONTHS[time.month0() as usize][..3].to_string(),
                    'B' => MONTHS[time.month0() as usize].to_string(),
                    'c' => shown(time, "%Y-%m-%d %H:%M:%S")?,
                    'x' => shown(time, "%Y-%m-%d")?,
                    'X' => shown(time, "%H:%M:%S")?,
                    'z' => "+00".to_string(),
                    'Z' => String::new(),
                    other => return unknown(other),
                };
                continue;
            }
        };
        out += &match is_short {
            true => number.to_string(),
            false => format!("{number:0width$}"),
        };
    }
    Ok(out)
}

/// The time that a text is; `None` if it is none of this format. What the format lacks is that of
/// midnight on the first of January 1900.
fn read(of: &str, format: &str) -> Computed<Option<NaiveDateTime>> {
    let mut rest = of.trim_start();
    let (mut year, mut month, mut day, mut day_of_year) = (1900, 1, 1, None);
    let (mut hour, mut minute, mut second, mut nanosecond) = (0, 0, 0, 0);
    let (mut afternoon, mut offset_seconds) = (None, 0);
    macro_rules! digits {
        ($most:expr) => {
            match digits(&mut rest, $most) {
                Some(number) => number,
                None => return Ok(None),
            }
        };
    }
    for part in signs(format)? {
        let sign = match part {
            FormatPart::Plain(text) => {
                for letter in text.chars() {
                    if letter.is_whitespace() {
                        rest = rest.trim_start();
                    } else if let Some(behind) = rest.strip_prefix(letter) {
                        rest = behind;
                    } else {
                        return Ok(None);
                    }
                }
                continue;
            }
            FormatPart::Sign { sign, .. } => sign,
        };
        match sign {
            'Y' => {
                let is_negative = rest.starts_with('-');
                rest = rest.strip_prefix('-').unwrap_or(rest);
                let found = digits!(if is_negative { 6 } else { 4 }) as i32;
                year = if is_negative { -found } else { found };
            }
            'y' => {
                let short = digits!(2) as i32;
                year = if short < 69 { 2000 + short } else { 1900 + short };
            }
            'm' => month = digits!(2),
            'd' => day = digits!(2),
            'j' => day_of_year = Some(digits!(3)),
            'H' | 'I' => hour = digits!(2),
            'M' => minute = digits!(2),
            'S' => second = digits!(2),
            'f' | 'g' | 'n' => {
                let before = rest.len();
                let found = digits!(9);
                nanosecond = found * 10_u32.pow(9 - (before - rest.len()) as u32);
            }
            'p' => {
                let Some(half) = named(&mut rest, &["AM", "PM"], 2) else { return Ok(None) };
                afternoon = Some(half == 1);
            }
            'b' | 'h' | 'B' => {
                let found = named(&mut rest, &MONTHS, if sign == 'B' { usize::MAX } else { 3 });
                let Some(found) = found else { return Ok(None) };
                month = found as u32 + 1;
            }
            'a' | 'A' => {
                let chars = if sign == 'A' { usize::MAX } else { 3 };
                if named(&mut rest, &DAYS, chars).is_none() {
                    return Ok(None);
                }
            }
            'z' => {
                let is_west = rest.starts_with('-');
                if !rest.starts_with(['+', '-']) {
                    return Ok(None);
                }
                rest = &rest[1..];
                let hours = digits!(2);
                rest = rest.strip_prefix(':').unwrap_or(rest);
                let minutes = digits(&mut rest, 2).unwrap_or(0);
                let seconds = i64::from(hours * 3600 + minutes * 60);
                offset_seconds = if is_west { -seconds } else { seconds };
            }
            other => return unknown(other),
        }
    }
    if !rest.trim_end().is_empty() {
        return Ok(None);
    }
    let hour = match afternoon {
        Some(_) if !(1..=12).contains(&hour) => return Ok(None),
        Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        None => hour,
    };
    let date = match day_of_year {
        Some(day) => NaiveDate::from_yo_opt(year, day),
        None => NaiveDate::from_ymd_opt(year, month, day),
    };
    let time = NaiveTime::from_hms_nano_opt(hour, minute, second, nanosecond);
    let local = date.zip(time).map(|(date, time)| date.and_time(time));
    Ok(local.and_then(|local| local.checked_sub_signed(chrono::TimeDelta::seconds(offset_seconds))))
}

/// Takes at most `most` digits from the front of a text.
fn digits(rest: &mut &str, most: usize) -> Option<u32> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (digits, behind) = rest.split_at(count);
    *rest = behind;
    digits.parse().ok()
}

/// Takes one of these names, or its first letters, from the front of a text.
fn named(rest: &mut &str, names: &[&str], chars: usize) -> Option<usize> {
    let shorts = names.iter().map(|name| &name[..chars.min(name.len())]);
    let starts = |short: &str| {
        rest.get(..short.len()).is_some_and(|start| start.eq_ignore_ascii_case(short))
    };
    let (at, short) = shorts.enumerate().find(|(_, short)| starts(short))?;
    *rest = &rest[short.len()..];
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_times_read_as_them() {
        let time = time_of(1_772_600_767_123_456).unwrap();
        for format in [
            "%Y-%m-%d %H:%M:%S.%f",
            "%d %B %Y %I:%M:%S.%f %p",
            "%j %Y %H%M%S%f",
            "%A %d %b %Y %X.%f",
        ] {
            let format = format.replace("%X", "%H:%M:%S");
            let text = shown(time, &format).unwrap();
            assert_eq!(read(&text, &format).unwrap(), Some(time), "{format}: {text}");
        }
        for (text, format) in
            [("2026-02-30", "%Y-%m-%d"), ("1 x", "%d"), ("13 AM", "%I %p"), ("", "%Y")]
        {
            assert_eq!(read(text, format).unwrap(), None, "{text}");
        }
        assert!(shown(time, "%q").is_err());
    }
}
