//! Conditions of inner joins that name columns of the query around a subquery become filters behind
//! the join, where the planner looks for them.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{JoinType, Result};
use datafusion_expr::logical_plan::{Filter, Join};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan};

/// The plan without such conditions.
pub(crate) fn lifted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let lifted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner
                && join.filter.as_ref().is_some_and(Expr::contains_outer) =>
        {
            let conjuncts = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
            let (outer, inner): (Vec<_>, Vec<_>) =
                conjuncts.into_iter().partition(Expr::contains_outer);
            let join = LogicalPlan::Join(Join { filter: conjunction(inner), ..join });
            let outer = conjunction(outer).expect("one names an outer column");
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(outer, Arc::new(join))?)))
        }
        // The planner looks at one filter.
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Filter(inner)
                if filter.predicate.contains_outer() || inner.predicate.contains_outer() =>
            {
                let both = inner.predicate.clone().and(filter.predicate.clone());
                let merged = Filter::try_new(both, inner.input.clone())?;
                Ok(Transformed::yes(LogicalPlan::Filter(merged)))
            }
            _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        },
        other => Ok(Transformed::no(other)),
    });
    lifted.map(|lifted| lifted.data)
}
