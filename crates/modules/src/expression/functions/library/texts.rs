//! Functions of text: parts, lists of parts, and encodings.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Float64Array, Int64Array, ListBuilder, StringArray,
    StringBuilder,
};
use arrow::datatypes::{Float64Type, UInt64Type};
use regex::Regex;

use super::row_functions::ArgumentKind::{Any, Bytes, Float, Integer, Text};
use super::row_functions::{
    Computed, ResultKind, RowFunction, each, integer, of_text, text, wrong,
};

/// The longest bar.
const BAR_CHARS_MAX: f64 = 1000.0;

pub(super) const FUNCTIONS: [RowFunction; 18] = [
    RowFunction {
        names: &["string_split", "str_split", "split"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| {
            lists(args, |row| {
                let (whole, separator) = (text(args, 0).value(row), text(args, 1).value(row));
                Ok(match separator.is_empty() {
                    true => whole.chars().map(String::from).collect(),
                    false => whole.split(separator).map(String::from).collect(),
                })
            })
        },
    },
    RowFunction {
        names: &["string_split_regex", "str_split_regex", "regexp_split_to_array"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| {
            let mut compiled = LastPattern::default();
            lists(args, |row| {
                let regex = compiled.of(text(args, 1).value(row))?;
                let whole = text(args, 0).value(row);
                let (mut parts, mut begin) = (vec![], 0);
                for separator in regex.find_iter(whole) {
                    // Nothing stands before the first character or behind the last.
                    if separator.is_empty() && [0, whole.len()].contains(&separator.start()) {
                        continue;
                    }
                    parts.push(whole[begin..separator.start()].to_string());
                    begin = separator.end();
                }
                parts.push(whole[begin..].to_string());
                Ok(parts)
            })
        },
    },
    RowFunction {
        names: &["regexp_extract_all"],
        takes: &[Text, Text, Integer],
        optional: 1,
        returns: ResultKind::Texts,
        compute: |args| {
            let mut compiled = LastPattern::default();
            lists(args, |row| {
                let pattern = text(args, 1).value(row);
                let regex = compiled.of(pattern)?;
                let group = if args.len() == 3 { integer(args, 2, row) } else { 0 };
                let known = usize::try_from(group).ok().filter(|at| *at < regex.captures_len());
                let Some(group) = known else {
                    return wrong(format!("the pattern `{pattern}` has no such group"));
                };
                let whole = text(args, 0).value(row);
                let (mut found, mut at) = (vec![], 0);
                // As in PostgreSQL and DuckDB, an empty match may follow another match at once.
                while let Some(captures) =
                    (at <= whole.len()).then(|| regex.captures_at(whole, at)).flatten()
                {
                    let part = captures.get(group).map_or("", |part| part.as_str());
                    found.push(part.to_string());
                    let all = captures.get(0).map_or(at..at, |all| all.range());
                    let next = whole[all.end..].chars().next().map_or(1, char::len_utf8);
                    at = all.end + if all.is_empty() { next } else { 0 };
                }
                Ok(found)
            })
        },
    },
    RowFunction {
        names: &["regexp_escape"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            of_text(args, |text| {
                let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let escape = |letter: char| match is_plain(letter) || !letter.is_ascii() {
                    true => letter.to_string(),
                    false => format!("\\{letter}"),
                };
                Ok(Some(text.chars().map(escape).collect()))
            })
        },
    },
    RowFunction {
        names: &["hamming", "mismatches"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let found = each(args, |row| {
                let (one, other) = (text(args, 0).value(row), text(args, 1).value(row));
                let (one, other): (Vec<char>, Vec<char>) =
                    (one.chars().collect(), other.chars().collect());
                if one.len() != other.len() || one.is_empty() {
                    return wrong(
                        "texts of different lengths, or of none, are not compared".into(),
                    );
                }
                Ok(Some(one.iter().zip(&other).filter(|(a, b)| a != b).count() as i64))
            })?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
    RowFunction {
        names: &["jaccard"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| {
            let found = each(args, |row| {
                let letters = |at: usize| text(args, at).value(row).chars().collect::<HashSet<_>>();
                let (one, other) = (letters(0), letters(1));
                if one.is_empty() || other.is_empty() {
                    return wrong("an empty text is like no other".into());
                }
                let both = one.intersection(&other).count() as f64;
                Ok(Some(both / one.union(&other).count() as f64))
            })?;
            Ok(Arc::new(Float64Array::from(found)))
        },
    },
    RowFunction {
        names: &["unicode", "ord"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let first = |row: usize| text(args, 0).value(row).chars().next();
            let found = each(args, |row| Ok(Some(first(row).map_or(-1, |one| one as i64))))?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
    RowFunction {
        names: &["bar"],
        takes: &[Float, Float, Float, Float],
        optional: 1,
        returns: ResultKind::Text,
        compute: |args| {
            let number = |at: usize, row: usize| args[at].as_primitive::<Float64Type>().value(row);
            let found = each(args, |row| {
                let width = if args.len() == 4 { number(3, row) } else { 80.0 };
                bar(number(0, row), number(1, row), number(2, row), width).map(Some)
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["hex"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            if let arrow::datatypes::DataType::UInt64 = args[0].data_type() {
                let numbers = args[0].as_primitive::<UInt64Type>();
                let found = each(args, |row| Ok(Some(format!("{:X}", numbers.value(row)))))?;
                return Ok(Arc::new(StringArray::from(found)));
            }
            if args[0].data_type().is_integer() {
                let wide = [arrow::compute::cast(&args[0], &arrow::datatypes::DataType::Int64)?];
                let found = each(&wide, |row| Ok(Some(format!("{:X}", integer(&wide, 0, row)))))?;
                return Ok(Arc::new(StringArray::from(found)));
            }
            let bytes = arrow::compute::cast(&args[0], &arrow::datatypes::DataType::Binary)?;
            let bytes = bytes.as_binary::<i32>();
            let digits = |one: &u8| format!("{one:02X}");
            let found = each(args, |row| {
                Ok(Some(bytes.value(row).iter().map(digits).collect::<String>()))
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["unhex", "from_hex"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Bytes,
        compute: |args| {
            let found = each(args, |row| {
                let digits = text(args, 0).value(row);
                let padded =
                    if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.into() };
                let pair = |at: usize| {
                    let pair = padded.get(at..at + 2).unwrap_or("?");
                    u8::from_str_radix(pair, 16)
                };
                let bytes: Result<Vec<u8>, _> = (0..padded.len()).step_by(2).map(pair).collect();
                match bytes {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(_) => wrong(format!("`{digits}` is not hexadecimal")),
                }
            })?;
            Ok(Arc::new(found.into_iter().collect::<BinaryArray>()))
        },
    },
    RowFunction {
        names: &["to_base64", "base64"],
        takes: &[Bytes],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let bytes = args[0].as_binary::<i32>();
            let found = each(args, |row| Ok(Some(encoded(bytes.value(row)))))?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["from_base64"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Bytes,
        compute: |args| {
            let found = each(args, |row| {
                let digits = text(args, 0).value(row);
                match decoded(digits) {
                    Some(bytes) => Ok(Some(bytes)),
                    None => wrong(format!("`{digits}` is not base64")),
                }
            })?;
            Ok(Arc::new(found.into_iter().collect::<BinaryArray>()))
        },
    },
    RowFunction {
        names: &["url_encode"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            of_text(args, |text| {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
                let escape = |byte: u8| match is_plain(byte) {
                    true => (byte as char).to_string(),
                    false => format!("%{byte:02X}"),
                };
                Ok(Some(text.bytes().map(escape).collect()))
            })
        },
    },
    RowFunction {
        names: &["url_decode"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| of_text(args, |text| url_decoded(text).map(Some)),
    },
    RowFunction {
        names: &["parse_filename"],
        takes: &[Text, Any],
        optional: 1,
        returns: ResultKind::Text,
        compute: |args| {
            let trims = |row: usize| {
                args.get(1).and_then(|arg| arg.as_boolean_opt()).is_some_and(|it| it.value(row))
            };
            let found = each(args, |row| {
                let name = text(args, 0).value(row).rsplit(['/', '\\']).next().unwrap_or_default();
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                Ok(Some(if trims(row) { stem } else { name }.to_string()))
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["parse_dirname"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            of_text(args, |path| {
                Ok(Some(path.split_once('/').map_or("", |(first, _)| first).to_string()))
            })
        },
    },
    RowFunction {
        names: &["parse_dirpath"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            of_text(args, |path| {
                Ok(Some(path.rsplit_once('/').map_or("", |(folder, _)| folder).to_string()))
            })
        },
    },
    RowFunction {
        names: &["parse_path"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| {
            lists(args, |row| {
                let parts = text(args, 0).value(row).split('/').enumerate();
                let is_root = text(args, 0).value(row).starts_with('/');
                let parts = parts.filter(|(at, part)| *at == 0 && is_root || !part.is_empty());
                let part = |(at, part): (usize, &str)| match (at, part) {
                    (0, "") => "/".to_string(),
                    (_, part) => part.to_string(),
                };
                Ok(parts.map(part).collect())
            })
        },
    },
];

/// Lists of texts.
pub(super) fn lists(
    args: &[ArrayRef],
    of: impl FnMut(usize) -> Computed<Vec<String>>,
) -> Computed<ArrayRef> {
    let mut of = of;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for list in each(args, |row| of(row).map(Some))? {
        let valid = list.is_some();
        list.into_iter().flatten().for_each(|part| lists.values().append_value(part));
        lists.append(valid);
    }
    Ok(Arc::new(lists.finish()))
}

/// The regular expression of the last row, which is usually that of the next one, too.
#[derive(Default)]
struct LastPattern(Option<(String, Regex)>);

impl LastPattern {
    fn of(&mut self, pattern: &str) -> Computed<&Regex> {
        if self.0.as_ref().is_none_or(|(known, _)| known != pattern) {
            let Ok(regex) = Regex::new(pattern) else {
                return wrong(format!("`{pattern}` is no regular expression"));
            };
            self.0 = Some((pattern.to_string(), regex));
        }
        Ok(&self.0.as_ref().expect("it has been compiled").1)
    }
}

/// Blocks that fill a share of a width, the last one in eighths.
fn bar(value: f64, low: f64, high: f64, width: f64) -> Computed<String> {
    if !value.is_finite() || !low.is_finite() || !high.is_finite() || low >= high {
        return wrong("a bar is between two numbers, of which the second is greater".into());
    }
    if !(1.0..=BAR_CHARS_MAX).contains(&width) {
        return wrong(format!("a bar has 1 to {BAR_CHARS_MAX} characters"));
    }
    let share = (value.clamp(low, high) - low) / (high - low);
    let filled = share * width;
    let whole = filled.floor();
    let eighths = ((filled - whole) * 8.0).floor() as usize;
    let parts = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let mut bar = "█".repeat(whole as usize);
    let chars = whole as usize + usize::from(whole < width);
    if whole < width {
        bar += parts[eighths];
    }
    bar += &" ".repeat((width as usize).saturating_sub(chars));
    Ok(bar)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            match place <= three.len() {
                true => text.push(BASE64[(bits >> (18 - 6 * place) & 63) as usize] as char),
                false => text.push('='),
            }
        }
    }
    text
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = vec![];
    let last = (text.len() / 4).wrapping_sub(1);
    for (at, four) in text.as_bytes().chunks(4).enumerate() {
        let padding =
            if at == last { four.iter().rev().take_while(|it| **it == b'=').count() } else { 0 };
        if padding > 2 {
            return None;
        }
        let mut bits = 0;
        for digit in &four[..4 - padding] {
            bits = bits << 6 | BASE64.iter().position(|known| known == digit)? as u32;
        }
        bits <<= 6 * padding;
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

fn url_decoded(text: &str) -> Computed<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let pair = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let pair = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, pair) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (other, _) => {
                bytes.push(*other);
                rest = behind;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => wrong(format!("`{text}` does not decode to text")),
    }
}
