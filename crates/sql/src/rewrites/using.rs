//! `*` over a join with `using`: a key comes once, where the left side has it.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, Result};
use datafusion_expr::logical_plan::{JoinConstraint, Projection};
use datafusion_expr::{Expr, LogicalPlan};

/// The plan with the left keys of joins with `using` in the place of the right ones, wherever all
/// columns but the left keys are selected, which is how the planner expands `*`.
pub(crate) fn in_left_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    let ordered = plan.transform_up(|node| match node {
        LogicalPlan::Projection(projection) => {
            let expressions = left_keys(&projection);
            if expressions == projection.expr {
                return Ok(Transformed::no(LogicalPlan::Projection(projection)));
            }
            let projection = Projection::try_new(expressions, projection.input)?;
            Ok(Transformed::yes(LogicalPlan::Projection(projection)))
        }
        other => other.recompute_schema().map(Transformed::yes),
    });
    ordered.map(|ordered| ordered.data)
}

fn left_keys(projection: &Projection) -> Vec<Expr> {
    let mut pairs = vec![];
    collect(&projection.input, &mut pairs);
    let mut expressions = projection.expr.clone();
    let all = projection.input.schema().columns();
    for (left, right) in pairs {
        let at = |column: &Column, among: &[Expr]| {
            among.iter().position(|one| matches!(one, Expr::Column(other) if other == column))
        };
        let (Some(from), None) = (at(&right, &expressions), at(&left, &expressions)) else {
            continue;
        };
        let place = all.iter().position(|column| *column == left).unwrap_or_default();
        let is_there = |column: &&Column| at(column, &projection.expr).is_some();
        let is_all = all[place + 1..].iter().any(|column| is_there(&column));
        if !is_all {
            continue;
        }
        expressions.remove(from);
        let before = all[..place].iter().rev().find_map(|column| at(column, &expressions));
        let to = before.map_or(0, |before| before + 1);
        let key = Expr::Column(left).alias_qualified(right.relation, right.name);
        expressions.insert(to.min(expressions.len()), key);
    }
    expressions
}

/// The key pairs of the joins with `using` whose columns a projection sees.
fn collect(plan: &LogicalPlan, pairs: &mut Vec<(Column, Column)>) {
    match plan {
        LogicalPlan::Filter(filter) => collect(&filter.input, pairs),
        LogicalPlan::Join(join) => {
            collect(&join.left, pairs);
            collect(&join.right, pairs);
            if join.join_constraint == JoinConstraint::Using {
                pairs.extend(join.on.iter().filter_map(|pair| match pair {
                    (Expr::Column(left), Expr::Column(right)) => {
                        Some((left.clone(), right.clone()))
                    }
                    _ => None,
                }));
            }
        }
        _ => {}
    }
}
