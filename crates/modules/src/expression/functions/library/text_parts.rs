//! Characters of a text by their places, its parts between separators, and its bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};

use super::row_functions::ArgumentKind::{Bytes, Integer, Text};
use super::row_functions::{Computed, ResultKind, RowFunction, each, integer, text, wrong};

pub(super) const FUNCTIONS: [RowFunction; 5] = [
    RowFunction {
        names: &["_text_item"],
        takes: &[Text, Integer],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            parts(args, |of, row| match integer(args, 1, row) {
                0 => "",
                at => within(of, at, at),
            })
        },
    },
    RowFunction {
        names: &["_text_slice"],
        takes: &[Text, Integer, Integer],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            parts(args, |of, row| within(of, integer(args, 1, row), integer(args, 2, row)))
        },
    },
    RowFunction {
        names: &["split_part"],
        takes: &[Text, Text, Integer],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            parts(args, |of, row| part(of, text(args, 1).value(row), integer(args, 2, row)))
        },
    },
    RowFunction {
        names: &["octet_length"],
        takes: &[Bytes],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let bytes = args[0].as_binary::<i32>();
            let found = each(args, |row| Ok(Some(bytes.value(row).len() as i64)))?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
    RowFunction {
        names: &["_text_of_bytes"],
        takes: &[Bytes],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let bytes = args[0].as_binary::<i32>();
            let found = each(args, |row| match std::str::from_utf8(bytes.value(row)) {
                Ok(text) => Ok(Some(text)),
                Err(_) => wrong("the bytes are no text in UTF-8".into()),
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
];

fn parts<'a>(args: &'a [ArrayRef], of: impl Fn(&'a str, usize) -> &'a str) -> Computed<ArrayRef> {
    let found = each(args, |row| Ok(Some(of(text(args, 0).value(row), row))))?;
    Ok(Arc::new(StringArray::from(found)))
}

/// The characters from a place to another, both counted from one, or from the end if negative.
fn within(of: &str, from: i64, to: i64) -> &str {
    let count = match from < 0 || to < 0 {
        true => of.chars().count() as i64,
        false => 0,
    };
    let place = |at: i64| if at < 0 { at.saturating_add(count + 1) } else { at };
    let (from, to) = (place(from), place(to));
    if to < 1 || from > to {
        return "";
    }
    let mut starts = of.char_indices().map(|(at, _)| at);
    let Some(start) = starts.nth(from.max(1) as usize - 1) else { return "" };
    let rest = &of[start..];
    let kept = (to - from.max(1)) as usize + 1;
    rest.char_indices().nth(kept).map_or(rest, |(end, _)| &rest[..end])
}

/// The part of a number, counted from one, or from the end if negative; empty if there is none. An
/// empty separator separates all characters.
fn part<'a>(of: &'a str, separator: &str, number: i64) -> &'a str {
    if separator.is_empty() {
        return if number == 0 { "" } else { within(of, number, number) };
    }
    let at = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let found = match number {
        0 => None,
        1.. => of.split(separator).nth(at - 1),
        _ => {
            let count = of.split(separator).count();
            count.checked_sub(at).and_then(|at| of.split(separator).nth(at))
        }
    };
    found.unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_either_end() {
        let of = "abcdé";
        for (from, to, part) in [
            (1, 1, "a"),
            (-1, -1, "é"),
            (2, 3, "bc"),
            (0, 1, "a"),
            (3, -2, "cd"),
            (-10, 2, "ab"),
            (4, 2, ""),
            (2, 100, "bcdé"),
            (10, 10, ""),
            (-9, -9, ""),
            (i64::MIN, i64::MAX, "abcdé"),
        ] {
            assert_eq!(within(of, from, to), part, "{from} to {to}");
        }
    }

    #[test]
    fn parts_are_counted_from_either_end() {
        for (number, expected) in [(1, "a"), (2, ""), (3, "b"), (4, ""), (0, ""), (-1, "b")] {
            assert_eq!(part("a,,b", ",", number), expected, "{number}");
        }
        assert_eq!(part("abc", "", 2), "b");
        assert_eq!(part("abc", ",", i64::MIN), "");
    }
}
