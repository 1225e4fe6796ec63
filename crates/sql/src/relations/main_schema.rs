//! Tables of the schema `main`, in which databases keep those without a name of their own: `main.t`
//! is `t`, unless `main` and what follows is the path of a file.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, TableFactor, VisitMut, VisitorMut};

/// What a file of a format is called behind the last point.
const FORMATS: [&str; 9] =
    ["parquet", "csv", "tsv", "json", "jsonl", "ndjson", "arrow", "txt", "gz"];

/// Drops the schema before the names of tables and their columns.
pub(super) fn drop_from_names(query: &mut Query) {
    let mut main = MainSchema { is_used: false };
    let _: ControlFlow<()> = query.visit(&mut main);
}

struct MainSchema {
    is_used: bool,
}

impl VisitorMut for MainSchema {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = table
            && let [schema, table] = &name.0[..]
            && let (Some(schema), Some(table)) = (schema.as_ident(), table.as_ident())
            && schema.value.eq_ignore_ascii_case("main")
            && !FORMATS.iter().any(|format| format.eq_ignore_ascii_case(&table.value))
        {
            *name = vec![table.clone()].into();
            self.is_used = true;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr
            && self.is_used
            && path.len() > 2
            && path[0].value.eq_ignore_ascii_case("main")
        {
            path.remove(0);
        }
        ControlFlow::Continue(())
    }
}
