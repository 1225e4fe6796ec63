//! A macro for functions that wrap one of DataFusion's (`self.plain`): delegates name, types and
//! documentation.

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
