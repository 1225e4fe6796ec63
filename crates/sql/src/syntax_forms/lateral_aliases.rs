//! Names of selected values that are used beside them: `select a + 1 as b, b * 2 as c`, and in
//! `where`. A column has precedence; so a name is replaced if no table has it as a column and no
//! other selection gives it.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Query, Select, SelectItem, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::own_level::each_expression;

/// Replaces such names in a query. `columns` are those of its tables.
pub(crate) fn replace<'a>(query: &mut Query, columns: impl Iterator<Item = &'a str>) {
    let mut names = GivenNames { given: HashMap::new() };
    // A column counts as often as it takes to be ambiguous.
    names.given.extend(columns.map(|column| (column.to_lowercase(), 2)));
    let _: ControlFlow<()> = query.visit(&mut names);
    let once = names.given.into_iter().filter(|(_, count)| *count == 1);
    let mut aliases = Aliases { once: once.map(|(name, _)| name).collect() };
    let _: ControlFlow<()> = query.visit(&mut aliases);
}

/// How often each name is given to a value or a column.
struct GivenNames {
    given: HashMap<String, usize>,
}

impl GivenNames {
    fn add(&mut self, name: &str) {
        *self.given.entry(name.to_lowercase()).or_default() += 1;
    }

    fn add_columns(&mut self, alias: Option<&TableAlias>) {
        for column in alias.iter().flat_map(|alias| &alias.columns) {
            self.add(&column.name.value);
        }
    }
}

impl VisitorMut for GivenNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.add_columns(Some(&table.alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.add(&alias.value);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::UNNEST { alias, .. } => self.add_columns(alias.as_ref()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct Aliases {
    once: HashSet<String>,
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut known = HashMap::new();
        for item in &mut select.projection {
            each_expression(item, &mut |expr| replace_names(&known, expr));
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && self.once.contains(&alias.value.to_lowercase())
            {
                known.insert(alias.value.to_lowercase(), expr.clone());
            }
        }
        if !known.is_empty() {
            each_expression(&mut select.selection, &mut |expr| replace_names(&known, expr));
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the names of values by these.
fn replace_names(known: &HashMap<String, Expr>, expr: &mut Expr) {
    if let Expr::Identifier(name) = expr
        && let Some(value) = known.get(&name.value.to_lowercase())
    {
        *expr = Expr::Nested(Box::new(value.clone()));
    }
}
