//! Arguments of aggregate calls that are constants: fractions, numbers of values, separators.

use euphrates_flow::{Error, Result};
use sqlparser::ast::{BinaryOperator, Expr, OrderByExpr, UnaryOperator, Value};

use super::WrittenCall;
use crate::expression::{call_arguments, constant_text};

/// The most values that `max(x, n)` lists.
const COUNT_MAX: usize = 1_000_000;

impl WrittenCall<'_> {
    /// Takes the number of values, the last argument.
    pub(super) fn count(&mut self) -> Result<usize> {
        let text = self.args.pop().map_or(String::new(), |arg| arg.to_string());
        let count = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
        count.ok_or_else(|| {
            let error =
                Error::usage(format!("`{}`: `{text}` is not a number of values", self.text));
            error.remedy(format!("write a number between 1 and {COUNT_MAX}, like 3"))
        })
    }

    /// Whether the second argument is a list.
    pub(super) fn has_fractions(&self) -> bool {
        matches!(self.args.get(1), Some(Expr::Array(_))) || self.list_call().is_some()
    }

    /// The items of a second argument that is written as a call.
    fn list_call(&self) -> Option<Vec<Expr>> {
        let Some(Expr::Function(call)) = self.args.get(1) else { return None };
        let is_list = call.name.to_string().eq_ignore_ascii_case("make_array");
        let items = call_arguments(call).ok().filter(|_| is_list)?;
        Some(items.into_iter().cloned().collect())
    }

    /// Takes the list of fractions, the second argument.
    pub(super) fn fractions(&mut self) -> Result<(Vec<f64>, bool)> {
        self.accept_args(2)?;
        let items = match (self.list_call(), self.args.pop()) {
            (Some(items), _) => items,
            (None, Some(Expr::Array(list))) => list.elem.into_iter().collect(),
            _ => vec![],
        };
        let is_descending = |key: &OrderByExpr| key.options.asc == Some(false);
        let descending = self.order.drain(..).any(|key| is_descending(&key));
        let fractions = items.iter().map(|item| self.fraction_of(item, 0.0));
        Ok((fractions.collect::<Result<Vec<f64>>>()?, descending))
    }

    /// The fraction that an expression of numbers is, not below this number.
    fn fraction_of(&self, item: &Expr, least: f64) -> Result<f64> {
        let found = number_of(item).filter(|fraction| (least..=1.0).contains(fraction));
        found.ok_or_else(|| {
            let error = Error::usage(format!("`{}`: `{item}` is no fraction", self.text));
            error.remedy("write a number between 0 and 1, like 0.95")
        })
    }

    /// Takes the fraction of a quantile, the second argument, between 0 and 1; and whether it is
    /// counted from the greatest value, as a negative one is.
    pub(super) fn fraction(&mut self) -> Result<(f64, bool)> {
        self.accept_args(2)?;
        let written = self.args.pop().expect("there are two");
        let fraction = self.fraction_of(&written, -1.0)?;
        let is_descending = |key: &OrderByExpr| key.options.asc == Some(false);
        let descending = self.order.drain(..).any(|key| is_descending(&key));
        Ok((fraction.abs(), descending != (fraction < 0.0)))
    }

    /// Takes the text between joined ones: the second argument, or a comma.
    pub(super) fn separator(&mut self) -> Result<String> {
        if self.args.len() < 2 {
            return Ok(",".into());
        }
        self.accept_args(2)?;
        let written = self.args.pop().map_or(String::new(), |arg| arg.to_string());
        match constant_text(&written)? {
            Some(text) => Ok(text),
            None => Err(self.wrong(&format!("the separator `{written}` is not text"))),
        }
    }
}

/// The number that an expression of literals is.
fn number_of(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Nested(inner) => number_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(-number_of(expr)?),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Cast { expr, .. } => number_of(expr),
        Expr::BinaryOp { left, op: BinaryOperator::Divide, right } => {
            Some(number_of(left)? / number_of(right)?)
        }
        _ => None,
    }
}
