//! `not in` with a subquery that names columns of the query around it: a row is left out if a row
//! of its subquery is equal, or may be because one of both is null.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{JoinType, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_optimizer::OptimizerConfig;

use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer, which comes directly after that which makes joins of subqueries.
pub(crate) const CORRELATED_NOT_IN: NodeRule = NodeRule { name: "correlated_not_in", rewrite };

fn rewrite(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let filter = join.filter.clone();
    let conjuncts = filter.map(split_conjunction_owned).unwrap_or_default();
    // The first conjunct is the comparison, and the others are the subquery's conditions.
    let [comparison, conditions @ ..] = &conjuncts[..] else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let is_plain = conditions.is_empty() || !join.on.is_empty();
    if join.join_type != JoinType::LeftAnti || !join.null_aware || is_plain {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let may_be_equal = Expr::IsNotFalse(Box::new(comparison.clone()));
    let filter = conjunction(conditions.iter().cloned().chain([may_be_equal]));
    Ok(Transformed::yes(LogicalPlan::Join(Join { filter, null_aware: false, ..join })))
}
