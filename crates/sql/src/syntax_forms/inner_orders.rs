//! The order of the rows that a query with `limit` counts: that of a subquery in `from`, or of a
//! common table. The planner drops such an order, unless the inner query has a limit as well.

use datafusion_sql::sqlparser::ast::{
    Expr, LimitClause, OrderByKind, Query, SetExpr, TableFactor, Value, With,
};

/// A limit that no table reaches.
const ALL_ROWS: u64 = u64::MAX >> 2;

/// Gives a limit to the query on whose order this one's limit depends.
pub(super) fn keep(query: &mut Query) {
    let counts = |clause: &LimitClause| match clause {
        LimitClause::LimitOffset { limit, offset, .. } => limit.is_some() || offset.is_some(),
        LimitClause::OffsetCommaLimit { .. } => true,
    };
    if query.order_by.is_some() || !query.limit_clause.as_ref().is_some_and(counts) {
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if let [table] = &mut select.from[..]
        && table.joins.is_empty()
    {
        keep_of(&mut table.relation, query.with.as_mut());
    }
}

fn keep_of(table: &mut TableFactor, with: Option<&mut With>) {
    match table {
        TableFactor::Derived { subquery, .. } => limit(subquery),
        TableFactor::Table { name, args: None, .. } => {
            let name = name.to_string();
            let tables = with.into_iter().flat_map(|with| &mut with.cte_tables);
            let mut named = tables.filter(|table| table.alias.name.to_string() == name);
            if let Some(table) = named.next() {
                limit(&mut table.query);
            }
        }
        _ => {}
    }
}

/// Limits an ordered query; or one whose rows come from such a query in their order.
fn limit(query: &mut Query) {
    let is_ordered = query.order_by.as_ref().is_some_and(|order| match &order.kind {
        OrderByKind::Expressions(keys) => !keys.is_empty(),
        OrderByKind::All(_) => true,
    });
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return;
    }
    if is_ordered {
        let all = Expr::value(Value::Number(ALL_ROWS.to_string(), false));
        query.limit_clause =
            Some(LimitClause::LimitOffset { limit: Some(all), offset: None, limit_by: vec![] });
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if let [table] = &mut select.from[..]
        && table.joins.is_empty()
    {
        keep_of(&mut table.relation, query.with.as_mut());
    }
}
