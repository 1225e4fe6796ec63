//! Sums and means of distinct values are computed of groups by key *and* value, whose number
//! memory does not bound: as states they would be all values of a group. Distinct values are
//! counted by a module that does the same.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const DISTINCT_SUMS: NodeRule = NodeRule { name: "distinct_sums", rewrite };

fn rewrite(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let calls = aggregate.aggr_expr.iter().map(kind);
    let is_wanted = calls.clone().any(|kind| kind == CallKind::DistinctSum);
    if !is_wanted || calls.clone().any(|kind| kind == CallKind::Other) {
        return Ok(Transformed::no(plan));
    }
    SingleDistinctToGroupBy::new().rewrite(plan, config)
}

#[derive(Clone, Copy, PartialEq)]
enum CallKind {
    DistinctSum,
    /// What has the same value of distinct values, or counts them.
    OfDistinct,
    Other,
}

fn kind(call: &Expr) -> CallKind {
    let Expr::AggregateFunction(call) = call else { return CallKind::Other };
    match (call.func.name(), call.params.distinct, &call.params.args[..]) {
        ("sum" | "avg", true, [_]) => CallKind::DistinctSum,
        ("count", true, [_]) | ("min" | "max", _, [_]) => CallKind::OfDistinct,
        _ => CallKind::Other,
    }
}
