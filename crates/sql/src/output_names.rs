//! Computed columns without a name are called as they are written: `sum(price)`. Of columns with
//! the same name, the second has a number.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

/// Names the computed columns of all selections in a query.
pub(crate) fn name_columns(query: &mut Query) {
    let _: ControlFlow<()> = query.visit(&mut Namer::default());
}

#[derive(Default)]
struct Namer {
    /// The number of computed values of subqueries that have names.
    values: usize,
}

impl VisitorMut for Namer {
    type Break = ();

    /// The value of a subquery has a name of its own: it stands beside the columns of the query
    /// around it, which may compute one of the same name.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && let SetExpr::Select(select) = query.body.as_mut()
            && let [item] = &mut select.projection[..]
            && let SelectItem::UnnamedExpr(value) = item
            && !written(value).1
        {
            self.values += 1;
            let alias = Ident::with_quote('"', format!("_value_{}", self.values));
            *item = SelectItem::ExprWithAlias { expr: value.clone(), alias };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn name(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut taken: HashSet<String> = HashSet::new();
            let tables: Vec<String> = select.from.iter().flat_map(tables_of).collect();
            for item in &mut select.projection {
                match item {
                    SelectItem::UnnamedExpr(expr) => {
                        let (name, is_column) = written(expr);
                        let is_column = is_column && !is_field(expr, &tables);
                        let alias = unique(&name, &mut taken);
                        if !is_column || alias != name {
                            let alias = Ident::with_quote('"', alias);
                            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                        }
                    }
                    SelectItem::ExprWithAlias { alias, .. } => {
                        alias.value = unique(&alias.value, &mut taken);
                    }
                    _ => {}
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name(left);
            name(right);
        }
        _ => {}
    }
}

/// The names of a table and of those joined with it, in small letters.
pub(crate) fn tables_of(table: &TableWithJoins) -> Vec<String> {
    let joined = table.joins.iter().map(|join| &join.relation);
    let name = |table: &TableFactor| match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.value.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().map(|it| it.value.clone()),
        _ => None,
    };
    std::iter::once(&table.relation)
        .chain(joined)
        .filter_map(name)
        .map(|it| it.to_lowercase())
        .collect()
}

/// Whether `a.b` is a field of a column, rather than a column of a table.
fn is_field(expr: &Expr, tables: &[String]) -> bool {
    match expr {
        Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
            !tables.is_empty() && !tables.contains(&parts[0].value.to_lowercase())
        }
        _ => false,
    }
}

/// The name of an item, and whether it is that of a column.
fn written(expr: &Expr) -> (String, bool) {
    match expr {
        Expr::Identifier(name) => (name.value.clone(), true),
        Expr::CompoundIdentifier(names) => {
            (names.last().map(|name| name.value.clone()).unwrap_or_default(), true)
        }
        other => (other.to_string(), false),
    }
}

/// A name within a flow: without quotes, which texts of modules would have to double.
pub(crate) fn internal(name: &str) -> String {
    name.replace('"', "'")
}

/// A name that is not taken, whatever its capitals; it is then.
pub(crate) fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let numbered = (1..).map(|number| format!("{name}_{number}"));
    let mut names = [name.to_string()].into_iter().chain(numbered);
    names.find(|name| taken.insert(name.to_lowercase())).expect("numbers do not end")
}
