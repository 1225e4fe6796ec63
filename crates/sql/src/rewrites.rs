//! Rewrites of logical plans: into what can be lowered, or what costs less.

pub(crate) mod asof;
pub(crate) mod bags;
pub(crate) mod computed_limits;
pub(crate) mod dependent_joins;
pub(crate) mod distinct_on;
pub(crate) mod distinct_sums;
pub(crate) mod factor_conjuncts;
pub(crate) mod grouping_sets;
pub(crate) mod marks;
pub(crate) mod node_rule;
pub(crate) mod one_row_barriers;
pub(crate) mod outer_aggregates;
pub(crate) mod outer_conditions;
pub(crate) mod outer_references;
pub(crate) mod redundant_keys;
pub(crate) mod shared_parts;
pub(crate) mod single_rows;
pub(crate) mod subquery_places;
pub(crate) mod unnested;
pub(crate) mod using;
