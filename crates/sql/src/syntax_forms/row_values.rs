//! Comparisons of rows, `(a, b) = (1, 2)` and `(a, b) in (select …)`, as comparisons of their
//! values, and other rows as structs.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value,
    VisitorMut,
};

use crate::functions::calls::call_of;
use crate::relations::parsed_expression;

/// The comparison of values that a comparison of rows is.
pub(crate) fn compared(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            parsed_expression(&comparison(&row(left)?, op, &row(right)?)?)
        }
        Expr::InList { expr, list, negated } => {
            let left = row(expr)?;
            let equal = list.iter().map(|item| comparison(&left, &BinaryOperator::Eq, &row(item)?));
            let any = equal.collect::<Option<Vec<_>>>()?.join(" or ");
            let not = if *negated { "not " } else { "" };
            parsed_expression(&format!("({not}({any}))"))
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let text = in_query(&row(expr)?, subquery);
            let not = if *negated { "not " } else { "" };
            parsed_expression(&format!("({not}{text})"))
        }
        _ => None,
    }
}

/// A condition that holds where `in` does, for a filter, for which null is as good as false.
pub(crate) fn filtered(expr: &Expr) -> Option<Expr> {
    let Expr::InSubquery { expr, subquery, negated } = expr else { return None };
    let left = row(expr)?;
    let equal = all_equal(&left);
    parsed_expression(&match negated {
        false => format!("exists ({} where {equal})", rows_of(&left, subquery)),
        true => format!("not exists ({} where ({equal}) is not false)", rows_of(&left, subquery)),
    })
}

/// True if a row is equal, else null if one may be.
fn in_query(left: &[Expr], query: &Query) -> String {
    let (rows, equal) = (rows_of(left, query), all_equal(left));
    format!(
        "case when exists ({rows} where {equal}) then true \
         when exists ({rows} where ({equal}) is null) then null else false end"
    )
}

fn rows_of(left: &[Expr], query: &Query) -> String {
    let names: Vec<String> = (1..=left.len()).map(|at| format!("value_{at}")).collect();
    format!("select 1 from ({query}) as compared_rows ({})", names.join(", "))
}

fn all_equal(left: &[Expr]) -> String {
    let equal = left
        .iter()
        .enumerate()
        .map(|(at, value)| format!("({value}) = compared_rows.value_{}", at + 1));
    equal.collect::<Vec<_>>().join(" and ")
}

/// The values of a row of several: `(a, b)`, or `row(a, b)`.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) if values.len() > 1 => Some(values.clone()),
        Expr::Function(call) => values_of(call).filter(|values| values.len() > 1),
        Expr::Nested(inner) => row(inner),
        _ => None,
    }
}

/// Rows are ordered by their first values that differ.
fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<String> {
    if left.len() != right.len() {
        return None;
    }
    let equal = |count: usize| {
        let pairs = left.iter().zip(right).take(count);
        pairs.map(|(left, right)| format!("({left}) = ({right})")).collect::<Vec<_>>()
    };
    let strict = match op {
        BinaryOperator::Eq => return Some(format!("({})", equal(left.len()).join(" and "))),
        BinaryOperator::NotEq => {
            return Some(format!("(not ({}))", equal(left.len()).join(" and ")));
        }
        BinaryOperator::Lt | BinaryOperator::LtEq => "<",
        BinaryOperator::Gt | BinaryOperator::GtEq => ">",
        _ => return None,
    };
    let last = left.len() - 1;
    let alternatives = (0..left.len()).map(|at| {
        let op = if at == last { op.to_string() } else { strict.into() };
        let mut all = equal(at);
        all.push(format!("({}) {op} ({})", left[at], right[at]));
        format!("({})", all.join(" and "))
    });
    Some(format!("({})", alternatives.collect::<Vec<_>>().join(" or ")))
}

/// Writes rows that are not compared as structs: `(a, b)` and `row(a, b)`.
pub(crate) struct Structs;

impl VisitorMut for Structs {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let values = match expr {
            Expr::Tuple(values) if values.len() > 1 => Some(values.clone()),
            Expr::Function(call) => values_of(call),
            _ => None,
        };
        if let Some(values) = values {
            let named = |(at, value): (usize, Expr)| {
                let name = Value::SingleQuotedString(format!("element{}", at + 1));
                [Expr::value(name), value]
            };
            let args: Vec<Expr> = values.into_iter().enumerate().flat_map(named).collect();
            *expr = call_of("named_struct", args);
        }
        ControlFlow::Continue(())
    }
}

/// The values of `row(a, b)`.
fn values_of(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("row") {
        return None;
    }
    let values = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    values.collect()
}
