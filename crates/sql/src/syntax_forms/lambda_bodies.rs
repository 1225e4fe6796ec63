//! Forms in the body of a lambda that the planner or its writer of texts takes of columns alone:
//! fields of structs, and lists that are written.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    AccessExpr, Array, Expr, Ident, LambdaFunction, Subscript, Value, VisitMut, VisitorMut,
};

use crate::functions::calls::{call, call_of};
use crate::functions::scalars::FIELD_OF;

/// Rewrites the body of a lambda.
pub(super) fn rewrite(lambda: &mut LambdaFunction) {
    let names = lambda.params.iter().map(|parameter| parameter.name.value.clone()).collect();
    let _: ControlFlow<()> = lambda.body.visit(&mut LambdaForms { names });
}

struct LambdaForms {
    names: Vec<String>,
}

impl LambdaForms {
    fn is_parameter(&self, name: &Ident) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(&name.value))
    }

    /// `x.a.b`
    fn fields(&self, path: &[Ident]) -> Option<Expr> {
        let (first, fields) = path.split_first().filter(|(first, _)| self.is_parameter(first))?;
        let of = Expr::Identifier(first.clone());
        Some(fields.iter().fold(of, |of, field| field_of(&of, &field.value)))
    }

    /// `x['a'].b`, and what follows these fields.
    fn accessed(&self, root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
        let Expr::Identifier(name) = root else { return None };
        if !self.is_parameter(name) {
            return None;
        }
        let fields = chain.iter().map_while(field_name).collect::<Vec<_>>();
        let of = fields.iter().fold(root.clone(), |of, field| field_of(&of, field));
        let access_chain = chain[fields.len()..].to_vec();
        Some(match (fields.is_empty(), access_chain.is_empty()) {
            (true, _) => return None,
            (_, true) => of,
            _ => Expr::CompoundFieldAccess { root: Box::new(of), access_chain },
        })
    }
}

impl VisitorMut for LambdaForms {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let rewritten = match expr {
            Expr::CompoundIdentifier(path) => self.fields(path),
            Expr::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain),
            Expr::Array(Array { elem, .. }) => Some(call_of("make_array", elem.clone())),
            Expr::Function(function) if function.name.to_string() == "get_field" => {
                function.name = vec![Ident::new(FIELD_OF)].into();
                None
            }
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expr = rewritten;
        }
        ControlFlow::Continue(())
    }
}

fn field_of(of: &Expr, field: &str) -> Expr {
    call(FIELD_OF, [of, &Expr::value(Value::SingleQuotedString(field.into()))])
}

fn field_name(access: &AccessExpr) -> Option<String> {
    match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.value.clone()),
        AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) => {
            match &value.value {
                Value::SingleQuotedString(name) => Some(name.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}
