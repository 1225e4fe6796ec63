//! Comparisons with `any` and `all` rows of a query, as tests of which rows there are.

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr, Query};

use crate::relations::parsed_expression;

/// The condition of a filter, for which null is as good as false.
pub(crate) fn condition(expr: &Expr) -> Option<Expr> {
    if let Some(test) = is_in(expr) {
        return Some(test);
    }
    match expr {
        Expr::AnyOp { left, compare_op, right, .. } => {
            let (rows, compared) = compared(left, compare_op, right)?;
            parsed_expression(&format!("exists ({rows} where {compared})"))
        }
        Expr::AllOp { left, compare_op, right } => {
            let (rows, compared) = compared(left, compare_op, right)?;
            parsed_expression(&format!("not exists ({rows} where ({compared}) is not true)"))
        }
        _ => None,
    }
}

/// True, false, or null, if some row may compare.
pub(crate) fn value(expr: &Expr) -> Option<Expr> {
    if let Some(test) = is_in(expr) {
        return Some(test);
    }
    let (left, op, right, found) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
        _ => return None,
    };
    let Some((rows, compared)) = compared(left, op, right) else {
        return in_list(left, op, right, found);
    };
    parsed_expression(&format!(
        "case when exists ({rows} where ({compared}) is {found}) then {found} \
         when exists ({rows} where ({compared}) is null) then null else {} end",
        !found
    ))
}

/// `= any` and `<> all` of a list that is computed, and orders: null, if no item decides and one is
/// null.
fn in_list(left: &Expr, op: &BinaryOperator, list: &Expr, found: bool) -> Option<Expr> {
    let is_written = matches!(list, Expr::Array(_));
    if matches!(list, Expr::Value(_)) {
        return None;
    }
    // The item that decides: `a > any` if the least is less, `a > all` if the greatest is.
    let decides = match (op, found) {
        (BinaryOperator::Eq, true) | (BinaryOperator::NotEq, false) if !is_written => {
            format!("list_contains({list}, {left})")
        }
        (BinaryOperator::Gt | BinaryOperator::GtEq, true) => {
            format!("{left} {op} list_min({list})")
        }
        (BinaryOperator::Lt | BinaryOperator::LtEq, true) => {
            format!("{left} {op} list_max({list})")
        }
        (BinaryOperator::Gt | BinaryOperator::GtEq, false) => {
            format!("not ({left} {op} list_max({list}))")
        }
        (BinaryOperator::Lt | BinaryOperator::LtEq, false) => {
            format!("not ({left} {op} list_min({list}))")
        }
        _ => return None,
    };
    parsed_expression(&format!(
        "case when {decides} then {found} \
         when ({list}) is null or len({list}) > list_count({list}) \
         or (({left}) is null and len({list}) > 0) then null else {} end",
        !found
    ))
}

/// `= any` and `<> all`.
fn is_in(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return None,
    };
    let (expr, subquery) = (left.clone(), Box::new(subquery(right)?.clone()));
    Some(Expr::InSubquery { expr, subquery, negated })
}

/// The rows of a query, and their comparison.
fn compared(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<(String, String)> {
    let query = subquery(right)?;
    let rows = format!("select 1 from ({query}) as compared_rows (compared_value)");
    Some((rows, format!("({left}) {op} compared_rows.compared_value")))
}

/// The contrary of a comparison with `any` or `all`.
pub(crate) fn contrary(expr: &Expr) -> Option<Expr> {
    let negated = |op: &BinaryOperator| {
        Some(match op {
            BinaryOperator::Eq => BinaryOperator::NotEq,
            BinaryOperator::NotEq => BinaryOperator::Eq,
            BinaryOperator::Lt => BinaryOperator::GtEq,
            BinaryOperator::GtEq => BinaryOperator::Lt,
            BinaryOperator::Gt => BinaryOperator::LtEq,
            BinaryOperator::LtEq => BinaryOperator::Gt,
            _ => return None,
        })
    };
    Some(match expr {
        Expr::Nested(inner) => contrary(inner)?,
        Expr::AnyOp { left, compare_op, right, .. } => Expr::AllOp {
            left: left.clone(),
            compare_op: negated(compare_op)?,
            right: right.clone(),
        },
        Expr::AllOp { left, compare_op, right } => Expr::AnyOp {
            left: left.clone(),
            compare_op: negated(compare_op)?,
            right: right.clone(),
            is_some: false,
        },
        _ => return None,
    })
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}
