//! Coerces several expressions to a common type, by the rules of `common_type.rs`.

use arrow::datatypes::DataType;
use datafusion_expr::type_coercion::other::get_coerce_type_for_case_expression;
use euphrates_flow::{Error, Result};

use super::common_type::{common, decimal_size, of_all, plain};
use super::functions::{decimals, exact};
use super::literals::{exact_decimal, fit};
use super::typed::Typed;
use super::types::Family;

/// Casts two expressions of one family to types in which their values compare exactly.
pub(crate) fn coerce_comparison(left: Typed, right: Typed) -> (Typed, Typed) {
    let (one, other) = (plain(&left.data_type), plain(&right.data_type));
    let same = left.data_type == right.data_type;
    let is_interval = |one: &DataType| matches!(one, DataType::Interval(_));
    let differ = is_instant(one) && is_instant(other) && one != other;
    if differ || Family::of(one) == Family::of(other) && (is_interval(one) || is_interval(other)) {
        return (exact::instant(left.clone(), &right), exact::instant(right, &left));
    }
    let exact = |one: &DataType| decimal_size(one).is_some();
    let (left, right) = match common(one, other) {
        None if exact(one) && exact(other) => return decimals::keyed(left, right),
        Some(common) if !same => (left.cast(&common), right.cast(&common)),
        _ => (left, right),
    };
    (exact::canonical(left), exact::canonical(right))
}

fn is_instant(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Date32 | Date64 | Timestamp(..) | Duration(_))
}

/// Casts the alternatives of one result to a common type; an error calls them `what`.
pub(crate) fn unified(items: Vec<Typed>, what: &str) -> Result<Vec<Typed>> {
    let columns = items.iter().filter(|item| item.value().is_none());
    let columns: Vec<&DataType> = columns.map(|item| &item.data_type).collect();
    let of_columns = of_all(columns.iter().copied());
    let items: Vec<Typed> =
        items.into_iter().map(|item| fit_to_columns(item, of_columns.as_ref())).collect();
    let types: Vec<DataType> = items.iter().map(|item| item.data_type.clone()).collect();
    let unified = of_all(types.iter()).or_else(|| match reads_text(&items) {
        false => get_coerce_type_for_case_expression(&types, None),
        true => None,
    });
    let Some(unified) = unified else {
        let all: Vec<_> = items.iter().map(Typed::described).collect();
        return Err(Error::usage(format!("{what} have no common type"))
            .remedy(format!("convert some of {} with CAST(… AS …)", all.join(", "))));
    };
    Ok(items.into_iter().map(|item| item.cast(&unified)).collect())
}

/// Whether a text column would have to be cast to times, which fails for most text.
fn reads_text(items: &[Typed]) -> bool {
    let is_text = |item: &Typed| item.family() == Family::Text && item.value().is_none();
    let is_time =
        |item: &Typed| matches!(item.family(), Family::Date | Family::Time | Family::Interval);
    items.iter().any(is_text) && items.iter().any(is_time)
}

/// A literal in the type of the columns next to it if that loses nothing; next to decimals, else
/// the decimal it was written as.
fn fit_to_columns(item: Typed, columns: Option<&DataType>) -> Typed {
    let (Some(value), Some(columns)) = (item.value(), columns) else { return item };
    if value.is_null() || Family::of(&item.data_type) != Family::of(columns) {
        return item;
    }
    // 0.0 next to integers, or a cast to double, is not meant as an integer.
    let columns_are = plain(columns);
    let is_cast = item.text.starts_with("CAST");
    if item.data_type.is_floating() && (is_cast || columns_are.is_integer()) {
        return item;
    }
    let decimal = || columns_are.is_decimal().then(|| exact_decimal(&item)).flatten();
    match fit(value, &item.text, columns_are).or_else(decimal) {
        Some(value) => Typed::literal(value, item.text),
        None => item,
    }
}

/// Casts two numbers to types that arithmetic accepts. A signed and an unsigned integer become
/// decimals where no integer type holds both.
pub(crate) fn coerce_arithmetic(left: Typed, right: Typed) -> (Typed, Typed) {
    let (left, right) = fit_to_each_other(left, right);
    let (one, other) = (plain(&left.data_type), plain(&right.data_type));
    if !one.is_decimal() && !other.is_decimal() || one.is_floating() || other.is_floating() {
        return match common(one, other) {
            Some(common) => (left.cast(&common), right.cast(&common)),
            None => (left, right),
        };
    }
    let is_large = |one: &DataType| matches!(one, DataType::Decimal256(..));
    let is_large = is_large(one) || is_large(other);
    let wide = |side: Typed| match decimal_size(plain(&side.data_type)) {
        Some((digits, scale)) if is_large => side.cast(&DataType::Decimal256(digits, scale)),
        Some((digits, scale)) => side.cast(&DataType::Decimal128(digits, scale)),
        None => side,
    };
    (wide(left), wide(right))
}

/// A literal next to a decimal becomes a decimal; a positive integer literal next to an unsigned
/// integer becomes unsigned.
fn fit_to_each_other(left: Typed, right: Typed) -> (Typed, Typed) {
    let fit_literal = |literal: &Typed, other: &Typed| -> Option<Typed> {
        let value = literal.value().filter(|_| other.value().is_none())?;
        let value = match plain(&other.data_type) {
            decimal if decimal.is_decimal() => exact_decimal(literal),
            DataType::UInt64 if literal.data_type.is_integer() => {
                fit(value, &literal.text, &DataType::UInt64)
            }
            _ => None,
        };
        Some(Typed::literal(value?, literal.text.clone()))
    };
    if let Some(left) = fit_literal(&left, &right) {
        return (left, right);
    }
    let right = fit_literal(&right, &left).unwrap_or(right);
    (left, right)
}
