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

use super::common::{common, compared, plain, reckoned};
use super::copies;
use super::decimals;
use super::exact;
use super::guards;
use super::known;
use super::literals::{exact_decimal, fit};
use super::room;
use super::types::{Family, in_words};
use super::zones;

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
        let from = copies::unpacked(self);
        if from.data_type == *to {
            return from;
        }
        if let (DataType::Timestamp(_, None), DataType::Date32) = (plain(&from.data_type), to) {
            return exact::day(from);
        }
        let is_floating = matches!(to, DataType::Float32 | DataType::Float64);
        if is_floating && plain(&from.data_type).is_decimal() {
            return exact::nearest(from, to);
        }
        if zones::places(plain(&from.data_type), to) {
            return zones::placed(from, to);
        }
        if let Some(between) = decimals::between(plain(&from.data_type), to) {
            return from.cast(&between).cast(to);
        }
        let cast = Expr::Cast(Cast::new(Box::new(from.expr), to.clone()));
        Typed::new(cast, to.clone(), from.text)
    }

    /// `CAST` or `TRY_CAST`, as the user wrote it.
    pub fn cast_as_told(self, to: DataType, tries: bool) -> Result<Typed> {
        if !can_cast_types(&self.data_type, &to) {
            let message = format!("{} cannot be made {}", self.described(), in_words(&to));
            return Err(Error::usage(message));
        }
        let text = format!("CAST({} AS {to})", self.text);
        // Nothing fails here that could be tried.
        let is_sure = plain(&self.data_type).is_decimal() && to.is_floating();
        if !tries || is_sure {
            return Ok(Typed { text, ..self.cast(&to) });
        }
        if let Some(between) = decimals::between(plain(&self.data_type), &to) {
            let tried = self.cast_as_told(between, true)?.cast_as_told(to, true)?;
            return Ok(Typed { text, ..tried });
        }
        let expr = Box::new(copies::unpacked(self).expr);
        Ok(Typed::new(Expr::TryCast(TryCast::new(expr, to.clone())), to, text))
    }

    /// This literal with the type of what it meets, if that loses nothing. Text that does not read
    /// as such a type is an error.
    fn fitted(self, to: &DataType) -> Result<Typed> {
        let Some(value) = self.value() else { return Ok(self) };
        match fit(value, &self.text, to) {
            Some(value) => Ok(Typed::literal(value, self.text)),
            None if self.family() == Family::Text && !value.is_null() => {
                Err(Error::usage(format!("{} does not read as {}", self.text, in_words(to))))
            }
            None => match to.is_decimal().then(|| exact_decimal(&self)).flatten() {
                Some(value) => Ok(Typed::literal(value, self.text)),
                None => Ok(self),
            },
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
        Operator::Plus | Operator::Minus if moves_days(&left, &right) => {
            return moved(left, op, right, text);
        }
        Operator::Plus if moves_days(&right, &left) => return moved(right, op, left, text),
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
    let joined = Typed::new(Expr::BinaryExpr(joined), data_type, text);
    Ok(if op.is_numerical_operators() { exact::checked(joined) } else { joined })
}

/// Whether these are a date, and a number of days.
fn moves_days(date: &Typed, days: &Typed) -> bool {
    *plain(&date.data_type) == DataType::Date32 && plain(&days.data_type).is_integer()
}

/// A date so many days later, or earlier.
fn moved(date: Typed, op: Operator, days: Typed, text: String) -> Result<Typed> {
    let day = date.cast(&DataType::Int32).cast(&DataType::Int64);
    let moved = join(day, op, days.cast(&DataType::Int64))?;
    Ok(Typed { text, ..moved.cast(&DataType::Int32).cast(&DataType::Date32) })
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Both sides such that equal values have equal bits, in one type where there is one; or an error
/// in words.
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
        return Ok(compared(left, right));
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
    match (left.family(), right.family()) {
        (Family::Number, Family::Number) => Ok(reckoned(left, right)),
        (Family::Date, Family::Date) if left.data_type != right.data_type => {
            match common(&left.data_type, &right.data_type) {
                Some(common) => Ok((left.cast(&common), right.cast(&common))),
                None => Ok((left, right)),
            }
        }
        _ => Ok((left, right)),
    }
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
    let value = room::constant(|| computed(expr).ok())?;
    let value = match value {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    Some(Expr::Literal(value, None))
}

/// What an expression without columns comes to.
pub fn computed(expr: &Expr) -> Result<ColumnarValue> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let value = physical(expr, &DFSchema::empty())?.evaluate(&row);
    value.map_err(|error| told(&error, Kind::Usage))
}

/// What computes an expression. Arithmetic that overflows is an error, not a wrong answer.
pub fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let context = PhysicalPlanningContext::default();
    let made = create_physical_expr(expr, schema, &ExecutionProps::new(), &context);
    let checked = made.and_then(|made| {
        made.transform_up(|node| {
            let lazy = known::lazy(node.as_ref()).or_else(|| guards::lazy(node.as_ref()));
            if let Some(lazy) = lazy {
                return Ok(Transformed::yes(lazy));
            }
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

/// What libraries put before their messages, for those who use them.
const PREFIXES: [&str; 9] = [
    "Arrow error: ",
    "External error: ",
    "Compute error: ",
    "Cast error: ",
    "Parser error: ",
    "Arithmetic overflow: ",
    "Invalid argument error: ",
    "Execution error: ",
    "Error during planning: ",
];

/// The library's error in this house's words.
pub fn told(error: &DataFusionError, kind: Kind) -> Error {
    let root = error.find_root();
    let kind = match root {
        DataFusionError::ResourcesExhausted(_) => Kind::Resource,
        _ => kind,
    };
    let message = root.message();
    let told = message.split("\n\nbacktrace").next().unwrap_or_default();
    let mut told = told.split(".\nThis issue was likely caused by").next().unwrap_or_default();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| told.strip_prefix(prefix)) {
        told = rest;
    }
    let told = told.trim().replace("Overflow happened on: ", "overflow: ");
    let told = told.replace("arrow_array::types::", "");
    Error::new(kind, told)
}
