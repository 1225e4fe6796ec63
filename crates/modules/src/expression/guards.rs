//! `AND` and `OR` that look at their right side only for rows whose left one does not decide.
//!
//! What SQL leaves open, and DataFusion decides batch by batch: whether `10 / n` is computed in
//! `n <> 0 AND 10 / n > 2` for an `n` of 0. Computing both sides is faster, and says the same
//! unless it fails; so this is asked only then.

use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{BinaryExpr, Case, Expr, Operator};

/// A larger one is not made: each right side stands in it twice.
const NODES_MAX: usize = 10_000;

/// The same expression with such an `AND` and `OR`, if there is any in it.
pub fn with_guards(expr: &Expr) -> Option<Expr> {
    if nodes(expr) > NODES_MAX {
        return None;
    }
    let guard = |node: Expr| match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_guard(op) => {
            Ok(Transformed::yes(guard(left, op, right)))
        }
        other => Ok(Transformed::no(other)),
    };
    let guarded = expr.clone().transform_up(guard).ok()?;
    guarded.transformed.then_some(guarded.data)
}

fn is_guard(op: Operator) -> bool {
    matches!(op, Operator::And | Operator::Or)
}

fn guard(left: Box<Expr>, op: Operator, right: Box<Expr>) -> Expr {
    let literal = |value: Option<bool>| Box::new(Expr::Literal(ScalarValue::Boolean(value), None));
    let decides = || literal(Some(op == Operator::Or));
    let unknown = BinaryExpr::new(right.clone(), op, literal(None));
    Expr::Case(Case {
        expr: Some(left),
        when_then_expr: vec![(decides(), decides()), (literal(Some(op == Operator::And)), right)],
        else_expr: Some(Box::new(Expr::BinaryExpr(unknown))),
    })
}

/// The nodes of what would be made of it.
fn nodes(expr: &Expr) -> usize {
    let mut sum: usize = 1;
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_guard(*op) => {
            sum = sum.saturating_add(nodes(left)).saturating_add(nodes(right).saturating_mul(2));
        }
        other => {
            let _ = other.apply_children(|child| {
                sum = sum.saturating_add(nodes(child));
                Ok(TreeNodeRecursion::Continue)
            });
        }
    }
    sum
}
