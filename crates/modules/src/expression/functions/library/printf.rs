//! `printf('%05d %s', n, name)` and `format('{:,} {}', n, name)`: values in the places of a text.
//!
//! A text is parsed for each row: it is mostly the same, but may be a column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion_common::plan_err;
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::c_numbers::{exponent_of, shortest, with_exponent};
use super::row_functions::{Computed, wrong};
use crate::expression::budget;
use crate::expression::common_type::plain;

/// The most characters that a place may be widened to, and digits behind its point.
const WIDTH_MAX: usize = 1 << 16;

/// The functions, for both ways to write a place.
pub(super) fn functions() -> [Arc<ScalarUDF>; 2] {
    [("printf", true), ("format", false)].map(|(name, is_c)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(FilledText { name, is_c, signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FilledText {
    name: &'static str,
    /// Whether places are those of C's `printf`.
    is_c: bool,
    signature: Signature,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
enum TextPart {
    Text(String),
    Place(Place),
}

/// How a value is written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    argument: usize,
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    is_alternate: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
    separator: Option<char>,
    kind: Option<char>,
}

enum FilledValue<'a> {
    Whole(i128),
    Float(f64),
    Text(&'a str),
    Boolean(bool),
}

impl ScalarUDFImpl for FilledText {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Computed<Vec<DataType>> {
        let Some((text, values)) = types.split_first() else {
            return plan_err!("{} needs a text", self.name);
        };
        if !matches!(plain(text), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            && *text != DataType::Null
        {
            return plan_err!("{} needs a text", self.name);
        }
        let coerced = values.iter().map(|of| match plain(of) {
            of if of.is_integer() => DataType::Decimal128(38, 0),
            DataType::Decimal128(_, 0) => DataType::Decimal128(38, 0),
            of if of.is_numeric() => DataType::Float64,
            DataType::Boolean => DataType::Boolean,
            _ => DataType::Utf8,
        });
        Ok([DataType::Utf8].into_iter().chain(coerced).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Computed<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Computed<Vec<_>>>();
        let columns = columns?;
        let texts = columns[0].as_string::<i32>();
        let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
        let mut filled = StringBuilder::new();
        let mut parsed: Option<(&str, Vec<TextPart>)> = None;
        for row in 0..rows {
            if nulls.iter().any(|nulls| nulls.is_null(row)) {
                filled.append_null();
                continue;
            }
            let text = texts.value(row);
            let parts = match parsed.take() {
                Some((same, parts)) if same == text => parts,
                _ if self.is_c => c_parts(text)?,
                _ => brace_parts(text)?,
            };
            let mut written = String::new();
            for part in &parts {
                match part {
                    TextPart::Text(text) => written.push_str(text),
                    TextPart::Place(place) => {
                        let Some(column) = columns.get(place.argument + 1) else {
                            let number = place.argument + 1;
                            return wrong(format!("{} has no value {number}", self.name));
                        };
                        written.push_str(&place.written(&value(column, row))?);
                    }
                }
            }
            budget::take(written.len())?;
            filled.append_value(&written);
            parsed = Some((text, parts));
        }
        Ok(ColumnarValue::Array(Arc::new(filled.finish())))
    }
}

fn value(column: &ArrayRef, row: usize) -> FilledValue<'_> {
    match column.data_type() {
        DataType::Decimal128(..) => {
            FilledValue::Whole(column.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Float64 => FilledValue::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => FilledValue::Boolean(column.as_boolean().value(row)),
        _ => FilledValue::Text(column.as_string::<i32>().value(row)),
    }
}

/// The parts of a text of `printf`: `%[flags][width][.digits]kind`.
fn c_parts(text: &str) -> Computed<Vec<TextPart>> {
    let mut parts = vec![];
    let mut rest = text;
    let mut argument = 0;
    while let Some((before, behind)) = rest.split_once('%') {
        parts.push(TextPart::Text(before.into()));
        if let Some(behind) = behind.strip_prefix('%') {
            parts.push(TextPart::Text("%".into()));
            rest = behind;
            continue;
        }
        let mut place = Place { argument, align: Some('>'), ..Place::default() };
        let mut signs = behind.chars().peekable();
        while let Some(flag) = signs.next_if(|one| "-+ #0,_'".contains(*one)) {
            match flag {
                '-' => place.align = Some('<'),
                '+' | ' ' => place.sign = Some(flag),
                '#' => place.is_alternate = true,
                '0' => place.has_zeros = true,
                separator => place.separator = Some(separator),
            }
        }
        place.width = number(&mut signs)?.unwrap_or(0);
        if signs.next_if_eq(&'.').is_some() {
            place.precision = Some(number(&mut signs)?.unwrap_or(0));
        }
        while signs.next_if(|one| "hlLqjzt".contains(*one)).is_some() {}
        let Some(kind) = signs.next() else {
            return wrong(format!("`{text}` ends within a place"));
        };
        place.kind = Some(if matches!(kind, 'i' | 'u') { 'd' } else { kind });
        parts.push(TextPart::Place(place));
        argument += 1;
        rest = &behind[behind.len() - signs.map(char::len_utf8).sum::<usize>()..];
    }
    parts.push(TextPart::Text(rest.into()));
    Ok(parts)
}

/// The parts of a text of `format`:
/// `{[number][:[[fill]align][sign][#][0][width][,][.digits][kind]]}`.
fn brace_parts(text: &str) -> Computed<Vec<TextPart>> {
    let mut parts = vec![];
    let mut signs = text.chars().peekable();
    let mut plain = String::new();
    let mut argument = 0;
    while let Some(sign) = signs.next() {
        match sign {
            '{' | '}' if signs.next_if_eq(&sign).is_some() => plain.push(sign),
            '}' => return wrong(format!("`{text}` has a `}}` without `{{`; write `}}}}`")),
            '{' => {
                parts.push(TextPart::Text(std::mem::take(&mut plain)));
                let mut place = Place { argument, ..Place::default() };
                match number(&mut signs)? {
                    Some(number) => place.argument = number,
                    None => argument += 1,
                }
                if signs.next_if_eq(&':').is_some() {
                    place.read(&mut signs)?;
                }
                if signs.next() != Some('}') {
                    return wrong(format!("a place of `{text}` has no end, or an unknown format"));
                }
                parts.push(TextPart::Place(place));
            }
            other => plain.push(other),
        }
    }
    parts.push(TextPart::Text(plain));
    Ok(parts)
}

type Signs<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// The number that comes next, if one does.
fn number(signs: &mut Signs<'_>) -> Computed<Option<usize>> {
    let mut found = None;
    while let Some(digit) = signs.peek().and_then(|one| one.to_digit(10)) {
        signs.next();
        let number = found.unwrap_or(0_usize) * 10 + digit as usize;
        if number > WIDTH_MAX {
            return wrong(format!("a place has a number above {WIDTH_MAX}"));
        }
        found = Some(number);
    }
    Ok(found)
}

impl Place {
    /// Reads what stands behind the colon of a place of `format`.
    fn read(&mut self, signs: &mut Signs<'_>) -> Computed<()> {
        let is_align = |one: &char| matches!(one, '<' | '>' | '^');
        let mut ahead = signs.clone();
        let (first, second) = (ahead.next(), ahead.next());
        if second.is_some_and(|second| is_align(&second)) && first != Some('}') {
            (self.fill, self.align) = (signs.next(), signs.next());
        } else {
            self.align = signs.next_if(is_align);
        }
        self.sign = signs.next_if(|one| matches!(one, '+' | '-' | ' '));
        self.is_alternate = signs.next_if_eq(&'#').is_some();
        self.has_zeros = signs.next_if_eq(&'0').is_some();
        self.width = number(signs)?.unwrap_or(0);
        self.separator = signs.next_if(|one| matches!(one, ',' | '_' | '\''));
        if signs.next_if_eq(&'.').is_some() {
            self.precision = Some(number(signs)?.unwrap_or(0));
        }
        if signs.next_if_eq(&'t').is_some() {
            self.separator = signs.next();
        }
        self.kind = signs.next_if(char::is_ascii_alphabetic);
        Ok(())
    }

    fn written(&self, value: &FilledValue<'_>) -> Computed<String> {
        let (is_negative, prefix, digits) = match value {
            FilledValue::Text(text) => {
                return match self.kind {
                    None | Some('s') => {
                        let most = self.precision.unwrap_or(usize::MAX);
                        Ok(self.padded("", &text.chars().take(most).collect::<String>(), '<'))
                    }
                    Some(kind) => wrong(format!("`{kind}` does not write the text '{text}'")),
                };
            }
            FilledValue::Boolean(value) if matches!(self.kind, None | Some('s')) => {
                return Ok(self.padded("", &value.to_string(), '<'));
            }
            FilledValue::Boolean(value) => self.whole(i128::from(*value))?,
            FilledValue::Whole(value) => self.whole(*value)?,
            FilledValue::Float(value) => self.float(*value)?,
        };
        let sign = match self.sign {
            _ if is_negative => "-",
            Some('+') => "+",
            Some(' ') => " ",
            _ => "",
        };
        Ok(self.padded(&format!("{sign}{prefix}"), &self.grouped(&digits), '>'))
    }

    /// Whether a whole number is negative, what stands before its digits, and these.
    fn whole(&self, value: i128) -> Computed<(bool, &'static str, String)> {
        let size = value.unsigned_abs();
        let (prefix, digits) = match self.kind {
            None | Some('d') => ("", size.to_string()),
            Some('x') => ("0x", format!("{size:x}")),
            Some('X') => ("0X", format!("{size:X}")),
            Some('o') => ("0", format!("{size:o}")),
            Some('b') => ("0b", format!("{size:b}")),
            Some('B') => ("0B", format!("{size:b}")),
            Some('c') => match u32::try_from(value).ok().and_then(char::from_u32) {
                Some(one) => return Ok((false, "", one.into())),
                None => return wrong(format!("{value} is no character")),
            },
            Some(kind) => {
                return wrong(format!("`{kind}` does not write the whole number {value}"));
            }
        };
        Ok((value < 0, if self.is_alternate { prefix } else { "" }, digits))
    }

    fn float(&self, value: f64) -> Computed<(bool, &'static str, String)> {
        let size = value.abs();
        let digits = match self.kind {
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => "inf".into(),
            None if self.precision.is_none() => shortest(size),
            None | Some('g' | 'G') => self.general(size),
            Some('f' | 'F') => format!("{size:.*}", self.precision.unwrap_or(6)),
            Some('e' | 'E') => with_exponent(size, self.precision.unwrap_or(6)),
            Some(kind) => return wrong(format!("`{kind}` does not write the number {value}")),
        };
        let is_upper = matches!(self.kind, Some('E' | 'F' | 'G'));
        let digits = if is_upper { digits.to_uppercase() } else { digits };
        Ok((value.is_sign_negative() && !value.is_nan(), "", digits))
    }

    /// As C's `%g`: with an exponent if the number is very large or very small.
    fn general(&self, size: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let exponent = exponent_of(size, precision - 1);
        let is_long = exponent < -4 || exponent >= precision as i32;
        let written = match is_long {
            true => with_exponent(size, precision - 1),
            false => format!("{size:.*}", (precision as i32 - 1 - exponent) as usize),
        };
        if self.is_alternate {
            return written;
        }
        let (digits, exponent) = match written.split_once('e') {
            Some((digits, exponent)) => (digits, format!("e{exponent}")),
            None => (written.as_str(), String::new()),
        };
        let digits = match digits.contains('.') {
            true => digits.trim_end_matches('0').trim_end_matches('.'),
            false => digits,
        };
        format!("{digits}{exponent}")
    }

    /// The digits with a separator before every third one of the whole part.
    fn grouped(&self, digits: &str) -> String {
        let Some(separator) = self.separator else { return digits.into() };
        let end = digits.find(|one: char| !one.is_ascii_digit()).unwrap_or(digits.len());
        let mut written = String::new();
        for (at, digit) in digits[..end].chars().enumerate() {
            if at > 0 && (end - at) % 3 == 0 {
                written.push(separator);
            }
            written.push(digit);
        }
        written + &digits[end..]
    }

    fn padded(&self, sign: &str, digits: &str, usual: char) -> String {
        let missing = self.width.saturating_sub(sign.chars().count() + digits.chars().count());
        if self.has_zeros && self.align != Some('<') && usual == '>' {
            return format!("{sign}{}{digits}", "0".repeat(missing));
        }
        let before = match self.align.unwrap_or(usual) {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let fill = |count: usize| self.fill.unwrap_or(' ').to_string().repeat(count);
        format!("{}{sign}{digits}{}", fill(before), fill(missing - before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(part: &TextPart, value: &FilledValue<'_>) -> Option<String> {
        match part {
            TextPart::Text(text) => Some(text.clone()),
            TextPart::Place(place) => place.written(value).ok(),
        }
    }

    fn of(parts: Computed<Vec<TextPart>>, value: FilledValue<'_>) -> Option<String> {
        parts.ok()?.iter().map(|part| filled(part, &value)).collect()
    }

    #[test]
    fn values_are_written_as_c_does() {
        use FilledValue::*;
        for (text, value, expected) in [
            ("%05d", Whole(-42), Some("-0042")),
            ("%,d", Whole(1_234_567), Some("1,234,567")),
            ("%x %%", Whole(255), Some("ff %")),
            ("%e", Float(1.5), Some("1.500000e+00")),
            ("%g", Float(1e8), Some("1e+08")),
            ("%.3g", Float(0.000_123_456), Some("0.000123")),
            ("%-5s|", Text("ab"), Some("ab   |")),
            ("%5s|", Text("ab"), Some("   ab|")),
            ("%d", Text("ab"), None),
            ("%", Whole(1), None),
            ("%99999999d", Whole(1), None),
        ] {
            assert_eq!(of(c_parts(text), value).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn values_are_written_between_braces() {
        use FilledValue::*;
        for (text, value, expected) in [
            ("{:,.2f} {{}}", Float(12_345.678), Some("12,345.68 {}")),
            ("{:*^7}", Text("d"), Some("***d***")),
            ("{}", Float(1e20), Some("1e+20")),
            ("{}", Float(1.0), Some("1.0")),
            ("{:t.}", Whole(1_234_567), Some("1.234.567")),
            ("{:#x}", Whole(255), Some("0xff")),
            ("{0}", Boolean(true), Some("true")),
            ("{", Whole(1), None),
            ("}", Whole(1), None),
            ("{:q}", Whole(1), None),
        ] {
            assert_eq!(of(brace_parts(text), value).as_deref(), expected, "{text}");
        }
    }
}
