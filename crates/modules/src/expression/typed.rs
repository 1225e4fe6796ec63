//! Expressions with their types, and how two of them are brought together.
//!
//! A literal takes the type of what it meets whenever that loses nothing, so that it is the
//! literal that is converted, once, and not the column, batch by batch.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion_expr::{BinaryExpr, Cast, ColumnarValue, Expr, Operator, TryCast};
use datafusion_physical_expr::expressions::BinaryExpr as PhysicalBinary;
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use euphrates_flow::{Error, Kind, Result};

use super::types::{Family, in_words};

/// An expression and the type of its values.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The expression.
    pub expr: Expr,
    /// The type of its values.
    pub data_type: DataType,
    /// As it was written, for messages.
    pub text: String,
}

impl Typed {
    /// An expression, computed now if nothing but literals is in it.
    pub fn new(expr: Expr, data_type: DataType, text: impl Into<String>) -> Typed {
        let expr = folded(&expr).unwrap_or(expr);
        Typed { expr, data_type, text: text.into() }
    }

    /// A literal.
    pub fn literal(value: ScalarValue, text: impl Into<String>) -> Typed {
        let data_type = value.data_type();
        Typed { expr: Expr::Literal(value, None), data_type, text: text.into() }
    }

    /// The value, if it is a literal.
    pub fn value(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// The family of its type.
    pub fn family(&self) -> Family {
        Family::of(&self.data_type)
    }

    /// As it was written, and what it is.
    pub fn described(&self) -> String {
        format!("`{}` ({})", self.text, in_words(&self.data_type))
    }

    /// Fails unless it is true or false (or null).
    pub fn boolean(self, what: &str) -> Result<Typed> {
        match self.family() {
            Family::Boolean | Family::Null => Ok(self.cast(&DataType::Boolean)),
            _ => {
                let is = in_words(&self.data_type);
                let message = format!("{what} must be true or false, but `{}` is {is}", self.text);
                Err(Error::usage(message).remedy("compare it with something"))
            }
        }
    }

    /// Converts without asking; the caller knows that it is possible.
    pub fn cast(self, to: &DataType) -> Typed {
        if self.data_type == *to {
            return self;
        }
        let cast = Expr::Cast(Cast::new(Box::new(self.expr), to.clone()));
        Typed::new(cast, to.clone(), self.text)
    }

    /// `CAST` or `TRY_CAST`, as the user wrote it.
    pub fn cast_as_told(self, to: DataType, tries: bool) -> Result<Typed> {
        if !can_cast_types(&self.data_type, &to) {
            let message = format!("{} cannot be made {}", self.described(), in_words(&to));
            return Err(Error::usage(message));
        }
        let text = format!("CAST({} AS {to})", self.text);
        let expr = Box::new(self.expr);
        let cast = match tries {
            true => Expr::TryCast(TryCast::new(expr, to.clone())),
            false => Expr::Cast(Cast::new(expr, to.clone())),
        };
        Ok(Typed::new(cast, to, text))
    }

    /// This literal with the type of what it meets, if that loses nothing. Text that does not read
    /// as such a type is an error.
    fn fitted(self, to: &DataType) -> Result<Typed> {
        let Some(value) = self.value() else { return Ok(self) };
        match fit(value, to) {
            Some(value) => Ok(Typed::literal(value, self.text)),
            None if self.family() == Family::Text && !value.is_null() => {
                Err(Error::usage(format!("{} does not read as {}", self.text, in_words(to))))
            }
            None => Ok(self),
        }
    }
}

/// Joins two expressions by an operator, their types brought together.
pub fn join(left: Typed, op: Operator, right: Typed) -> Result<Typed> {
    let text = format!("{} {op} {}", left.text, right.text);
    let (left, right) = match op {
        Operator::And | Operator::Or => {
            let what = format!("a side of {op}");
            (left.boolean(&what)?, right.boolean(&what)?)
        }
        op if is_comparison(op) => comparable(left, right)?,
        op if op.is_numerical_operators() => computable(left, op, right)?,
        _ => (left, right),
    };
    let coercer = BinaryTypeCoercer::new(&left.data_type, &op, &right.data_type);
    let types = coercer.get_input_types().and_then(|types| Ok((types, coercer.get_result_type()?)));
    let Ok(((to_left, to_right), data_type)) = types else {
        let message = format!("{op} does not join {} and {}", left.described(), right.described());
        return Err(Error::usage(message).remedy("convert one of them with CAST(… AS …)"));
    };
    let (left, right) = (left.cast(&to_left), right.cast(&to_right));
    let joined = BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr));
    Ok(Typed::new(Expr::BinaryExpr(joined), data_type, text))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Both sides such that they can be compared, or an error in words.
pub fn comparable(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    let (left, right) = match (left.value().is_some(), right.value().is_some()) {
        (true, false) => (left.fitted(&right.data_type)?, right),
        (false, true) => {
            let right = right.fitted(&left.data_type)?;
            (left, right)
        }
        _ => (left, right),
    };
    let families = (left.family(), right.family());
    if families.0 == families.1 || families.0 == Family::Null || families.1 == Family::Null {
        return Ok((left, right));
    }
    let message = format!("cannot compare {} with {}", left.described(), right.described());
    Err(Error::usage(message).remedy("convert one of them with CAST(… AS …)"))
}

/// Both sides such that they can be reckoned with, or an error in words.
fn computable(left: Typed, op: Operator, right: Typed) -> Result<(Typed, Typed)> {
    for side in [&left, &right] {
        if !matches!(side.family(), Family::Number | Family::Date | Family::Time)
            && !matches!(side.family(), Family::Interval | Family::Null)
        {
            let message = format!("{op} needs numbers, but {} is none", side.described());
            return Err(Error::usage(message).remedy("convert it with CAST(… AS DOUBLE)"));
        }
    }
    let exact = |literal: &Typed, other: &Typed| -> Option<Typed> {
        let is_decimal = matches!(other.data_type, DataType::Decimal128(..));
        let value = literal.value().filter(|_| is_decimal && other.value().is_none())?;
        Some(Typed::literal(exact_decimal(value)?, literal.text.clone()))
    };
    if let Some(left) = exact(&left, &right) {
        return Ok((left, right));
    }
    let right = exact(&right, &left).unwrap_or(right);
    Ok((left, right))
}

/// A number literal as the narrowest decimal: `0.05` beside a decimal column is no floating point
/// number.
fn exact_decimal(value: &ScalarValue) -> Option<ScalarValue> {
    if !matches!(value, ScalarValue::Int64(Some(_)) | ScalarValue::Float64(Some(_))) {
        return None;
    }
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part = part.trim_end_matches('0');
    let unscaled: i128 = format!("{whole}{part}").parse().ok()?;
    let digits = unscaled.unsigned_abs().to_string().len().max(part.len()).max(1);
    (digits <= 38).then_some(())?;
    Some(ScalarValue::Decimal128(Some(unscaled), digits as u8, part.len() as i8))
}

/// The literal in another type, if it is the same value there.
fn fit(value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    let from = value.data_type();
    if from == *to {
        return Some(value.clone());
    }
    if let DataType::Dictionary(keys, values) = to {
        return Some(ScalarValue::Dictionary(keys.clone(), Box::new(fit(value, values)?)));
    }
    if value.is_null() {
        return ScalarValue::try_new_null(to).ok();
    }
    let (family, wanted) = (Family::of(&from), Family::of(to));
    let text = value.try_as_str().flatten();
    match (family, wanted) {
        // A time of day would be lost in a date.
        (Family::Text, Family::Date) if text.is_some_and(|text| text.contains(':')) => {
            let precise = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None);
            let precise = value.cast_to(&precise).ok()?;
            return Some(fit(&precise, to).unwrap_or(precise));
        }
        (Family::Text, Family::Nested | Family::Null) => return None,
        (Family::Text, _) => return value.cast_to(to).ok().filter(|value| !value.is_null()),
        (family, wanted) if family != wanted => return None,
        _ => {}
    }
    let fitted = value.cast_to(to).ok()?;
    (fitted.cast_to(&from).ok()? == *value).then_some(fitted)
}

/// The literal an expression of literals alone comes to; `None` if it is another, or fails.
fn folded(expr: &Expr) -> Option<Expr> {
    let mut children = 0;
    let mut literals = 0;
    let counted = expr.apply_children(|child| {
        children += 1;
        literals += usize::from(matches!(child, Expr::Literal(..)));
        Ok(TreeNodeRecursion::Continue)
    });
    let changes = match expr {
        Expr::ScalarFunction(call) => {
            call.func.signature().volatility != datafusion_expr::Volatility::Immutable
        }
        _ => false,
    };
    if counted.is_err() || children == 0 || children != literals || changes {
        return None;
    }
    let value = physical(expr, &DFSchema::empty()).ok()?.evaluate(&one_row()?).ok()?;
    let value = match value {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    Some(Expr::Literal(value, None))
}

fn one_row() -> Option<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()
}

/// What computes an expression. Arithmetic that overflows is an error, not a wrong answer.
pub fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let context = PhysicalPlanningContext::default();
    let made = create_physical_expr(expr, schema, &ExecutionProps::new(), &context);
    let checked = made.and_then(|made| {
        made.transform_up(|node| {
            let Some(binary) = node.downcast_ref::<PhysicalBinary>() else {
                return Ok(Transformed::no(node));
            };
            if !binary.op().is_numerical_operators() {
                return Ok(Transformed::no(node));
            }
            let (left, right) = (binary.left().clone(), binary.right().clone());
            let checked = PhysicalBinary::new(left, *binary.op(), right);
            Ok(Transformed::yes(Arc::new(checked.with_fail_on_overflow(true))))
        })
        .data()
    });
    checked.map_err(|error| told(&error, Kind::Usage))
}

/// The library's error in this house's words.
pub fn told(error: &DataFusionError, kind: Kind) -> Error {
    let root = error.find_root();
    let kind = match root {
        DataFusionError::ResourcesExhausted(_) => Kind::Resource,
        _ => kind,
    };
    let message = root.message();
    let told = message.split("\n\nbacktrace").next().unwrap_or_default();
    Error::new(kind, told.trim())
}
