//! The aggregate functions of a query that are not the planner's own, or whose results have other
//! types here. They are computed by the module `aggregate`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion_common::{Result, not_impl_err, plan_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion_functions_aggregate::average::avg_udaf;

use super::nested_types::{list_of, map_of};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The name of `mode` with an order of several keys, for which the planner has no room in
/// `within group`.
pub(crate) const MODE_BY_KEYS: &str = "_mode_by_keys";

/// The type of a function's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AggregateReturn {
    Integer,
    Float,
    Text,
    /// That of the first argument.
    Same,
    /// A list of that.
    List,
    /// The type of the first argument, or a list of it with one more argument than these.
    Few(usize),
    /// A map from values to their numbers.
    Counts,
    /// A number, or an instant between others.
    Between,
    /// The planner's own type of means, or an instant, or an interval.
    Mean,
    /// A number, or an interval between instants.
    Distance,
}

use AggregateReturn::*;

/// Names, the fewest and the most arguments, and the type of the results.
const FUNCTIONS: [(&str, usize, usize, AggregateReturn); 63] = [
    ("avg", 1, 1, Mean),
    ("count_if", 1, 1, Integer),
    ("countif", 1, 1, Integer),
    ("product", 1, 1, Float),
    ("covar", 2, 2, Float),
    ("median", 1, 1, Between),
    ("quantile_cont", 2, 2, Between),
    ("percentile_cont", 2, 2, Between),
    ("quantile_disc", 2, 2, Same),
    ("percentile_disc", 2, 2, Same),
    ("quantile", 2, 2, Same),
    // The keys of the order come before the value.
    ("mode", 1, 64, Same),
    // `mode` with an order of several keys.
    (MODE_BY_KEYS, 1, 1, Same),
    ("sem", 1, 1, Float),
    ("array_agg", 1, 1, List),
    ("list", 1, 1, List),
    ("string_agg", 1, 2, Text),
    ("group_concat", 1, 2, Text),
    ("listagg", 1, 2, Text),
    ("first", 1, 1, Same),
    ("first_value", 1, 1, Same),
    ("last", 1, 1, Same),
    ("last_value", 1, 1, Same),
    ("any_value", 1, 1, Same),
    ("only", 1, 1, Same),
    ("arbitrary", 1, 1, Same),
    ("arg_min", 2, 3, Few(2)),
    ("argmin", 2, 3, Few(2)),
    ("min_by", 2, 3, Few(2)),
    ("arg_max", 2, 3, Few(2)),
    ("argmax", 2, 3, Few(2)),
    ("max_by", 2, 3, Few(2)),
    ("bit_and", 1, 1, Same),
    ("bit_or", 1, 1, Same),
    ("bit_xor", 1, 1, Same),
    ("approx_distinct", 1, 1, Integer),
    ("approx_count_distinct", 1, 1, Integer),
    ("approx_median", 1, 1, Float),
    ("approx_quantile", 2, 2, Float),
    ("approx_percentile_cont", 2, 2, Float),
    ("every", 1, 1, Same),
    ("fsum", 1, 1, Float),
    ("kahan_sum", 1, 1, Float),
    ("sumkahan", 1, 1, Float),
    ("favg", 1, 1, Float),
    ("skewness", 1, 1, Float),
    ("kurtosis", 1, 1, Float),
    ("kurtosis_pop", 1, 1, Float),
    ("geomean", 1, 1, Float),
    ("geometric_mean", 1, 1, Float),
    ("mad", 1, 1, Distance),
    ("entropy", 1, 1, Float),
    ("histogram", 1, 1, Counts),
    // Those that `composed_calls` writes by others.
    ("wavg", 2, 2, Float),
    ("weighted_avg", 2, 2, Float),
    ("approx_top_k", 2, 2, List),
    ("histogram_exact", 2, 2, Counts),
    ("arg_min_null", 2, 2, Same),
    ("arg_max_null", 2, 2, Same),
    ("json_group_array", 1, 1, Text),
    ("json_group_object", 2, 2, Text),
    ("min", 1, 2, Few(1)),
    ("max", 1, 2, Few(1)),
];

/// The functions that the planner knows itself, and `aggregate` computes.
const PLANNED: [&str; 20] = [
    "count",
    "sum",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "bool_and",
    "bool_or",
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];

/// Whether `aggregate` computes a function.
pub(crate) fn is_computed(name: &str) -> bool {
    names().any(|known| known == name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PLANNED.into_iter().chain(FUNCTIONS.into_iter().map(|(name, ..)| name))
}

/// The functions, for the planner.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    FUNCTIONS.into_iter().map(|(name, ..)| function(name)).collect()
}

/// The function of a name in `FUNCTIONS`.
pub(crate) fn function(name: &str) -> Arc<AggregateUDF> {
    let found = FUNCTIONS.into_iter().find(|(known, ..)| *known == name);
    let (name, fewest, most, returns) = found.expect("it is a function of `aggregate`");
    let numbers = (fewest..=most).map(TypeSignature::Any).collect();
    let signature = Signature::one_of(numbers, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(ModuleAggregate { name, signature, returns }))
}

/// Whether values are dates or timestamps without a zone.
pub(crate) fn is_instant(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
}

/// Whether values are times of day.
pub(crate) fn is_clock(of: &DataType) -> bool {
    matches!(of, DataType::Time32(_) | DataType::Time64(_))
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::FixedSizeList(..))
}

/// Whether a quantile is of several fractions.
fn is_list_of_fractions(name: &str, types: &[DataType]) -> bool {
    (name.starts_with("quantile") || name.starts_with("percentile"))
        && types.get(1).is_some_and(is_list)
}

#[derive(Debug)]
struct ModuleAggregate {
    name: &'static str,
    signature: Signature,
    returns: AggregateReturn,
}

impl PartialEq for ModuleAggregate {
    fn eq(&self, other: &ModuleAggregate) -> bool {
        self.name == other.name
    }
}

impl Eq for ModuleAggregate {}

impl Hash for ModuleAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for ModuleAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(first) = types.first() else {
            return plan_err!("`{}` is of something", self.name);
        };
        Ok(match self.returns {
            Same if self.name == "mode" => types[types.len() - 1].clone(),
            Integer => DataType::Int64,
            Float => DataType::Float64,
            Text => DataType::Utf8,
            Few(fewest) if types.len() > fewest => list_of(first.clone()),
            Same | Few(_) if is_list_of_fractions(self.name, types) => list_of(first.clone()),
            Same | Few(_) => first.clone(),
            Counts => map_of(first, &DataType::Int64),
            List => list_of(first.clone()),
            Between if types.len() == 2 && is_list(&types[1]) => {
                list_of(self.return_type(&types[..1])?)
            }
            Mean => match first {
                _ if is_instant(first) => DataType::Timestamp(TimeUnit::Microsecond, None),
                DataType::Timestamp(_, Some(_)) => {
                    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
                }
                _ if is_clock(first) => DataType::Time64(TimeUnit::Microsecond),
                DataType::Interval(_) => first.clone(),
                DataType::Null | DataType::Duration(_) => avg_udaf().return_type(types)?,
                of if of.is_numeric() => avg_udaf().return_type(types)?,
                other => return plan_err!("no mean of the argument types 'avg({other})'"),
            },
            Distance if is_instant(first) || is_clock(first) => INTERVAL,
            Distance => DataType::Float64,
            Between => match first {
                DataType::Date32 => DataType::Timestamp(TimeUnit::Second, None),
                DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
                DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
                DataType::Timestamp(..) | DataType::Time64(_) => first.clone(),
                _ if first.is_numeric() || first.is_null() => DataType::Float64,
                _ => first.clone(),
            },
        })
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("`{}` is computed by a module", self.name)
    }

    fn supports_within_group_clause(&self) -> bool {
        matches!(self.name, "mode" | "percentile_disc" | "percentile_cont" | "quantile_cont")
    }
}
