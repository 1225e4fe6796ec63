//! Several columns that a selection names at once: `columns('^price')`, `sum(columns(*))`,
//! `* rename (a as b)`. They are written one by one, which takes the names of the tables' columns.
//! So does `order by all`, where a star stands for the columns.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, JoinConstraint, JoinOperator, Query, Select, SelectFlavor, SelectItem,
    SetExpr, TableAliasColumnDef, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions, With,
};
use euphrates_flow::{Error, Result};

use super::order_by_all;
use super::row_columns::{self, TableColumns, is_star_of_struct};
use super::star_items::{SelectedColumn, calls_of, columns_call, one_by_one, quoted, renames};
use crate::relations::parsed_query;
use crate::statement::unsupported;

type ColumnsOf<'a> = dyn Fn(Box<Query>) -> Result<Vec<SelectedColumn>> + 'a;

/// Writes such columns of a query one by one. `columns_of` has those of another query's rows.
pub(crate) fn expand(query: &mut Query, columns_of: &ColumnsOf) -> Result<()> {
    let _: ControlFlow<()> = query.visit(&mut FromFirst);
    if !may_change(query) {
        return Ok(());
    }
    match query.visit(&mut Stars { columns_of, queries: vec![], names_all: false }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) if has_some(query) => {
            let error = unsupported("columns(…)");
            Err(error.remedy("write it in the list of a selection, and the columns elsewhere"))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Names all columns of the tables that a query gives names to some columns of, `t(a)`. The planner
/// wants a name for each.
pub(crate) fn name_all(query: &mut Query, columns_of: &ColumnsOf) -> Result<()> {
    match query.visit(&mut Stars { columns_of, queries: vec![], names_all: true }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Stars<'a> {
    columns_of: &'a ColumnsOf<'a>,
    /// Whether all columns of tables with aliases for some are named.
    names_all: bool,
    /// The queries around what is visited, as they were, and their common tables.
    queries: Vec<(Query, Option<With>)>,
}

impl VisitorMut for Stars<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.queries.push((query.clone(), query.with.clone()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let before = self.queries.pop();
        let with = query.with.clone();
        let named = match self.names_all {
            true => self.aliases(&mut query.body, with.as_ref()),
            false => Ok(()),
        };
        let written = named.and_then(|()| self.body(&mut query.body, with.as_ref()));
        if let Err(error) = written.and_then(|()| self.order(query)) {
            return ControlFlow::Break(error);
        }
        // Tables that come later see what this one has become.
        if let (Some((before, _)), Some((_, Some(around)))) = (before, self.queries.last_mut()) {
            for table in &mut around.cte_tables {
                if *table.query == before {
                    *table.query = query.clone();
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Stars<'_> {
    fn body(&self, body: &mut SetExpr, with: Option<&With>) -> Result<()> {
        match body {
            SetExpr::Select(select) => {
                let is_needed = select.projection.iter_mut().any(is_of_several);
                let has_rows = row_columns::has_some(select);
                let of_structs: Vec<bool> =
                    select.projection.iter().map(|it| is_star_of_struct(it, select)).collect();
                let has_structs = of_structs.contains(&true);
                let is_star = is_needed || repeats_names(select, !self.queries.is_empty());
                if !is_star && !has_rows && !has_structs {
                    return Ok(());
                }
                let columns = match self.columns(select, with) {
                    Ok(columns) => columns,
                    // The tables may name columns of a query around.
                    Err(_) if !is_needed => return Ok(()),
                    Err(error) => return Err(error),
                };
                if has_rows {
                    let rows = self.rows(select, with);
                    row_columns::write(select, &columns, &rows);
                }
                let items = std::mem::take(&mut select.projection).into_iter().zip(of_structs);
                let items = items.map(|(item, is_struct)| match is_star || is_struct {
                    true => one_by_one(item, &columns),
                    false => Ok(vec![item]),
                });
                select.projection = items.collect::<Result<Vec<_>>>()?.concat();
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, with)?;
                self.body(right, with)
            }
            _ => Ok(()),
        }
    }

    /// Completes the column names of tables, which follow those of the first columns.
    fn aliases(&self, body: &mut SetExpr, with: Option<&With>) -> Result<()> {
        match body {
            SetExpr::Select(select) => {
                for table in &mut select.from {
                    let joins = table.joins.iter_mut().map(|join| &mut join.relation);
                    for table in std::iter::once(&mut table.relation).chain(joins) {
                        self.name_rest(table, with)?;
                    }
                }
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.aliases(left, with)?;
                self.aliases(right, with)
            }
            _ => Ok(()),
        }
    }

    fn name_rest(&self, table: &mut TableFactor, with: Option<&With>) -> Result<()> {
        let mut unnamed = table.clone();
        let (TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }) = &mut unnamed
        else {
            return Ok(());
        };
        if alias.columns.is_empty() {
            return Ok(());
        }
        alias.columns.clear();
        let mut all = parsed_query("select * from t")?;
        if let SetExpr::Select(star) = all.body.as_mut() {
            star.from = vec![TableWithJoins { relation: unnamed, joins: vec![] }];
        }
        // A table that depends on others is left to the planner.
        let Ok(columns) = self.columns_of_rows(all, with) else { return Ok(()) };
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } = table
        {
            let rest = columns.iter().skip(alias.columns.len());
            let named = |column: &SelectedColumn| TableAliasColumnDef {
                name: quoted(&column.name),
                data_type: None,
            };
            let rest = rest.map(named);
            alias.columns.extend(rest.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Writes `order by all` with the positions of the columns.
    fn order(&self, query: &mut Query) -> Result<()> {
        if order_by_all::is_ordered_so(query) {
            let columns = match order_by_all::listed(query) {
                Some(columns) => columns,
                None => {
                    let rows = order_by_all::unordered(query);
                    self.columns_of_rows(Query { with: None, ..rows }, query.with.as_ref())?.len()
                }
            };
            order_by_all::write_positions(query, columns);
        }
        Ok(())
    }

    /// The columns of the tables whose rows a selection names.
    fn rows(&self, select: &mut Select, with: Option<&With>) -> TableColumns {
        let tables = row_columns::named_tables(select).into_iter();
        let rows = tables.filter_map(|table| {
            let name = row_columns::name_of(&table)?;
            let mut all = parsed_query("select * from t").ok()?;
            if let SetExpr::Select(star) = all.body.as_mut() {
                star.from = vec![TableWithJoins { relation: table, joins: vec![] }];
            }
            // A table that depends on others has no columns alone.
            Some((name, self.columns_of_rows(all, with).ok()?))
        });
        rows.collect()
    }

    /// The columns of the tables of a selection.
    fn columns(&self, select: &Select, with: Option<&With>) -> Result<Vec<SelectedColumn>> {
        let mut all = parsed_query("select * from t")?;
        if let SetExpr::Select(star) = all.body.as_mut() {
            star.from.clone_from(&select.from);
        }
        self.columns_of_rows(all, with)
    }

    /// The columns of a query's rows, with the common tables that it sees: these and those around.
    fn columns_of_rows(&self, mut all: Query, with: Option<&With>) -> Result<Vec<SelectedColumn>> {
        let around = self.queries.iter().filter_map(|(_, with)| with.as_ref());
        for with in around.chain(with) {
            let mut tables = with.cte_tables.clone();
            tables.retain_mut(|table| !has_some(&mut table.query));
            let known = all.with.get_or_insert_with(|| With { cte_tables: vec![], ..with.clone() });
            known.recursive |= with.recursive;
            known
                .cte_tables
                .retain(|one| tables.iter().all(|new| new.alias.name != one.alias.name));
            known.cte_tables.extend(tables);
        }
        if all.with.as_ref().is_some_and(|with| with.cte_tables.is_empty()) {
            all.with = None;
        }
        (self.columns_of)(Box::new(all))
    }
}

/// Selects all columns where a query has no list of them: `from t`.
struct FromFirst;

impl VisitorMut for FromFirst {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.projection.is_empty() && select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
        }
        ControlFlow::Continue(())
    }
}

/// Whether a star of a selection is written one by one, for the names and the order of its columns:
/// `using` has its keys once, and of columns with the same name, the second gets a number.
fn repeats_names(select: &Select, is_nested: bool) -> bool {
    let is_star = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => {
            options.opt_ilike.is_none() && options.opt_except.is_none()
        }
        _ => false,
    };
    let joins = || select.from.iter().flat_map(|table| &table.joins);
    let has_using = joins()
        .map(|join| constraint_of(&join.join_operator))
        .any(|on| matches!(on, Some(JoinConstraint::Using(_) | JoinConstraint::Natural)));
    let has_several = is_nested && (select.from.len() > 1 || joins().next().is_some());
    let is_among = |items: &[SelectItem]| items.len() > 1 || items.iter().any(excludes_of_table);
    select.projection.iter().any(is_star)
        && (has_using || has_several || is_among(&select.projection))
}

/// Whether a star leaves out columns that are written with their tables.
fn excludes_of_table(item: &SelectItem) -> bool {
    let SelectItem::Wildcard(options) = item else { return false };
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => name.0.len() > 1,
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().any(|name| name.0.len() > 1),
        None => false,
    }
}

pub(super) fn constraint_of(join: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator::*;
    match join {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on)
        | FullOuter(on) => Some(on),
        _ => None,
    }
}

/// Whether a query has stars or names several columns at once anywhere.
fn may_change(query: &mut Query) -> bool {
    struct Finder;

    impl VisitorMut for Finder {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let has_structs = select.projection.iter().any(|it| is_star_of_struct(it, select));
            match repeats_names(select, true) || has_structs || row_columns::has_some(select) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    query.visit(&mut Finder).is_break() || has_some(query)
}

/// Whether a query names several columns at once anywhere.
fn has_some(query: &mut Query) -> bool {
    struct Finder;

    impl VisitorMut for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            match order_by_all::is_ordered_so(query) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            match select.projection.iter().any(renames) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match columns_call(expr) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }

    query.visit(&mut Finder).is_break()
}

/// Whether an item is rewritten.
fn is_of_several(item: &mut SelectItem) -> bool {
    renames(item) || calls_of(item).is_some()
}
