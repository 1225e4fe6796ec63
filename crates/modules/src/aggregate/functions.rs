//! The aggregate functions, and their names.

use arrow::compute::SortOptions;

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
    /// Of the powers of the values, like their skewness.
    Powers(PowerStatistic),
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
    Collected(RowCollection),
}

/// What is made of the moments of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Whether the values are a sample: then the squares are divided by one less than their number.
    pub(crate) is_sample: bool,
    /// Whether it is the root of the variance.
    pub(crate) is_root: bool,
    /// Whether it is that of the mean: over the root of the number of values.
    pub(crate) is_of_mean: bool,
}

/// What is made of the sums of powers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerStatistic {
    Skewness,
    Kurtosis,
    KurtosisPop,
    /// The geometric mean, of the sum of logarithms.
    GeometricMean,
}

/// How integers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitOperation {
    And,
    Or,
    Xor,
}

/// What is made of the moments of pairs: of a dependent number *y*, the first argument, and an
/// independent one, *x*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairStatistic {
    CovarPop,
    CovarSamp,
    Corr,
    Slope,
    Intercept,
    R2,
    Count,
    AvgX,
    AvgY,
    Sxx,
    Syy,
    Sxy,
}

/// Which rows of a group are collected, in which order, and what is made of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowCollection {
    pub(crate) keep: Keep,
    /// The order of a group's rows: of distinct values, else of the columns behind the value.
    pub(crate) order: Vec<SortOptions>,
    /// How many of the first columns must not be null.
    pub(crate) skips_nulls: usize,
    /// Whether the last column says if a row belongs to the group.
    pub(crate) is_filtered: bool,
    pub(crate) finish: Finish,
}

/// The rows of a group that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keep {
    All,
    /// One for each value.
    Distinct,
    /// The first in the order, or of those that came, if there is none.
    First,
    /// The last.
    Last,
    /// This number of the first.
    Few(usize),
}

/// The result of a group's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finish {
    /// The list of the values.
    List,
    /// The values as one text, with this between them.
    Join(String),
    /// The middle value; of numbers and instants, what lies between the middle two.
    Median,
    /// The number below which this fraction of the values lies, between two of them if need be.
    Quantile(f64),
    /// The first value that is not below this fraction of the values.
    QuantileDisc { fraction: f64, descending: bool },
    /// The same for several fractions, as a list.
    Quantiles { fractions: Vec<f64>, is_disc: bool, descending: bool },
    /// The median of the distances from the median.
    MedianDistance,
    /// The information of a value in bits.
    Entropy,
    /// How often each value comes, as a map.
    Histogram,
    /// The most frequent value; of several, the smallest.
    Mode,
    /// The most frequent value; of several, the first in the order.
    FirstMode,
    /// The value of the first row.
    Value,
    /// The value of the only row; several fail.
    Only,
    /// A function of all values.
    Function(Box<AggregateFunction>),
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
    Powers(PowerStatistic),
    SumOfFloats,
    AvgOfFloats,
    MedianDistance,
    Entropy,
    Histogram,
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
    D::Spread(Spread { is_sample, is_root, is_of_mean: false })
}

/// The functions by name.
pub(crate) const AGGREGATES: [(&str, Definition); 77] = [
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
    ("sem", D::Spread(Spread { is_sample: false, is_root: true, is_of_mean: true })),
    ("skewness", D::Powers(PowerStatistic::Skewness)),
    ("kurtosis", D::Powers(PowerStatistic::Kurtosis)),
    ("kurtosis_pop", D::Powers(PowerStatistic::KurtosisPop)),
    ("geomean", D::Powers(PowerStatistic::GeometricMean)),
    ("geometric_mean", D::Powers(PowerStatistic::GeometricMean)),
    ("fsum", D::SumOfFloats),
    ("kahan_sum", D::SumOfFloats),
    ("sumkahan", D::SumOfFloats),
    ("favg", D::AvgOfFloats),
    ("mad", D::MedianDistance),
    ("entropy", D::Entropy),
    ("histogram", D::Histogram),
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
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}
