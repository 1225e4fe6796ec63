//! The aggregate functions, and their names.

use super::states::{BitOperation, Collection, PairStatistic, Spread};

/// What `aggregate` computes of the values of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AggregateFunction {
    /// The number of rows, or of values that are not null.
    Count,
    /// The number of distinct values that are not null.
    CountDistinct,
    Sum,
    Min,
    Max,
    /// The arithmetic mean of the values that are not null.
    Avg,
    /// Their variance or standard deviation.
    Spread(Spread),
    /// The product, as a floating point number.
    Product,
    /// Integers combined bit by bit.
    Bits(BitOperation),
    /// Of two numbers in each row, like their covariance.
    Pairs(PairStatistic),
    /// An estimate of the number of distinct values, in bounded memory.
    ApproxDistinct,
    /// An estimate of the value below which a fraction of the values lies, in bounded memory.
    ApproxQuantile(f64),
    /// Of all rows of a group, which are collected.
    Collected(Collection),
}

/// How the call of a function is resolved.
#[derive(Clone, Copy)]
pub(crate) enum Definition {
    Count,
    CountIf,
    Sum,
    Min,
    Max,
    Avg,
    Spread(Spread),
    Product,
    Bits(BitOperation),
    Pairs(PairStatistic),
    ApproxDistinct,
    ApproxMedian,
    ApproxQuantile,
    Median,
    QuantileCont,
    QuantileDisc,
    Mode,
    List,
    Join,
    First,
    Last,
    Any,
    Only,
    ArgMin,
    ArgMax,
}

use Definition as D;

const fn spread(is_root: bool, is_sample: bool) -> Definition {
    D::Spread(Spread { is_sample, is_root })
}

/// The functions by name.
pub(crate) const FUNCTIONS: [(&str, Definition); 64] = [
    ("count", D::Count),
    ("sum", D::Sum),
    ("min", D::Min),
    ("max", D::Max),
    ("avg", D::Avg),
    ("bool_and", D::Min),
    ("bool_or", D::Max),
    ("count_if", D::CountIf),
    ("countif", D::CountIf),
    ("variance", spread(false, true)),
    ("var_samp", spread(false, true)),
    ("var", spread(false, true)),
    ("var_pop", spread(false, false)),
    ("stddev", spread(true, true)),
    ("stddev_samp", spread(true, true)),
    ("stddev_pop", spread(true, false)),
    ("product", D::Product),
    ("bit_and", D::Bits(BitOperation::And)),
    ("bit_or", D::Bits(BitOperation::Or)),
    ("bit_xor", D::Bits(BitOperation::Xor)),
    ("covar_pop", D::Pairs(PairStatistic::CovarPop)),
    ("covar_samp", D::Pairs(PairStatistic::CovarSamp)),
    ("covar", D::Pairs(PairStatistic::CovarSamp)),
    ("corr", D::Pairs(PairStatistic::Corr)),
    ("regr_slope", D::Pairs(PairStatistic::Slope)),
    ("regr_intercept", D::Pairs(PairStatistic::Intercept)),
    ("regr_r2", D::Pairs(PairStatistic::R2)),
    ("regr_count", D::Pairs(PairStatistic::Count)),
    ("regr_avgx", D::Pairs(PairStatistic::AvgX)),
    ("regr_avgy", D::Pairs(PairStatistic::AvgY)),
    ("regr_sxx", D::Pairs(PairStatistic::Sxx)),
    ("regr_syy", D::Pairs(PairStatistic::Syy)),
    ("regr_sxy", D::Pairs(PairStatistic::Sxy)),
    ("median", D::Median),
    ("quantile_cont", D::QuantileCont),
    ("percentile_cont", D::QuantileCont),
    ("quantile_disc", D::QuantileDisc),
    ("percentile_disc", D::QuantileDisc),
    ("quantile", D::QuantileDisc),
    ("mode", D::Mode),
    ("array_agg", D::List),
    ("list", D::List),
    ("string_agg", D::Join),
    ("group_concat", D::Join),
    ("listagg", D::Join),
    ("first", D::First),
    ("first_value", D::First),
    ("last", D::Last),
    ("last_value", D::Last),
    ("any_value", D::Any),
    ("only", D::Only),
    ("arbitrary", D::First),
    ("arg_min", D::ArgMin),
    ("argmin", D::ArgMin),
    ("min_by", D::ArgMin),
    ("arg_max", D::ArgMax),
    ("argmax", D::ArgMax),
    ("max_by", D::ArgMax),
    ("approx_distinct", D::ApproxDistinct),
    ("approx_count_distinct", D::ApproxDistinct),
    ("approx_median", D::ApproxMedian),
    ("approx_quantile", D::ApproxQuantile),
    ("approx_percentile_cont", D::ApproxQuantile),
    ("every", D::Min),
];

/// Whether this is the name of an aggregate function.
pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}
