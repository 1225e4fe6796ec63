//! Functions that DataFusion lacks, from tables of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion_common::{ScalarValue, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use self::row_functions::{Computed, INSTANT, ResultKind, RowFunction};
use crate::expression::common_type::plain;
use crate::expression::typed::Typed;

mod c_numbers;
mod clock_text;
mod digests;
mod globs;
mod hashes;
mod instants;
mod intervals;
mod json;
mod list_aggregates;
mod nested;
mod numbers;
mod printf;
mod row_functions;
mod similarity;
mod text_parts;
mod texts;
mod unicode_forms;
mod uuids;
mod values;

/// All functions of the tables.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let tables = [
        &clock_text::FUNCTIONS[..],
        &digests::FUNCTIONS[..],
        &globs::FUNCTIONS[..],
        &hashes::FUNCTIONS[..],
        &instants::FUNCTIONS[..],
        &intervals::FUNCTIONS[..],
        &json::FUNCTIONS[..],
        &json::patches::FUNCTIONS[..],
        &list_aggregates::FUNCTIONS[..],
        &nested::bins::FUNCTIONS[..],
        &nested::equal_bins::FUNCTIONS[..],
        &nested::items::FUNCTIONS[..],
        &nested::keys::FUNCTIONS[..],
        &nested::maps::FUNCTIONS[..],
        &nested::structs::FUNCTIONS[..],
        &numbers::FUNCTIONS[..],
        &similarity::FUNCTIONS[..],
        &text_parts::FUNCTIONS[..],
        &texts::FUNCTIONS[..],
        &unicode_forms::FUNCTIONS[..],
        &uuids::FUNCTIONS[..],
        &values::FUNCTIONS[..],
    ];
    let all = tables.into_iter().flatten();
    let named = all.flat_map(|function| function.names.iter().map(move |name| (*name, function)));
    named.map(|(name, function)| made(name, function)).chain(printf::functions()).collect()
}

fn made(name: &'static str, function: &'static RowFunction) -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(LibraryFunction { name, function, signature }))
}

/// Bytes in the order of lists or structs.
pub(crate) fn nested_key(of: Typed) -> Typed {
    let [function] = &nested::keys::FUNCTIONS;
    let key = ScalarFunction::new_udf(made(function.names[0], function), vec![of.expr]);
    Typed::new(Expr::ScalarFunction(key), DataType::Binary, of.text)
}

struct LibraryFunction {
    name: &'static str,
    function: &'static RowFunction,
    signature: Signature,
}

impl std::fmt::Debug for LibraryFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for LibraryFunction {
    fn eq(&self, other: &LibraryFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for LibraryFunction {}

impl std::hash::Hash for LibraryFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for LibraryFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Computed<Vec<DataType>> {
        let takes = self.function.takes;
        if types.len() > takes.len() || types.len() + self.function.optional < takes.len() {
            return plan_err!("{} has {} arguments", self.name, types.len());
        }
        let coerced = takes.iter().zip(types).map(|(kind, of)| kind.coerced(plain(of)));
        match coerced.collect() {
            Some(coerced) => Ok(coerced),
            None => plan_err!("{} does not take these types", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Computed<DataType> {
        Ok(match self.function.returns {
            ResultKind::Text => DataType::Utf8,
            ResultKind::Texts => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
            }
            ResultKind::Integer => DataType::Int64,
            ResultKind::Unsigned => DataType::UInt64,
            ResultKind::Float => DataType::Float64,
            ResultKind::Boolean => DataType::Boolean,
            ResultKind::Bytes => DataType::Binary,
            ResultKind::Instant => INSTANT,
            ResultKind::Time => DataType::Time64(TimeUnit::Microsecond),
            ResultKind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            ResultKind::Same => types[0].clone(),
            ResultKind::Item => match &types[0] {
                DataType::List(item) => item.data_type().clone(),
                other => other.clone(),
            },
            ResultKind::Sum => match &types[0] {
                DataType::List(item) => list_aggregates::sum_type(item.data_type())?,
                other => list_aggregates::sum_type(other)?,
            },
            ResultKind::Made(of) => of(types)?,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Computed<Vec<_>>>();
        let found = (self.function.compute)(&columns?)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
