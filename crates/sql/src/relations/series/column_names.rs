//! The column of `range(3) i` is called `i`, like its table; `i.range` means it, too.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TableAlias, TableFactor, VisitMut, VisitorMut,
};

/// Writes the names of functions, behind those of their tables, as the names of the columns.
pub(crate) fn replace(query: &mut Query) {
    let mut names = FunctionNames::default();
    let _: ControlFlow<()> = query.visit(&mut names);
    if !names.functions.is_empty() {
        let _: ControlFlow<()> = query.visit(&mut WrittenColumns { names });
    }
}

/// The functions that are tables, by the names of these.
#[derive(Default)]
struct FunctionNames {
    functions: HashMap<String, String>,
}

impl FunctionNames {
    fn add(&mut self, alias: Option<&TableAlias>, function: &str) {
        if let Some(alias) = alias.filter(|alias| alias.columns.is_empty()) {
            self.functions.insert(alias.name.value.to_lowercase(), function.to_lowercase());
        }
    }

    /// Whether an expression is the column of such a table, by the name of its function.
    fn is_column(&self, expr: &Expr) -> bool {
        let Expr::CompoundIdentifier(path) = expr else { return false };
        let [table, column] = &path[..] else { return false };
        let function = self.functions.get(&table.value.to_lowercase());
        function.is_some_and(|name| name.eq_ignore_ascii_case(&column.value))
    }
}

impl VisitorMut for FunctionNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { name, alias, args: Some(_), with_ordinality: false, .. } => {
                let name = name.to_string();
                if ["range", "generate_series"].iter().any(|it| name.eq_ignore_ascii_case(it)) {
                    self.add(alias.as_ref(), &name);
                }
            }
            TableFactor::UNNEST { alias, with_ordinality: false, .. } => {
                self.add(alias.as_ref(), "unnest");
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct WrittenColumns {
    names: FunctionNames,
}

impl VisitorMut for WrittenColumns {
    type Break = ();

    /// The selected column keeps the name that is written.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && self.names.is_column(expr)
                && let Expr::CompoundIdentifier(path) = expr
            {
                let alias = Ident::with_quote('"', path[1].value.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.names.is_column(expr)
            && let Expr::CompoundIdentifier(path) = expr
        {
            path[1] = path[0].clone();
        }
        ControlFlow::Continue(())
    }
}
