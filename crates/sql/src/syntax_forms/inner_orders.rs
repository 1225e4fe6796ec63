//! The order of the rows that a query with `limit` counts: that of a subquery in `from`, or of a
//! common table. The planner drops such an order, unless the inner query has a limit as well.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, LimitClause,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowType, With, visit_expressions,
};

use crate::functions::aggregates::is_computed;

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
    keep_below(query);
}

/// The same for the table of a query that selects its rows one by one.
fn keep_below(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_grouped = groups(select);
    if let [table] = &mut select.from[..]
        && table.joins.is_empty()
        && !is_grouped
    {
        keep_of(&mut table.relation, query.with.as_mut());
    }
}

/// Rewrites the order within an aggregate in forms that the planner takes.
pub(super) fn rewrite(expr: &mut Expr) {
    drop_numbers(expr);
    move_to_window(expr);
}

/// `string_agg(x, ',' order by y) over (partition by z)` is that of a window in this order, which
/// sees all rows of its partition.
fn move_to_window(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let Some(WindowType::WindowSpec(window)) = &mut call.over else { return };
    let is_of_partition = window.order_by.is_empty() && window.window_frame.is_none();
    if !is_of_partition || window.window_name.is_some() {
        return;
    }
    let FunctionArguments::List(arguments) = &mut call.args else { return };
    arguments.clauses.retain_mut(|clause| {
        let FunctionArgumentClause::OrderBy(keys) = clause else { return true };
        window.order_by.append(keys);
        false
    });
    if !window.order_by.is_empty() {
        window.window_frame = Some(WindowFrame {
            units: WindowFrameUnits::Rows,
            start_bound: WindowFrameBound::Preceding(None),
            end_bound: Some(WindowFrameBound::Following(None)),
        });
    }
}

/// Drops numbers from the order within an aggregate, where they are constants. The planner takes
/// them for positions in a list.
fn drop_numbers(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let FunctionArguments::List(arguments) = &mut call.args else { return };
    arguments.clauses.retain_mut(|clause| {
        let FunctionArgumentClause::OrderBy(keys) = clause else { return true };
        let is_number = |key: &Expr| {
            matches!(key, Expr::Value(value) if matches!(value.value, Value::Number(..)))
        };
        keys.retain(|key| !is_number(&key.expr));
        !keys.is_empty()
    });
}

/// Whether a selection makes other rows of those that it reads, in no order.
fn groups(select: &Select) -> bool {
    let is_aggregate = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
            has_aggregate(value)
        }
        _ => false,
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    is_grouped || select.distinct.is_some() || select.projection.iter().any(is_aggregate)
}

pub(super) fn has_aggregate(value: &Expr) -> bool {
    let is_call = |expr: &Expr| match expr {
        Expr::Function(call) if call.over.is_none() && is_computed(&name_of(call)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(value, is_call).is_break()
}

fn name_of(call: &Function) -> String {
    call.name.to_string().to_lowercase()
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
    keep_below(query);
}
