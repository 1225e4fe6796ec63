//! Casts: implicit ones, which the caller knows to be possible, and explicit ones.

use arrow::compute::can_cast_types;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Cast, Expr, Operator, TryCast};
use euphrates_flow::{Error, Result};

use super::common_type::plain;
use super::functions::{decimals, exact, materialize, rounding, text_casts, time_zones};
use super::operators::binary;
use super::typed::Typed;
use super::types::{Family, in_words};

impl Typed {
    /// Fails unless the type is boolean or null.
    pub(crate) fn boolean(self, what: &str) -> Result<Typed> {
        match self.family() {
            Family::Boolean | Family::Null => Ok(self.cast(&DataType::Boolean)),
            _ => {
                let is = in_words(&self.data_type);
                let message = format!("{what} must be true or false, but `{}` is {is}", self.text);
                Err(Error::usage(message).remedy("compare it with something"))
            }
        }
    }

    /// Casts to a type that the caller knows to be possible.
    pub(crate) fn cast(self, to: &DataType) -> Typed {
        if self.data_type == *to {
            return self;
        }
        let from = materialize::unpacked(self);
        if from.data_type == *to {
            return from;
        }
        if let (DataType::Timestamp(_, None), DataType::Date32) = (plain(&from.data_type), to) {
            return exact::day(from);
        }
        if *plain(&from.data_type) == DataType::Date64 && is_text(to) {
            return from.cast(&DataType::Date32).cast(to);
        }
        let plain_from = plain(&from.data_type);
        if text_casts::reads(plain_from, to) || text_casts::shows(plain_from, to) {
            return text_casts::converted(from, to, false);
        }
        if is_narrower(plain(&from.data_type), to) {
            return exact::narrowed(from, false);
        }
        let is_floating = matches!(to, DataType::Float32 | DataType::Float64);
        if is_floating && plain(&from.data_type).is_decimal() {
            return exact::nearest(from, to);
        }
        let plain_from = plain(&from.data_type);
        if time_zones::places(plain_from, to) || time_zones::shows(plain_from, to) {
            return time_zones::converted(from, to);
        }
        if let Some(between) = decimals::between(plain(&from.data_type), to) {
            return from.cast(&between).cast(to);
        }
        let cast = Expr::Cast(Cast::new(Box::new(from.expr), to.clone()));
        Typed::new(cast, to.clone(), from.text)
    }

    /// An explicit `CAST`, or `TRY_CAST` if `tries`.
    pub(crate) fn cast_explicit(self, to: DataType, tries: bool) -> Result<Typed> {
        let from = plain(&self.data_type);
        if from.is_decimal() && to == DataType::Boolean {
            let zero = Typed::literal(ScalarValue::from(0), "0");
            return binary(self, Operator::NotEq, zero);
        }
        if *from == DataType::Boolean && to.is_decimal() {
            return self.cast(&DataType::Int8).cast_explicit(to, tries);
        }
        let is_text = text_casts::shows(from, &to) || text_casts::reads(from, &to);
        if !can_cast_types(&self.data_type, &to) && !is_text {
            let message = format!("{} cannot be made {}", self.described(), in_words(&to));
            return Err(Error::usage(message));
        }
        let text = format!("CAST({} AS {to})", self.text);
        let of = rounding::nearest(self, &to);
        of.converted(to, tries, text)
    }

    /// The cast of a value that is rounded already.
    fn converted(self, to: DataType, tries: bool, text: String) -> Result<Typed> {
        // This cast cannot fail.
        let is_sure = plain(&self.data_type).is_decimal() && to.is_floating()
            || matches!(plain(&self.data_type), DataType::Timestamp(..) | DataType::Date64)
                && is_text(&to)
            || text_casts::shows(plain(&self.data_type), &to);
        if !tries || is_sure {
            return Ok(Typed { text, ..self.cast(&to) });
        }
        if text_casts::reads(plain(&self.data_type), &to) {
            let of = materialize::unpacked(self);
            return Ok(Typed { text, ..text_casts::converted(of, &to, true) });
        }
        if let Some(between) = decimals::between(plain(&self.data_type), &to) {
            let tried = self.cast_explicit(between, true)?.cast_explicit(to, true)?;
            return Ok(Typed { text, ..tried });
        }
        if let (DataType::Timestamp(unit, Some(_)), true) =
            (plain(&self.data_type).clone(), time_zones::shows(plain(&self.data_type), &to))
        {
            let local = self.cast(&DataType::Timestamp(unit, None));
            return match local.data_type == to {
                true => Ok(Typed { text, ..local }),
                false => Ok(Typed { text, ..local.cast_explicit(to, true)? }),
            };
        }
        if is_narrower(plain(&self.data_type), &to) {
            return Ok(Typed { text, ..exact::narrowed(self, true) });
        }
        let expr = Box::new(materialize::unpacked(self).expr);
        Ok(Typed::new(Expr::TryCast(TryCast::new(expr, to.clone())), to, text))
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether a floating point number may be too large for the type.
fn is_narrower(from: &DataType, to: &DataType) -> bool {
    (from, to) == (&DataType::Float64, &DataType::Float32)
}
