//! The planner's own aggregate functions, hashed and compared by their names alone: the planner
//! hashes each call of a list once for every call in it, and their signatures take long to hash.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, DataType::Int64, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// The function under its own name, of which there is one.
pub(crate) fn by_name(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(PlannedAggregate(function)))
}

/// The signature of `sum`, which takes truth values as 0 and 1 beside what the planner's own does.
static COUNTS_TRUTH_VALUES: LazyLock<Signature> =
    LazyLock::new(|| Signature::user_defined(Volatility::Immutable));

#[derive(Debug)]
struct PlannedAggregate(Arc<AggregateUDF>);

impl PlannedAggregate {
    fn sums_truth_values(&self, types: &[DataType]) -> bool {
        self.0.name() == "sum" && matches!(types, [DataType::Boolean])
    }
}

impl PartialEq for PlannedAggregate {
    fn eq(&self, other: &PlannedAggregate) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for PlannedAggregate {}

impl Hash for PlannedAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

impl AggregateUDFImpl for PlannedAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        match self.0.name() {
            "sum" => &COUNTS_TRUTH_VALUES,
            _ => self.0.signature(),
        }
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.display_name(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_display_name(params)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        match fields {
            [field] if self.sums_truth_values(&[field.data_type().clone()]) => {
                self.0.return_field(&[Arc::new(field.as_ref().clone().with_data_type(Int64))])
            }
            _ => self.0.return_field(fields),
        }
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.sums_truth_values(types) {
            return Ok(types.to_vec());
        }
        if self.0.name() != "sum" {
            return self.0.coerce_types(types);
        }
        let field = |of: &DataType| Arc::new(Field::new("", of.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.0.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        self.0.default_value(of)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.0.supports_within_group_clause()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }
}
