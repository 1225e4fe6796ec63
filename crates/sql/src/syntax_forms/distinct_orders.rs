//! `select distinct on (a) … order by b`: the planner wants the order to begin with `a`. So the
//! first row of each `a` is chosen by `b` in a query of its own, and the order is that of the rest.

use datafusion_sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value,
};

use crate::relations::parsed_query;

/// Rewrites such a query; leaves others as they are.
pub(super) fn separate(query: &mut Query) {
    if let Some(separated) = separated(query) {
        *query = separated;
    }
}

fn separated(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let Some(Distinct::On(on)) = &select.distinct else { return None };
    let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else { return None };
    let meant: Vec<Expr> = keys.iter().map(|key| meant(&key.expr, &select.projection)).collect();
    let on: Vec<Expr> = on.iter().map(|key| self::meant(key, &select.projection)).collect();
    if on.len() <= meant.len() && on.iter().all(|key| meant[..on.len()].contains(key)) {
        return None;
    }
    let mut inner = Query { with: None, limit_clause: None, fetch: None, ..query.clone() };
    let SetExpr::Select(chosen) = inner.body.as_mut() else { return None };
    chosen.distinct = Some(Distinct::On(on.clone()));
    let name = |at: usize| Ident::with_quote('"', format!("order of distinct {at}"));
    for (at, key) in meant.iter().enumerate() {
        let (expr, alias) = (key.clone(), name(at));
        chosen.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    let by = |expr: Expr, key: &OrderByExpr| OrderByExpr { expr, ..key.clone() };
    let plain = OrderByExpr { options: Default::default(), ..keys.first()?.clone() };
    let first = on.into_iter().map(|key| by(key, &plain));
    let then = meant.into_iter().zip(keys).map(|(expr, key)| by(expr, key));
    let order = first.chain(then).collect();
    inner.order_by.as_mut()?.kind = OrderByKind::Expressions(order);
    let hidden: Vec<String> = (0..keys.len()).map(|at| name(at).to_string()).collect();
    let hidden = hidden.join(", ");
    let mut outer = parsed_query(&format!(
        "select * exclude ({hidden}) from ({inner}) as chosen order by {hidden}"
    ))
    .ok()?;
    let order = keys.iter().enumerate().map(|(at, key)| by(Expr::Identifier(name(at)), key));
    outer.order_by.as_mut()?.kind = OrderByKind::Expressions(order.collect());
    outer.with.clone_from(&query.with);
    outer.limit_clause.clone_from(&query.limit_clause);
    outer.fetch.clone_from(&query.fetch);
    Some(outer)
}

/// The expression that a key stands for: the number or the name of a selected value.
fn meant(key: &Expr, items: &[SelectItem]) -> Expr {
    let of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    let found = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let at = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                at.and_then(|at| items.get(at)).and_then(of)
            }
            _ => None,
        },
        Expr::Identifier(name) => items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => {
                Some(expr.clone())
            }
            _ => None,
        }),
        _ => None,
    };
    found.unwrap_or_else(|| key.clone())
}
