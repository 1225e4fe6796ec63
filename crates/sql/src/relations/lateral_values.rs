//! `values` of columns of the query around them, `lateral (values (t.a), (t.b))`: a selection for
//! each row, since the planner takes no such columns in `values`.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, SetExpr, visit_expressions};
use euphrates_flow::Result;

use super::parsed_query;

/// Writes the rows of a query's `values` as selections, if they name columns.
pub(super) fn of_columns(query: &mut Query) -> Result<()> {
    let SetExpr::Values(values) = query.body.as_ref() else { return Ok(()) };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let found = visit_expressions(&values.rows, |expr| match is_column(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if found.is_continue() {
        return Ok(());
    }
    let selected = values.rows.iter().map(|row| {
        let items = row.iter().enumerate();
        let items = items.map(|(at, item)| format!("{item} as column{}", at + 1));
        format!("select {}", items.collect::<Vec<_>>().join(", "))
    });
    let text = selected.collect::<Vec<_>>().join(" union all ");
    query.body = parsed_query(&text)?.body;
    Ok(())
}
