//! Field access of structs: null where the struct is null. DataFusion's function returns the stored
//! field value there, which may be anything.

use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::{is_null, nullif};
use datafusion_common::DataFusionError;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::delegate::described_by_plain;

/// Wraps DataFusion's `get_field`, and gives null for fields of null structs.
pub(crate) fn of_structs(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(FieldOf { plain }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldOf {
    plain: Arc<ScalarUDF>,
}

impl FieldOf {
    /// Accesses one field of a path.
    fn step(
        &self,
        of: ColumnarValue,
        name: &ColumnarValue,
        args: &ScalarFunctionArgs,
    ) -> Result<ColumnarValue, DataFusionError> {
        let step = ScalarFunctionArgs { args: vec![of.clone(), name.clone()], ..args.clone() };
        match (of, self.plain.invoke_with_args(step)?) {
            (ColumnarValue::Array(of), ColumnarValue::Array(field)) if of.null_count() > 0 => {
                Ok(ColumnarValue::Array(nullif(&field, &is_null(&of)?)?))
            }
            (_, field) => Ok(field),
        }
    }
}

impl ScalarUDFImpl for FieldOf {
    described_by_plain!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let Some((of, path)) = args.args.split_first() else {
            return self.plain.invoke_with_args(args);
        };
        path.iter().try_fold(of.clone(), |of, name| self.step(of, name, &args))
    }
}
