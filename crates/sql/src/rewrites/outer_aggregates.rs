//! Aggregates of columns of the query around a subquery belong to that query, as in PostgreSQL and
//! DuckDB. They are refused: the subquery would compute them of its own rows.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, plan_err};
use datafusion_expr::{Expr, LogicalPlan};

/// Fails if a subquery has such an aggregate.
pub(crate) fn refuse(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            for call in &aggregate.aggr_expr {
                if is_outer(call)? {
                    return plan_err!(
                        "`{}` in a subquery is an aggregate of the query around it: compute it \
                         there, in a subquery of `from`",
                        call.schema_name()
                    );
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(plan)
}

/// Whether the arguments of a call are columns of the query around it alone.
fn is_outer(call: &Expr) -> Result<bool> {
    let Expr::AggregateFunction(function) = call else { return Ok(false) };
    let (mut has_outer, mut has_own) = (false, false);
    for arg in &function.params.args {
        arg.apply(|one| {
            has_outer |= matches!(one, Expr::OuterReferenceColumn(..));
            has_own |= matches!(one, Expr::Column(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(has_outer && !has_own)
}
