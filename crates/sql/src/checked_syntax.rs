//! What the planner would pass over or fail at is refused, and what it would plan wrongly is
//! written in another way.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Query, Select, UnaryOperator, VisitMut,
    VisitorMut,
};
use euphrates_flow::{Error, Result};

use crate::statement::unsupported;

/// Checks a query.
pub(crate) fn check(query: &mut Query) -> Result<()> {
    match query.visit(&mut Checker) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Checker;

impl VisitorMut for Checker {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if !query.locks.is_empty() {
            return ControlFlow::Break(unsupported("for update"));
        }
        ControlFlow::Continue(())
    }

    /// Without a condition, a word that is no kind of join would be a name, and the join a product.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let joins = select.from.iter().flat_map(|table| &table.joins);
        let mut kinds = joins.map(|join| &join.join_operator);
        let is_bare = |kind: &JoinOperator| {
            matches!(
                kind,
                JoinOperator::Join(JoinConstraint::None)
                    | JoinOperator::Inner(JoinConstraint::None)
            )
        };
        if kinds.any(is_bare) {
            let error = Error::usage("a join has no condition");
            let remedy = "write `on …` or `using (…)`, or `cross join` for all pairs";
            return ControlFlow::Break(error.remedy(remedy));
        }
        ControlFlow::Continue(())
    }

    /// The parser gives all that follows `is distinct from` to its right side. And as a key of a
    /// join, `is not distinct from` would make nulls equal in its other keys, too.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::IsDistinctFrom(left, right) => {
                let left = left.clone();
                let differ = |right: Expr| Expr::IsDistinctFrom(left.clone(), Box::new(right));
                *expr = at_leftmost((**right).clone(), &is_logical, &differ);
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let left = left.clone();
                let equal = |right: Expr| {
                    let differ = Expr::IsDistinctFrom(left.clone(), Box::new(right));
                    not(Expr::Nested(Box::new(differ)))
                };
                *expr = at_leftmost((**right).clone(), &is_logical, &equal);
            }
            // Only behind such a right side are these without parentheses.
            Expr::BinaryOp { left, op: BinaryOperator::And, right } if is_or(right) => {
                let left = left.clone();
                let both = |right: Expr| Expr::BinaryOp {
                    left: left.clone(),
                    op: BinaryOperator::And,
                    right: Box::new(right),
                };
                *expr = at_leftmost((**right).clone(), &is_or, &both);
            }
            // The planner drops `a = a` of the query around a subquery, though it may be null.
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if left == right => {
                let (left, right, op) = (left.clone(), right.clone(), BinaryOperator::NotEq);
                *expr = not(Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })));
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if is_logical(inner) => {
                *expr = at_leftmost((**inner).clone(), &is_logical, &not);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

pub(crate) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

fn is_or(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or, .. })
}

fn is_logical(expr: &Expr) -> bool {
    is_or(expr) || matches!(expr, Expr::BinaryOp { op: BinaryOperator::And, .. })
}

/// The expression with its leftmost operand replaced, below operators that `is_inner` tells.
fn at_leftmost(
    expr: Expr,
    is_inner: &dyn Fn(&Expr) -> bool,
    replace: &dyn Fn(Expr) -> Expr,
) -> Expr {
    if !is_inner(&expr) {
        return replace(expr);
    }
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let left = Box::new(at_leftmost(*left, is_inner, replace));
            Expr::BinaryOp { left, op, right }
        }
        other => other,
    }
}
