//! `*` over a join with `using`: a key comes once, where the left side has it.

use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::logical_plan::{JoinConstraint, Projection};
use datafusion_expr::{Expr, LogicalPlan};

/// The plan of `select * from …` with the left keys of joins with `using` in the place of the right
/// ones, which the planner selects.
pub(crate) fn star_in_left_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let expressions = left_keys(&projection);
            Ok(LogicalPlan::Projection(Projection::try_new(expressions, projection.input)?))
        }
        other => Ok(other),
    }
}

fn left_keys(projection: &Projection) -> Vec<Expr> {
    let mut pairs = vec![];
    collect(&projection.input, &mut pairs);
    let mut expressions = projection.expr.clone();
    let all = projection.input.schema().columns();
    for (left, right, kept) in pairs {
        let at = |column: &Column, among: &[Expr]| {
            among.iter().position(|one| matches!(one, Expr::Column(other) if other == column))
        };
        let (Some(from), None) = (at(&right, &expressions), at(&left, &expressions)) else {
            continue;
        };
        let place = all.iter().position(|column| *column == left).unwrap_or_default();
        expressions.remove(from);
        let before = all[..place].iter().rev().find_map(|column| at(column, &expressions));
        let to = before.map_or(0, |before| before + 1);
        let key = Expr::Column(left).alias_qualified(kept.relation, kept.name);
        expressions.insert(to.min(expressions.len()), key);
    }
    expressions
}

/// The key pairs of the joins with `using` whose columns a projection sees, with the column of each
/// that has a value in all rows of the join.
fn collect(plan: &LogicalPlan, pairs: &mut Vec<(Column, Column, Column)>) {
    match plan {
        LogicalPlan::Filter(filter) => collect(&filter.input, pairs),
        LogicalPlan::Join(join) => {
            collect(&join.left, pairs);
            collect(&join.right, pairs);
            if join.join_constraint == JoinConstraint::Using {
                pairs.extend(join.on.iter().filter_map(|pair| match pair {
                    (Expr::Column(left), Expr::Column(right)) => {
                        let kept = if join.join_type == JoinType::Right { right } else { left };
                        Some((left.clone(), right.clone(), kept.clone()))
                    }
                    _ => None,
                }));
            }
        }
        _ => {}
    }
}
