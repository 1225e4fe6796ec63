//! Visits the expressions of a part of a query, without those of the subqueries in it, whose own
//! columns come first.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};

/// Calls `each` with the expressions of the query's own level, the inner ones first.
pub(super) fn each_expression(part: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    let _: ControlFlow<()> = part.visit(&mut OwnLevel { each, depth: 0 });
}

struct OwnLevel<'a> {
    each: &'a mut dyn FnMut(&mut Expr),
    /// In how many subqueries the visitor is.
    depth: usize,
}

impl VisitorMut for OwnLevel<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.each)(expr);
        }
        ControlFlow::Continue(())
    }
}
