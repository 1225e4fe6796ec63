//! Helpers of function implementations: `described_by_plain!` delegates name, types and
//! documentation to the wrapped DataFusion function (`self.plain`), and `of_rows` applies a
//! function of arrays to a column or a constant.

use arrow::array::ArrayRef;
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;

/// The values of a function that has one value for each row, computed by array.
pub(super) fn of_rows(
    argument: &ColumnarValue,
    compute: impl Fn(&ArrayRef) -> Result<ArrayRef, DataFusionError>,
) -> Result<ColumnarValue, DataFusionError> {
    Ok(match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(compute(array)?),
        ColumnarValue::Scalar(scalar) => {
            let one = compute(&scalar.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
        }
    })
}

/// The descriptive methods of an `impl ScalarUDFImpl`.
macro_rules! described_by_plain {
    () => {
        fn name(&self) -> &str {
            self.plain.name()
        }

        fn aliases(&self) -> &[String] {
            self.plain.aliases()
        }

        fn schema_name(
            &self,
            args: &[datafusion_expr::Expr],
        ) -> Result<String, datafusion_common::DataFusionError> {
            self.plain.schema_name(args)
        }

        fn signature(&self) -> &datafusion_expr::Signature {
            self.plain.signature()
        }

        fn return_type(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> Result<arrow::datatypes::DataType, datafusion_common::DataFusionError> {
            self.plain.return_type(arg_types)
        }

        fn return_field_from_args(
            &self,
            args: datafusion_expr::ReturnFieldArgs,
        ) -> Result<arrow::datatypes::FieldRef, datafusion_common::DataFusionError> {
            self.plain.return_field_from_args(args)
        }

        fn coerce_types(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> Result<Vec<arrow::datatypes::DataType>, datafusion_common::DataFusionError> {
            self.plain.coerce_types(arg_types)
        }

        fn documentation(&self) -> Option<&datafusion_expr::Documentation> {
            self.plain.documentation()
        }
    };
}
pub(super) use described_by_plain;

/// The name and the signature (`self.any`) of an `impl ScalarUDFImpl`.
macro_rules! named {
    ($self:ident => $name:expr) => {
        fn name(&$self) -> &str {
            $name
        }

        fn signature(&$self) -> &datafusion_expr::Signature {
            &$self.any
        }
    };
}
pub(super) use named;
