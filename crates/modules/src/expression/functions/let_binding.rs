//! Let binding: a value that an expression uses several times is evaluated once.
//!
//! Written out, nested expressions that use an operand twice would double the work at each level.
//! Here the body becomes a function of the value: it sees the value, and the columns it reads, as
//! columns of a batch of its own, and short-circuits as it would without the binding.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Column, DFSchema, DataFusionError, ExprSchema};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion_physical_expr::PhysicalExpr;
use euphrates_flow::{Kind, Result, new_batch};

use super::delegate::named;
use crate::expression::compile::{physical, translate_error};
use crate::expression::typed::Typed;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// The qualified name of the value while the body is built. Input columns have no table name.
const TABLE: &str = "once";
const VALUE: &str = "value";

/// Binds a value for `body`, over the columns of `schema`. `body` may use the value any number of
/// times, but must not bind an expression that contains it.
pub(crate) fn bind(
    of: Typed,
    schema: &DFSchema,
    body: impl FnOnce(Typed) -> Result<Typed>,
) -> Result<Typed> {
    if matches!(of.expr, Expr::Column(_) | Expr::Literal(..)) {
        return body(of);
    }
    let value = Column::new(Some(TABLE), VALUE);
    let named = Typed { expr: Expr::Column(value.clone()), ..of.clone() };
    let Typed { expr: body, data_type, text } = body(named)?;
    let usage = |error: DataFusionError| translate_error(&error, Kind::Usage);
    let nullable = of.expr.nullable(schema).map_err(usage)?;
    let mut seen = vec![value.clone()];
    let mut fields = vec![Field::new("0", of.data_type, nullable)];
    let mut args = vec![of.expr];
    let mut read: Vec<&Column> = body.column_refs().into_iter().collect();
    read.sort_unstable();
    for column in read.into_iter().filter(|column| **column != value) {
        let field = schema.field_from_column(column).map_err(usage)?;
        fields.push(field.as_ref().clone().with_name(seen.len().to_string()));
        args.push(Expr::Column(column.clone()));
        seen.push(column.clone());
    }
    let body = body.transform(|node| {
        let Expr::Column(column) = &node else { return Ok(Transformed::no(node)) };
        let at = seen.iter().position(|other| other == column).unwrap_or(0);
        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(at.to_string()))))
    });
    let once = LetBinding::new(body.data().map_err(usage)?, Arc::new(Schema::new(fields)))?;
    let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(once)), args);
    Ok(Typed { expr: Expr::ScalarFunction(call), data_type, text })
}

/// Replaces the body of a call, if it is a let binding and `other` returns a new body.
pub(crate) fn with_body(
    call: &ScalarFunction,
    other: impl FnOnce(&Expr) -> Option<Expr>,
) -> Option<ScalarFunction> {
    let once = call.func.inner().downcast_ref::<LetBinding>()?;
    let once = LetBinding::new(other(&once.body)?, once.schema.clone()).ok()?;
    let func = Arc::new(ScalarUDF::new_from_impl(once));
    Some(ScalarFunction::new_udf(func, call.args.clone()))
}

/// Evaluates the body; its columns are named by their positions among the arguments.
#[derive(Debug)]
struct LetBinding {
    body: Expr,
    schema: SchemaRef,
    computed: Arc<dyn PhysicalExpr>,
    returned: FieldRef,
    any: Signature,
}

impl LetBinding {
    fn new(body: Expr, schema: SchemaRef) -> Result<LetBinding> {
        let named =
            DFSchema::try_from(schema.clone()).map_err(|e| translate_error(&e, Kind::Usage))?;
        let computed = physical(&body, &named)?;
        let returned =
            computed.return_field(&schema).map_err(|e| translate_error(&e, Kind::Usage))?;
        let returned = Field::new("once", returned.data_type().clone(), returned.is_nullable());
        let any = Signature::any(schema.fields().len(), Volatility::Immutable);
        Ok(LetBinding { body, schema, computed, returned: Arc::new(returned), any })
    }
}

impl PartialEq for LetBinding {
    fn eq(&self, other: &LetBinding) -> bool {
        self.body == other.body && self.schema == other.schema
    }
}

impl Eq for LetBinding {}

impl Hash for LetBinding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.body.hash(state);
    }
}

impl ScalarUDFImpl for LetBinding {
    named!(self => "once");

    fn return_type(&self, _: &[DataType]) -> Computed<DataType> {
        Ok(self.returned.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Computed<FieldRef> {
        Ok(self.returned.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Computed<_>>()?;
        // Nullability in the whole input is not known for a slice.
        let fields = self.schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = new_batch(schema, arrays, rows)?;
        Ok(ColumnarValue::Array(self.computed.evaluate(&batch)?.into_array(rows)?))
    }
}
