//! Scalar functions called from DataFusion's expressions. Some wrap DataFusion's function of the
//! same name; others are internal, and no expression can name them.

pub(crate) mod calendar;
pub(crate) mod coalesce;
pub(crate) mod decimal_arithmetic;
pub(crate) mod decimals;
mod delegate;
pub(crate) mod exact;
pub(crate) mod lambda_kinds;
pub(crate) mod let_binding;
pub(crate) mod library;
pub(crate) mod list_lambdas;
pub(crate) mod materialize;
pub(crate) mod regexp_extract;
pub(crate) mod result_size;
pub(crate) mod rounding;
pub(crate) mod short_circuit;
pub(crate) mod short_circuit_rewrite;
pub(crate) mod struct_field;
pub(crate) mod text_casts;
pub(crate) mod time_zones;
pub(crate) mod zoned_intervals;
