//! Several columns that a selection names at once: `columns('^price')`, `sum(columns(*))`,
//! `* rename (a as b)`. They are written one by one, which takes the names of the tables' columns.
//! So does `order by all`, where a star stands for the columns.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Value,
    VisitMut, VisitorMut, WildcardAdditionalOptions, With,
};
use euphrates_flow::{Error, Result};
use regex::Regex;

use super::order_by_all;
use crate::relations::parsed_query;
use crate::relations::star_tokens::MATCHING;
use crate::statement::unsupported;

/// A column of the tables of a selection.
#[derive(Clone, Debug)]
pub(crate) struct SelectedColumn {
    /// The table, if the column has one.
    pub(crate) table: Option<String>,
    pub(crate) name: String,
}

type ColumnsOf<'a> = dyn Fn(Box<Query>) -> Result<Vec<SelectedColumn>> + 'a;

/// Writes such columns of a query one by one. `columns_of` has those of another query's rows.
pub(crate) fn expand(query: &mut Query, columns_of: &ColumnsOf) -> Result<()> {
    if !has_some(query) {
        return Ok(());
    }
    match query.visit(&mut Stars { columns_of, queries: vec![] }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) if has_some(query) => {
            let error = unsupported("columns(…)");
            Err(error.remedy("write it in the list of a selection, and the columns elsewhere"))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Stars<'a> {
    columns_of: &'a ColumnsOf<'a>,
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
        let written = self.body(&mut query.body, query.with.as_ref());
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
                if !select.projection.iter_mut().any(is_of_several) {
                    return Ok(());
                }
                let columns = self.columns(select, with)?;
                let items = std::mem::take(&mut select.projection).into_iter();
                let items = items.map(|item| one_by_one(item, &columns));
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

fn renames(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_rename.is_some()
        }
        _ => false,
    }
}

/// Whether an item is rewritten.
fn is_of_several(item: &mut SelectItem) -> bool {
    renames(item) || calls_of(item).is_some()
}

/// The call of `columns`, if the expression is one.
fn columns_call(expr: &Expr) -> Option<&Function> {
    let Expr::Function(call) = expr else { return None };
    let name = call.name.to_string();
    (name.eq_ignore_ascii_case("columns") || name == MATCHING).then_some(call)
}

/// The first such call in an item.
fn calls_of(item: &mut SelectItem) -> Option<Function> {
    struct First(Option<Function>);

    impl VisitorMut for First {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.0 = columns_call(expr).cloned();
            if self.0.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    let mut first = First(None);
    let _: ControlFlow<()> = item.visit(&mut first);
    first.0
}

fn one_by_one(mut item: SelectItem, columns: &[SelectedColumn]) -> Result<Vec<SelectItem>> {
    let (of, options) = match &item {
        SelectItem::Wildcard(options) if renames(&item) => (None, options),
        SelectItem::QualifiedWildcard(kind, options) if renames(&item) => match kind {
            SelectItemQualifiedWildcardKind::ObjectName(name) => (Some(name.to_string()), options),
            SelectItemQualifiedWildcardKind::Expr(_) => return Ok(vec![item]),
        },
        _ => {
            let Some(call) = calls_of(&mut item) else { return Ok(vec![item]) };
            let chosen = chosen(&call, columns)?;
            return Ok(chosen
                .into_iter()
                .map(|column| of_column(&item, column, columns))
                .collect());
        }
    };
    let is_of = |column: &&SelectedColumn| {
        of.as_ref().is_none_or(|of| column.table.as_deref().is_some_and(|table| same(table, of)))
    };
    let chosen = columns.iter().filter(is_of);
    Ok(chosen.filter_map(|column| with_options(column, options, columns)).collect())
}

/// A column of a star, by what is written behind it.
fn with_options(
    column: &SelectedColumn,
    options: &WildcardAdditionalOptions,
    columns: &[SelectedColumn],
) -> Option<SelectItem> {
    let is_left_out = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => same(&last_of(&name.to_string()), &column.name),
        Some(ExcludeSelectItem::Multiple(names)) => {
            names.iter().any(|name| same(&last_of(&name.to_string()), &column.name))
        }
        None => false,
    };
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let mut replaced = replaced.filter(|item| same(&item.column_name.value, &column.name));
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several,
        None => &[],
    };
    let renamed = renamed.iter().find(|one| same(&one.ident.value, &column.name));
    let expr = replaced.next().map_or_else(|| named(column, columns), |item| item.expr.clone());
    let alias = renamed.map_or_else(|| quoted(&column.name), |one| one.alias.clone());
    (!is_left_out).then_some(SelectItem::ExprWithAlias { expr, alias })
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The name behind the last point, without quotes.
fn last_of(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_string()
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A column, with its table if others have the name.
fn named(column: &SelectedColumn, columns: &[SelectedColumn]) -> Expr {
    let is_alone = columns.iter().filter(|other| same(&other.name, &column.name)).count() == 1;
    match &column.table {
        Some(table) if !is_alone => {
            Expr::CompoundIdentifier(vec![quoted(table), quoted(&column.name)])
        }
        _ => Expr::Identifier(quoted(&column.name)),
    }
}

/// An item with a column in the place of the calls.
fn of_column(item: &SelectItem, column: &SelectedColumn, columns: &[SelectedColumn]) -> SelectItem {
    struct Replacement(Expr);

    impl VisitorMut for Replacement {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if columns_call(expr).is_some() {
                *expr = self.0.clone();
            }
            ControlFlow::Continue(())
        }
    }

    let mut item = item.clone();
    let _: ControlFlow<()> = item.visit(&mut Replacement(named(column, columns)));
    match item {
        SelectItem::UnnamedExpr(expr) => {
            SelectItem::ExprWithAlias { expr, alias: quoted(&column.name) }
        }
        other => other,
    }
}

/// The columns that a call is of.
fn chosen<'a>(call: &Function, columns: &'a [SelectedColumn]) -> Result<Vec<&'a SelectedColumn>> {
    let FunctionArguments::List(args) = &call.args else { return Err(wrong(call)) };
    let text = |of: &Expr| match of {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    let args: Vec<&FunctionArgExpr> = args
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(arg) => Some(arg),
            _ => None,
        })
        .collect();
    let found: Vec<&SelectedColumn> = match &args[..] {
        [FunctionArgExpr::Wildcard] => columns.iter().collect(),
        [FunctionArgExpr::Expr(Expr::Array(names))] => {
            let names = names.elem.iter().map(|name| text(name).ok_or_else(|| wrong(call)));
            let names = names.collect::<Result<Vec<_>>>()?;
            let of_name = |name: &String| columns.iter().find(|column| same(&column.name, name));
            names.iter().filter_map(of_name).collect()
        }
        [FunctionArgExpr::Expr(pattern), rest @ ..] => {
            let pattern = text(pattern).ok_or_else(|| wrong(call))?;
            let regex = Regex::new(&pattern).map_err(|_| {
                Error::usage(format!("`{pattern}` in `{call}` is no regular expression"))
            })?;
            let is_negated = matches!(rest, [FunctionArgExpr::Expr(sign)] if is_true(sign));
            columns.iter().filter(|column| regex.is_match(&column.name) != is_negated).collect()
        }
        _ => return Err(wrong(call)),
    };
    if found.is_empty() {
        let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let error = Error::usage(format!("no column matches in `{call}`"));
        return Err(error.remedy(format!("columns: {}", known.join(", "))));
    }
    Ok(found)
}

fn is_true(expr: &Expr) -> bool {
    expr.to_string() == "true"
}

fn wrong(call: &Function) -> Error {
    Error::usage(format!("`{call}` does not say which columns"))
        .remedy("like columns(*), columns('^price'), or columns(['a', 'b'])")
}
