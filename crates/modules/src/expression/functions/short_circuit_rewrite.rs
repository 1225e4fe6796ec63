//! Rewrites `AND` and `OR` in an expression to their short-circuiting forms.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{BinaryExpr, Expr, Operator};

use super::let_binding;
use super::short_circuit::guard;

/// The expression with short-circuiting `AND` and `OR`, or `None` if it has neither.
pub(crate) fn with_guards(expr: &Expr) -> Option<Expr> {
    let rewrite = |node: Expr| match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_guard(op) => {
            Ok(Transformed::yes(guard(*left, op, *right)))
        }
        Expr::ScalarFunction(call) => Ok(match let_binding::with_body(&call, with_guards) {
            Some(guarded) => Transformed::yes(Expr::ScalarFunction(guarded)),
            None => Transformed::no(Expr::ScalarFunction(call)),
        }),
        other => Ok(Transformed::no(other)),
    };
    let guarded = expr.clone().transform_up(rewrite).ok()?;
    guarded.transformed.then_some(guarded.data)
}

fn is_guard(op: Operator) -> bool {
    matches!(op, Operator::And | Operator::Or)
}
