//! Visits the expressions of a part of a query, without those of the subqueries in it, whose own
//! columns come first, and without the names that a lambda gives to its parameters.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};

/// Calls `each` with the expressions of the query's own level, the inner ones first.
pub(super) fn each_expression(part: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    let _: ControlFlow<()> = part.visit(&mut OwnLevel { each, depth: 0, parameters: vec![] });
}

struct OwnLevel<'a> {
    each: &'a mut dyn FnMut(&mut Expr),
    /// In how many subqueries the visitor is.
    depth: usize,
    /// The parameters of the lambdas around.
    parameters: Vec<String>,
}

impl OwnLevel<'_> {
    fn is_parameter(&self, expr: &Expr) -> bool {
        let name = match expr {
            Expr::Identifier(name) => &name.value,
            Expr::CompoundIdentifier(path) => &path[0].value,
            _ => return false,
        };
        self.parameters.iter().any(|parameter| parameter.eq_ignore_ascii_case(name))
    }
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

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.parameters.extend(lambda.params.iter().map(|it| it.name.value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            let of_others = self.parameters.len() - lambda.params.iter().count();
            self.parameters.truncate(of_others);
        }
        if self.depth == 0 && !self.is_parameter(expr) {
            (self.each)(expr);
        }
        ControlFlow::Continue(())
    }
}
