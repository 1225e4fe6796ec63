//! Bounds of the size of function results, reserved before a function runs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArrayType};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use euphrates_flow::array_bytes;

use super::delegate::described_by_plain;
use crate::expression::budget;

/// Bytes of a value besides its text: an offset or a view.
const VALUE_BYTES: usize = 16;

/// Wraps a function so that it reserves memory before it runs.
pub(crate) fn metered(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Metered { plain }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Metered {
    plain: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Metered {
    described_by_plain!();

    fn short_circuits(&self) -> bool {
        self.plain.short_circuits()
    }

    /// The simplified form may be a call of the plain function.
    fn simplify(
        &self,
        args: Vec<Expr>,
        context: &SimplifyContext,
    ) -> Result<ExprSimplifyResult, DataFusionError> {
        match self.plain.simplify(args, context)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call))
                if call.func == self.plain =>
            {
                let func = metered(call.func);
                let call = ScalarFunction { func, args: call.args };
                Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
            }
            other => Ok(other),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let (name, rows) = (self.plain.name(), args.number_rows);
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let rows = if args.args.iter().all(is_constant) { 1 } else { rows };
        let most = match is_long(args.return_field.data_type()) || name == "levenshtein" {
            true => bytes_max(name, &args.args, rows),
            false => rows.saturating_mul(VALUE_BYTES),
        };
        let most = match most <= budget::left() {
            true => most,
            false => most.min(counted(name, &args.args, rows).unwrap_or(most)),
        };
        budget::take(most)?;
        self.plain.invoke_with_args(args)
    }
}

/// An upper bound of the result's bytes, from the lengths of the arguments.
fn bytes_max(name: &str, args: &[ColumnarValue], rows: usize) -> usize {
    let each = |growth: &dyn Fn(usize) -> usize| {
        let all = (0..rows).map(growth);
        all.fold(0, |sum: usize, one| sum.saturating_add(one).saturating_add(VALUE_BYTES))
    };
    let text = |at: usize| Lengths::of(args.get(at));
    let number = |at: usize| NumericArgument::of(args.get(at));
    match name {
        "repeat" => {
            let (text, times) = (text(0), number(1));
            each(&|row| text.at(row).saturating_mul(times.at(row)))
        }
        "lpad" | "rpad" => {
            let (text, length) = (text(0), number(1));
            // Its length counts characters of up to four bytes.
            each(&|row| text.at(row).max(length.at(row).saturating_mul(4)))
        }
        "left" | "right" => {
            let (text, length) = (text(0), number(1));
            each(&|row| text.at(row).min(length.characters(row)))
        }
        "substr" if args.len() == 3 => {
            let (text, length) = (text(0), number(2));
            each(&|row| text.at(row).min(length.characters(row)))
        }
        "replace" => {
            let (text, from, to) = (text(0), text(1), text(2));
            each(&|row| {
                let times = text.at(row) / from.at(row).max(1) + 1;
                text.at(row).saturating_add(times.saturating_mul(to.at(row)))
            })
        }
        "regexp_replace" => {
            let (text, to) = (text(0), text(2));
            let groups = groups(args.get(2), rows);
            each(&|row| replaced(text.at(row), text.at(row) + 1, to.at(row), groups))
        }
        "regexp_match" => {
            let text = text(0);
            let groups = 1 + longest(args.get(1), b'(', rows);
            each(&|row| text.at(row).saturating_add(VALUE_BYTES).saturating_mul(groups))
        }
        "concat_ws" => {
            let separator = text(0);
            let between = each(&|row| separator.at(row).saturating_mul(args.len()));
            between.saturating_add(all_text(args, rows, 1))
        }
        "to_char" | "date_format" => {
            let format = text(1);
            each(&|row| format.at(row).saturating_mul(32))
        }
        "translate" | "url_encode" => all_text(args, rows, 4),
        "bar" => rows.saturating_mul(4096),
        "string_split" | "str_split" | "split" | "regexp_extract_all" => all_text(args, rows, 5),
        "strftime" => all_text(args, rows, 16),
        "hex" | "base64" | "to_base64" | "regexp_escape" => all_text(args, rows, 2),
        "md5" | "sha1" | "sha256" => rows.saturating_mul(64 + VALUE_BYTES),
        "lower" | "upper" | "initcap" => all_text(args, rows, 3),
        _ => all_text(args, rows, 1),
    }
}

/// A tighter bound for functions whose results may be much shorter, found by scanning the text.
fn counted(name: &str, args: &[ColumnarValue], rows: usize) -> Option<usize> {
    let (text, pattern) = (TextArgument::of(args.first()?)?, TextArgument::of(args.get(1)?)?);
    let to = Lengths::of(args.get(2));
    let mut sum: usize = 0;
    match name {
        "replace" => {
            for row in 0..rows {
                let (Some(text), Some(from)) = (text.at(row), pattern.at(row)) else { continue };
                let times = text.matches(from).count();
                sum =
                    sum.saturating_add(text.len()).saturating_add(times.saturating_mul(to.at(row)));
            }
        }
        "regexp_replace" => {
            let regex = regex::Regex::new(pattern.constant()?).ok()?;
            let groups = groups(args.get(2), rows);
            for row in 0..rows {
                let Some(text) = text.at(row) else { continue };
                let times = regex.find_iter(text).count();
                sum = sum.saturating_add(replaced(text.len(), times, to.at(row), groups));
            }
        }
        _ => return None,
    }
    Some(sum.saturating_add(rows * VALUE_BYTES))
}

/// The text kept, the replacements, and the text of their groups: all matches are parts of the
/// text.
fn replaced(text: usize, times: usize, to: usize, groups: usize) -> usize {
    let kept = text.saturating_mul(1 + groups);
    kept.saturating_add(times.saturating_mul(to))
}

/// The maximum number of groups that a replacement refers to.
fn groups(replacement: Option<&ColumnarValue>, rows: usize) -> usize {
    longest(replacement, b'\\', rows).saturating_add(longest(replacement, b'$', rows))
}

/// The maximum number of occurrences of a byte in a text.
fn longest(text: Option<&ColumnarValue>, byte: u8, rows: usize) -> usize {
    let Some(texts) = text.and_then(TextArgument::of) else { return 0 };
    let count = |text: &str| text.bytes().filter(|other| *other == byte).count();
    match texts.constant() {
        Some(text) => count(text),
        None => (0..rows).filter_map(|row| texts.at(row).map(count)).max().unwrap_or(0),
    }
}

/// The bytes of all arguments, `times` over; constants are repeated for each row.
pub(crate) fn all_text(args: &[ColumnarValue], rows: usize, times: usize) -> usize {
    let bytes = args.iter().map(|arg| match arg {
        ColumnarValue::Array(array) if is_long(array.data_type()) => array_bytes(array),
        ColumnarValue::Scalar(scalar) => scalar_bytes(scalar).saturating_mul(rows),
        _ => 0,
    });
    let sum = bytes.fold(0, usize::saturating_add);
    sum.saturating_mul(times).saturating_add(rows.saturating_mul(VALUE_BYTES))
}

/// Whether values of this type have variable length.
pub(crate) fn is_long(data_type: &DataType) -> bool {
    !data_type.is_primitive() && !matches!(data_type, DataType::Boolean | DataType::Null)
}

/// The bytes of the value in one row.
pub(crate) fn scalar_bytes(scalar: &ScalarValue) -> usize {
    match scalar.try_as_str().flatten() {
        Some(text) => text.len(),
        None if is_long(&scalar.data_type()) => scalar.size(),
        None => 0,
    }
}

/// A text argument of any string type.
enum TextArgument<'a> {
    One(Option<&'a str>),
    Utf8(&'a ArrayRef),
    Large(&'a ArrayRef),
    View(&'a ArrayRef),
}

impl<'a> TextArgument<'a> {
    fn of(value: &'a ColumnarValue) -> Option<TextArgument<'a>> {
        match value {
            ColumnarValue::Scalar(scalar) => scalar.try_as_str().map(TextArgument::One),
            ColumnarValue::Array(array) => match array.data_type() {
                DataType::Utf8 => Some(TextArgument::Utf8(array)),
                DataType::LargeUtf8 => Some(TextArgument::Large(array)),
                DataType::Utf8View => Some(TextArgument::View(array)),
                _ => None,
            },
        }
    }

    fn constant(&self) -> Option<&'a str> {
        match self {
            TextArgument::One(text) => *text,
            _ => None,
        }
    }

    fn at(&self, row: usize) -> Option<&'a str> {
        fn of<'a>(array: impl StringArrayType<'a>, row: usize) -> Option<&'a str> {
            (row < array.len() && array.is_valid(row)).then(|| array.value(row))
        }
        match self {
            TextArgument::One(text) => *text,
            TextArgument::Utf8(array) => of(array.as_string::<i32>(), row),
            TextArgument::Large(array) => of(array.as_string::<i64>(), row),
            TextArgument::View(array) => of(array.as_string_view(), row),
        }
    }
}

/// The lengths of a text argument; 0 for other types.
struct Lengths<'a>(Option<TextArgument<'a>>);

impl<'a> Lengths<'a> {
    fn of(value: Option<&'a ColumnarValue>) -> Lengths<'a> {
        Lengths(value.and_then(TextArgument::of))
    }

    fn at(&self, row: usize) -> usize {
        self.0.as_ref().and_then(|texts| texts.at(row)).map_or(0, str::len)
    }
}

/// The values of a numeric argument.
enum NumericArgument {
    One(i64),
    Many(ArrayRef),
}

impl NumericArgument {
    fn of(value: Option<&ColumnarValue>) -> NumericArgument {
        let whole = match value {
            Some(ColumnarValue::Array(array)) => cast(array, &DataType::Int64).ok(),
            Some(ColumnarValue::Scalar(scalar)) => match scalar.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(Some(number))) => return NumericArgument::One(number),
                _ => None,
            },
            None => None,
        };
        whole.map_or(NumericArgument::One(0), NumericArgument::Many)
    }

    /// Negative numbers count as 0.
    fn at(&self, row: usize) -> usize {
        usize::try_from(self.value(row)).unwrap_or(0)
    }

    /// Maximum bytes of this number of characters; a negative number counts from the other end.
    fn characters(&self, row: usize) -> usize {
        usize::try_from(self.value(row)).map_or(usize::MAX, |count| count.saturating_mul(4))
    }

    fn value(&self, row: usize) -> i64 {
        match self {
            NumericArgument::One(number) => *number,
            NumericArgument::Many(array) => {
                let array = array.as_primitive::<Int64Type>();
                let known = row < array.len() && array.is_valid(row);
                if known { array.value(row) } else { 0 }
            }
        }
    }
}
