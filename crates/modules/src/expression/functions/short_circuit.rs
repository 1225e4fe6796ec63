//! `AND` and `OR` that evaluate the right side only for rows whose left side does not decide.
//!
//! SQL leaves open, and DataFusion decides per batch, whether `10 / n` is evaluated in `n <> 0 AND
//! 10 / n > 2` for an `n` of 0. Evaluating both sides is faster and gives the same result unless it
//! fails; so the short-circuiting form is used only then.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::{and_kleene, or_kleene};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::delegate::named;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// A call of `AND` or `OR` that evaluates the right side only where the left does not decide.
pub(crate) fn guard(left: Expr, op: Operator, right: Expr) -> Expr {
    let guard = LazyGuard { or: op == Operator::Or, any: Signature::any(2, Volatility::Immutable) };
    let guard = Arc::new(ScalarUDF::new_from_impl(guard));
    Expr::ScalarFunction(ScalarFunction::new_udf(guard, vec![left, right]))
}

/// The physical expression of `AND` or `OR`, in place of the function at this node.
pub(crate) fn lazy(node: &dyn PhysicalExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let call = ScalarFunctionExpr::try_downcast_func::<LazyGuard>(node)?;
    let or = call.fun().inner().downcast_ref::<LazyGuard>()?.or;
    let [left, right] = call.args() else { return None };
    Some(Arc::new(GuardExpr { or, sides: [left.clone(), right.clone()] }))
}

/// A placeholder that `lazy` replaces; it computes nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LazyGuard {
    or: bool,
    any: Signature,
}

impl ScalarUDFImpl for LazyGuard {
    named!(self => if self.or { "or" } else { "and" });

    fn return_type(&self, _: &[DataType]) -> Computed<DataType> {
        Ok(DataType::Boolean)
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        exec_err!("AND and OR take expressions, and no values")
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GuardExpr {
    or: bool,
    sides: [Arc<dyn PhysicalExpr>; 2],
}

impl fmt::Display for GuardExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_sql(f)
    }
}

impl PhysicalExpr for GuardExpr {
    fn data_type(&self, _: &Schema) -> Computed<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Computed<bool> {
        Ok(self.sides[0].nullable(schema)? || self.sides[1].nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Computed<ColumnarValue> {
        let rows = batch.num_rows();
        let [left, right] = &self.sides;
        let left = left.evaluate(batch)?.into_array(rows)?;
        let known = left.as_boolean();
        // A null on the left does not decide.
        let open = |side: Option<bool>| Some(side != Some(self.or));
        let open: BooleanArray = known.iter().map(open).collect();
        if !open.has_true() {
            return Ok(ColumnarValue::Array(left));
        }
        let right = right.evaluate_selection(batch, &open)?.into_array(rows)?;
        let joined = match self.or {
            true => or_kleene(known, right.as_boolean())?,
            false => and_kleene(known, right.as_boolean())?,
        };
        Ok(ColumnarValue::Array(Arc::new(joined)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.sides.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        sides: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Computed<Arc<dyn PhysicalExpr>> {
        match sides.try_into() {
            Ok(sides) => Ok(Arc::new(GuardExpr { or: self.or, sides })),
            Err(_) => exec_err!("AND and OR have two sides"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(")?;
        self.sides[0].fmt_sql(f)?;
        write!(f, ") {} (", if self.or { "OR" } else { "AND" })?;
        self.sides[1].fmt_sql(f)?;
        write!(f, ")")
    }
}
