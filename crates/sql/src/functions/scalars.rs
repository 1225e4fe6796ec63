//! The functions of a query that are not the planner's own: the modules compute them.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use crate::relations::asof_tokens::MARK;

/// The type of a function's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ScalarReturn {
    Integer,
    Float,
    Text,
    Boolean,
    Date,
    Time,
    /// That of an argument.
    Same(usize),
}

use ScalarReturn::*;

/// Names, the fewest and the most arguments, and the type of the results.
const FUNCTIONS: [(&str, usize, usize, ScalarReturn); 55] = [
    // Marks a join; no module computes it.
    (MARK, 1, 1, Boolean),
    ("sign", 1, 1, Same(0)),
    ("mod", 2, 2, Same(0)),
    ("fmod", 2, 2, Same(0)),
    ("if", 3, 3, Same(1)),
    ("iff", 3, 3, Same(1)),
    ("ifnull", 2, 2, Same(0)),
    ("xor", 2, 2, Same(0)),
    ("bit_not", 1, 1, Same(0)),
    ("square", 1, 1, Same(0)),
    ("whole_quotient", 2, 2, Same(0)),
    ("isinf", 1, 1, Boolean),
    ("isfinite", 1, 1, Boolean),
    ("lcase", 1, 1, Text),
    ("ucase", 1, 1, Text),
    ("len", 1, 1, Integer),
    ("strlen", 1, 1, Integer),
    ("prefix", 2, 2, Boolean),
    ("suffix", 2, 2, Boolean),
    ("instr", 2, 2, Integer),
    ("mid", 3, 3, Text),
    ("regexp_matches", 2, 3, Boolean),
    ("regexp_full_match", 2, 2, Boolean),
    ("regexp_extract", 2, 3, Text),
    ("similar_to", 2, 2, Boolean),
    ("year", 1, 1, Integer),
    ("quarter", 1, 1, Integer),
    ("month", 1, 1, Integer),
    ("week", 1, 1, Integer),
    ("weekofyear", 1, 1, Integer),
    ("day", 1, 1, Integer),
    ("dayofmonth", 1, 1, Integer),
    ("dayofweek", 1, 1, Integer),
    ("weekday", 1, 1, Integer),
    ("isodow", 1, 1, Integer),
    ("dayofyear", 1, 1, Integer),
    ("hour", 1, 1, Integer),
    ("minute", 1, 1, Integer),
    ("second", 1, 1, Integer),
    ("millisecond", 1, 1, Integer),
    ("microsecond", 1, 1, Integer),
    ("epoch", 1, 1, Float),
    ("epoch_ms", 1, 1, Integer),
    ("decade", 1, 1, Integer),
    ("century", 1, 1, Integer),
    ("millennium", 1, 1, Integer),
    ("dayname", 1, 1, Text),
    ("monthname", 1, 1, Text),
    ("strftime", 2, 2, Text),
    ("last_day", 1, 1, Date),
    ("date", 1, 1, Date),
    ("as_time", 1, 1, Time),
    ("try_as_time", 1, 1, Time),
    ("date_diff", 3, 3, Integer),
    ("datediff", 3, 3, Integer),
];

/// The functions, for the planner.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.into_iter().map(|(name, ..)| function(name)).collect()
}

/// The function of a name in `FUNCTIONS`.
pub(crate) fn function(name: &str) -> Arc<ScalarUDF> {
    let found = FUNCTIONS.into_iter().find(|(known, ..)| *known == name);
    let (name, fewest, most, returns) = found.expect("it is a function of the modules");
    let numbers = (fewest..=most).map(TypeSignature::Any).collect();
    let signature = Signature::one_of(numbers, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ModuleFunction { name, signature, returns }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ModuleFunction {
    name: &'static str,
    signature: Signature,
    returns: ScalarReturn,
}

impl ScalarUDFImpl for ModuleFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.returns {
            Integer => DataType::Int64,
            Float => DataType::Float64,
            Text => DataType::Utf8,
            Boolean => DataType::Boolean,
            Date => DataType::Date32,
            Time => DataType::Time64(TimeUnit::Microsecond),
            Same(at) => types[at].clone(),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("`{}` is computed by a module", self.name)
    }
}
