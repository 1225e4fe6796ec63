//! Keys of groups that are constants, or that other keys determine, are computed of the groups.
//!
//! The planner's rule names a cast like the column in it, so it fails where both are keys; such
//! groups stay as they are.

use std::collections::HashSet;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::LogicalPlan;
use datafusion_optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const REDUNDANT_KEYS: NodeRule = NodeRule { name: "redundant_keys", rewrite };

fn rewrite(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let mut names = HashSet::new();
    let mut all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    if all.any(|one| !names.insert(one.schema_name().to_string())) {
        return Ok(Transformed::no(plan));
    }
    EliminateGroupByConstant::new().rewrite(plan, config)
}
