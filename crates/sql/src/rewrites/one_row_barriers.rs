//! Keeps filters above aggregates without keys: these have one row even of no rows, so a condition
//! without columns must not move below them, as the planner's rule does it.
//!
//! The barrier is a limit of nothing, through which no filter moves; it is not lowered.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::LogicalPlan;
use datafusion_expr::logical_plan::Limit;
use datafusion_optimizer::OptimizerConfig;

use super::node_rule::NodeRule;

/// The rule of the optimizer, which comes before that which moves filters.
pub(crate) const ONE_ROW_BARRIERS: NodeRule = NodeRule { name: "one_row_barriers", rewrite };

/// Whether a limit is such a barrier.
pub(crate) fn is_barrier(limit: &Limit) -> bool {
    limit.skip.is_none() && limit.fetch.is_none()
}

fn rewrite(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    if matches!(&plan, LogicalPlan::Limit(limit) if is_barrier(limit)) {
        return Ok(Transformed::no(plan));
    }
    plan.map_children(|child| match child {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let input = Arc::new(LogicalPlan::Aggregate(aggregate));
            Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip: None, fetch: None, input })))
        }
        other => Ok(Transformed::no(other)),
    })
}
