//! Inner joins without keys get those that the query has elsewhere: `from a, b where a.x = b.x`,
//! and `a cross join b join c on a.x = c.x and b.y = c.y`.
//!
//! The planner's own rule loses a key whose side has columns of two inputs, `a.x + b.y = c.z`, if
//! these are no longer joined first; and it takes nulls for equal in all joins of a tree if they
//! are in one.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::logical_plan::{Filter, Projection};
use datafusion_expr::utils::{can_hash, conjunction, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion_optimizer::OptimizerConfig;

use super::{JoinGraph, connects, is_inner, join};
use crate::rewrites::factor_conjuncts::factors;
use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const CONNECTED_INPUTS: NodeRule = NodeRule { name: "connected_inputs", rewrite };

fn rewrite(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let (joins, mut conditions) = match &plan {
        LogicalPlan::Filter(filter) => {
            (filter.input.as_ref(), split_conjunction_owned(filter.predicate.clone()))
        }
        other => (other, vec![]),
    };
    if !has_cross_join(joins) {
        return Ok(Transformed::no(plan));
    }
    let mut graph = JoinGraph::default();
    graph.flatten(joins);
    let JoinGraph { inputs, mut on, filters } = graph;
    conditions.extend(filters.into_iter().flat_map(split_conjunction_owned));
    let mut filters = vec![];
    // `(a.x = b.x and …) or (a.x = b.x and …)` has a key, too.
    for condition in conditions.into_iter().flat_map(factors) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                if can_hash(&left.get_type(joins.schema())?)
                    && can_hash(&right.get_type(joins.schema())?) =>
            {
                on.push((*left, *right));
            }
            other => filters.push(other),
        }
    }
    let mut inputs = inputs.into_iter().collect::<Vec<_>>();
    let mut joined = inputs.remove(0);
    while !inputs.is_empty() {
        let is_next = |input: &LogicalPlan| on.iter().any(|pair| connects(pair, &joined, input));
        let next = inputs.iter().position(is_next).unwrap_or(0);
        joined = join(joined, inputs.remove(next), &mut on, &mut filters)?;
    }
    if plan.schema() != joined.schema() {
        let schema = Arc::clone(plan.schema());
        joined = LogicalPlan::Projection(Projection::new_from_schema(Arc::new(joined), schema));
    }
    let left = on.into_iter().map(|(left, right)| left.eq(right)).chain(filters);
    if let Some(left) = conjunction(left) {
        joined = LogicalPlan::Filter(Filter::try_new(left, Arc::new(joined))?);
    }
    Ok(Transformed::yes(joined))
}

/// Whether one of the inner joins of a tree has no keys.
fn has_cross_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) if is_inner(join) => {
            join.on.is_empty() || has_cross_join(&join.left) || has_cross_join(&join.right)
        }
        _ => false,
    }
}
