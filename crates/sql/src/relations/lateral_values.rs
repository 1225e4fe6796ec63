//! `values` as tables. Of columns of the query around them, `lateral (values (t.a), (t.b))`, they
//! are a selection for each row, since the planner takes no such columns in `values`. Their own
//! columns are `column1` and so on, as in PostgreSQL, or `col0` and so on, as in DuckDB.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, VisitMut,
    VisitorMut, visit_expressions,
};
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

/// Whether a query names columns as DuckDB names those of `values`, and none as PostgreSQL does.
pub(super) fn counts_from_zero(query: &Query) -> bool {
    let (mut of_zero, mut of_one) = (false, false);
    let _: ControlFlow<()> = visit_expressions(query, |expr| {
        let name = match expr {
            Expr::Identifier(name) => name.value.to_lowercase(),
            Expr::CompoundIdentifier(path) => path[path.len() - 1].value.to_lowercase(),
            _ => return ControlFlow::Continue(()),
        };
        let is = |stem| name.strip_prefix(stem).is_some_and(|rest| rest.parse::<u32>().is_ok());
        of_zero |= is("col");
        of_one |= is("column");
        ControlFlow::Continue(())
    });
    of_zero && !of_one
}

/// Names the columns of `values` that have no names so.
pub(super) fn count_from_zero(query: &Query, alias: &mut Option<TableAlias>) {
    let SetExpr::Values(values) = query.body.as_ref() else { return };
    let Some(row) = values.rows.first() else { return };
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new("valueslist"),
        columns: vec![],
        at: None,
    });
    if alias.columns.is_empty() {
        let named = |at: usize| TableAliasColumnDef {
            name: Ident::new(format!("col{at}")),
            data_type: None,
        };
        alias.columns = (0..row.len()).map(named).collect();
    }
}

/// Makes subqueries behind other tables lateral, and returns whether there are any.
pub(crate) fn see_tables_before(query: &mut Query) -> bool {
    struct Lateral(bool);

    impl VisitorMut for Lateral {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let tables = select.from.iter_mut().flat_map(|table| {
                let joined = table.joins.iter_mut().map(|join| &mut join.relation);
                [&mut table.relation].into_iter().chain(joined)
            });
            for table in tables.skip(1) {
                if let TableFactor::Derived { lateral, .. } = table
                    && !*lateral
                {
                    (*lateral, self.0) = (true, true);
                }
            }
            ControlFlow::Continue(())
        }
    }

    let mut lateral = Lateral(false);
    let _: ControlFlow<()> = query.visit(&mut lateral);
    lateral.0
}
