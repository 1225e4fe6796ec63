//! `order by all`: by all columns of the rows, from left to right.

use datafusion_sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value,
};

/// The only key of such an order.
fn key(query: &Query) -> Option<&OrderByExpr> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else {
        return None;
    };
    let [key] = &keys[..] else { return None };
    let Expr::Identifier(name) = &key.expr else { return None };
    (name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all")).then_some(key)
}

/// Whether a query is ordered by all columns.
pub(super) fn is_ordered_so(query: &Query) -> bool {
    key(query).is_some()
}

/// The number of columns, if the query lists them one by one.
pub(super) fn listed(query: &Query) -> Option<usize> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_one = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let are_listed = !select.projection.is_empty() && select.projection.iter().all(is_one);
    are_listed.then_some(select.projection.len())
}

/// The query without its order and limit, whose rows have the same columns.
pub(super) fn unordered(query: &Query) -> Query {
    Query { order_by: None, limit_clause: None, fetch: None, ..query.clone() }
}

/// Orders by the positions of all columns.
pub(super) fn write_positions(query: &mut Query, columns: usize) {
    let Some(key) = key(query).cloned() else { return };
    let position = |at: usize| Expr::value(Value::Number(at.to_string(), false));
    let keys = (1..=columns).map(|at| OrderByExpr { expr: position(at), ..key.clone() }).collect();
    if let Some(order) = &mut query.order_by {
        order.kind = OrderByKind::Expressions(keys);
    }
}
