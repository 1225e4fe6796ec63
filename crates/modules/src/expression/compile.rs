//! Compiles expressions to DataFusion's physical ones, and translates DataFusion's errors.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::InList;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{ColumnarValue, Expr};
use datafusion_physical_expr::expressions::BinaryExpr as PhysicalBinary;
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use euphrates_flow::{Error, Kind, Result, new_batch};

use super::conditions::empty_text;
use super::functions::{coalesce, decimal_arithmetic, short_circuit};

/// The longest list that is compared item by item.
const EQUALITIES_MAX: usize = 12;

/// Evaluates an expression without columns.
pub(crate) fn evaluate_constant(expr: &Expr) -> Result<ColumnarValue> {
    let row = new_batch(Arc::new(Schema::empty()), vec![], 1)?;
    let value = physical(expr, &DFSchema::empty())?.evaluate(&row);
    value.map_err(|error| translate_error(&error, Kind::Usage))
}

/// Compiles an expression. Arithmetic that overflows fails instead of wrapping.
pub(crate) fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let context = PhysicalPlanningContext::default();
    let expr = expr.clone().transform_up(|node| Ok(as_equalities(node))).data();
    let made =
        expr.and_then(|expr| create_physical_expr(&expr, schema, &ExecutionProps::new(), &context));
    let checked = made.and_then(|made| {
        made.transform_up(|node| {
            let lazy = coalesce::lazy(node.as_ref()).or_else(|| short_circuit::lazy(node.as_ref()));
            if let Some(lazy) = lazy {
                return Ok(Transformed::yes(lazy));
            }
            let Some(binary) = node.downcast_ref::<PhysicalBinary>() else {
                return Ok(Transformed::no(node));
            };
            if let Some(fast) = empty_text::fast(binary) {
                return Ok(Transformed::yes(fast));
            }
            if !binary.op().is_numerical_operators() {
                return Ok(Transformed::no(node));
            }
            if let Some(fast) = decimal_arithmetic::fast(binary, schema.as_arrow()) {
                return Ok(Transformed::yes(fast));
            }
            let (left, right) = (binary.left().clone(), binary.right().clone());
            let checked = PhysicalBinary::new(left, *binary.op(), right);
            Ok(Transformed::yes(Arc::new(checked.with_fail_on_overflow(true))))
        })
        .data()
    });
    checked.map_err(|error| translate_error(&error, Kind::Usage))
}

/// `column IN (a, b)` as `column = a OR column = b`: a few comparisons of all rows take less time
/// than a search in a hash table for each.
fn as_equalities(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(InList { expr: of, list, negated: false }) = &expr else {
        return Transformed::no(expr);
    };
    let is_literal = |item: &Expr| matches!(item, Expr::Literal(..));
    if !matches!(**of, Expr::Column(_))
        || list.len() > EQUALITIES_MAX
        || !list.iter().all(is_literal)
    {
        return Transformed::no(expr);
    }
    let tests = list.iter().map(|item| of.as_ref().clone().eq(item.clone()));
    match tests.reduce(Expr::or) {
        Some(any) => Transformed::yes(any),
        None => Transformed::no(expr),
    }
}

/// Prefixes that libraries put before their messages.
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

/// Translates an error of DataFusion, without its prefixes.
pub(crate) fn translate_error(error: &DataFusionError, kind: Kind) -> Error {
    let root = error.find_root();
    let kind = match root {
        DataFusionError::ResourcesExhausted(_) => Kind::Resource,
        _ => kind,
    };
    let message = root.message();
    let text = message.split("\n\nbacktrace").next().unwrap_or_default();
    let mut text = text.split(".\nThis issue was likely caused by").next().unwrap_or_default();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    let text = text.trim().replace("Overflow happened on: ", "overflow: ");
    let text = text.replace("arrow_array::types::", "");
    let is_cast =
        ["Cannot cast string ", "Can't cast value "].iter().any(|it| text.starts_with(it));
    let error = Error::new(kind, text);
    match is_cast && kind == Kind::Failed {
        true => error.remedy("`try_cast(… as …)` is null where a value cannot be converted"),
        false => error,
    }
}
