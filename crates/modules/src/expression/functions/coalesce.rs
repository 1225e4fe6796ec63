//! `coalesce`, which evaluates each argument once.
//!
//! As a CASE it would evaluate an argument twice, as a condition and as a result, and nested calls
//! would double the work at each level.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::interleave;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::delegate::named;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// A call of `coalesce`: the first of these that is not null; all have one type. An argument is
/// evaluated only for rows in which all before it are null.
pub(crate) fn call(args: Vec<Expr>) -> Expr {
    let any = Signature::variadic_any(Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(FirstKnown { any }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// The physical expression of `coalesce`, in place of the function at this node.
pub(crate) fn lazy(node: &dyn PhysicalExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let call = ScalarFunctionExpr::try_downcast_func::<FirstKnown>(node)?;
    Some(Arc::new(FirstKnownExpr { args: call.args().to_vec() }))
}

/// A placeholder that `lazy` replaces; it computes nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstKnown {
    any: Signature,
}

impl ScalarUDFImpl for FirstKnown {
    named!(self => "coalesce");

    fn return_type(&self, arg_types: &[DataType]) -> Computed<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Computed<FieldRef> {
        let is_nullable = args.arg_fields.iter().all(|field| field.is_nullable());
        let data_type = args.arg_fields[0].data_type().clone();
        Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)))
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        exec_err!("coalesce takes expressions, and no values")
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstKnownExpr {
    args: Vec<Arc<dyn PhysicalExpr>>,
}

impl fmt::Display for FirstKnownExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_sql(f)
    }
}

impl PhysicalExpr for FirstKnownExpr {
    fn data_type(&self, schema: &Schema) -> Computed<DataType> {
        self.args[0].data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Computed<bool> {
        for arg in &self.args {
            if !arg.nullable(schema)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Computed<ColumnarValue> {
        let mut known = self.args[0].evaluate(batch)?;
        for arg in &self.args[1..] {
            known = match &known {
                ColumnarValue::Scalar(one) if one.is_null() => arg.evaluate(batch)?,
                ColumnarValue::Scalar(_) => break,
                ColumnarValue::Array(array) => {
                    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                    let Some(nulls) = nulls else { break };
                    let missing = BooleanArray::new(!nulls.inner(), None);
                    let others = arg.evaluate_selection(batch, &missing)?;
                    ColumnarValue::Array(filled(array, &missing, &others)?)
                }
            };
        }
        Ok(known)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        args: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Computed<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(FirstKnownExpr { args }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "coalesce(")?;
        for (at, arg) in self.args.iter().enumerate() {
            write!(f, "{}", if at > 0 { ", " } else { "" })?;
            arg.fmt_sql(f)?;
        }
        write!(f, ")")
    }
}

/// The array with missing values replaced by `others`.
fn filled(array: &ArrayRef, missing: &BooleanArray, others: &ColumnarValue) -> Computed<ArrayRef> {
    Ok(match (others, array.data_type()) {
        // Merges dictionaries, since the keys may have no room for both.
        (others, DataType::Dictionary(..)) => {
            let others = others.to_array(array.len())?;
            let from = |row: usize| (usize::from(missing.value(row)), row);
            let rows: Vec<(usize, usize)> = (0..array.len()).map(from).collect();
            interleave(&[array.as_ref(), others.as_ref()], &rows)?
        }
        (ColumnarValue::Array(others), _) => zip(missing, others, array)?,
        (ColumnarValue::Scalar(other), _) => zip(missing, &other.to_scalar()?, array)?,
    })
}
