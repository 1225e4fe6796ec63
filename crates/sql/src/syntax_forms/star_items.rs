//! The items of a selection that a star or a call of `columns` stands for, one for each column.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, RenameSelectItem, SelectItem, SelectItemQualifiedWildcardKind, Value, VisitMut,
    VisitorMut, WildcardAdditionalOptions,
};
use euphrates_flow::{Error, Result};
use regex::Regex;

use crate::relations::star_tokens::MATCHING;

/// A column of the tables of a selection.
#[derive(Clone, Debug)]
pub(crate) struct SelectedColumn {
    /// The parts of the table's name; none if the column has no table.
    pub(crate) table: Vec<String>,
    pub(crate) name: String,
    /// Whether it is a key of `using`, which several tables have.
    pub(crate) is_shared: bool,
    /// The names of its fields, if it is a struct.
    pub(crate) fields: Vec<String>,
}

/// The items of the columns that an item names; itself, if it names one.
pub(super) fn one_by_one(
    mut item: SelectItem,
    columns: &[SelectedColumn],
) -> Result<Vec<SelectItem>> {
    let (of, options) = match &item {
        SelectItem::Wildcard(options) => (None, options),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) if let Some(fields) = fields_of(name, columns) => {
            let chosen = fields.iter();
            return Ok(chosen.filter_map(|field| with_options(field, options, &fields)).collect());
        }
        SelectItem::QualifiedWildcard(kind, options) if renames(&item) => match kind {
            SelectItemQualifiedWildcardKind::ObjectName(name) => (Some(name.to_string()), options),
            SelectItemQualifiedWildcardKind::Expr(_) => return Ok(vec![item]),
        },
        _ => {
            let Some(call) = calls_of(&mut item) else { return Ok(vec![item]) };
            let chosen = chosen(&call, columns)?.into_iter();
            return Ok(chosen.map(|column| of_column(&item, column)).collect());
        }
    };
    let is_of = |column: &&SelectedColumn| {
        of.as_ref().is_none_or(|of| column.table.last().is_some_and(|table| same(table, of)))
    };
    let chosen = columns.iter().filter(is_of);
    Ok(chosen.filter_map(|column| with_options(column, options, columns)).collect())
}

/// The fields of a column of structs, in the place of a table that there is not.
fn fields_of(name: &ObjectName, columns: &[SelectedColumn]) -> Option<Vec<SelectedColumn>> {
    let [name] = &name.0[..] else { return None };
    let name = &name.as_ident()?.value;
    let is_table =
        |column: &SelectedColumn| column.table.last().is_some_and(|table| same(table, name));
    if columns.iter().any(is_table) {
        return None;
    }
    let column = columns.iter().find(|column| same(&column.name, name))?;
    let field = |field: &String| SelectedColumn {
        table: vec![column.name.clone()],
        name: field.clone(),
        is_shared: true,
        fields: vec![],
    };
    Some(column.fields.iter().map(field).collect()).filter(|it: &Vec<_>| !it.is_empty())
}

/// A column of a star, by what is written behind it.
fn with_options(
    column: &SelectedColumn,
    options: &WildcardAdditionalOptions,
    columns: &[SelectedColumn],
) -> Option<SelectItem> {
    let is_left_out = is_excluded(column, options);
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

/// Whether `exclude` names the column, perhaps behind its table.
fn is_excluded(column: &SelectedColumn, options: &WildcardAdditionalOptions) -> bool {
    let is_it = |name: &ObjectName| {
        let parts: Vec<String> = name.to_string().split('.').map(unquoted).collect();
        let own = column.table.iter().chain([&column.name]).rev();
        parts.iter().rev().zip(own).all(|(part, own)| same(part, own))
    };
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => is_it(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().any(is_it),
        None => false,
    }
}

pub(super) fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn unquoted(name: &str) -> String {
    name.trim_matches('"').to_string()
}

pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A column, with its table if others have the name.
pub(super) fn named(column: &SelectedColumn, columns: &[SelectedColumn]) -> Expr {
    let is_alone = columns.iter().filter(|other| same(&other.name, &column.name)).count() == 1;
    if is_alone && !column.is_shared || column.table.is_empty() {
        return Expr::Identifier(quoted(&column.name));
    }
    let parts = column.table.iter().chain([&column.name]);
    Expr::CompoundIdentifier(parts.map(|part| quoted(part)).collect())
}

/// An item with a column in the place of the calls.
fn of_column(item: &SelectItem, column: ChosenColumn) -> SelectItem {
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
    let _: ControlFlow<()> = item.visit(&mut Replacement(column.value));
    match item {
        SelectItem::UnnamedExpr(expr) => SelectItem::ExprWithAlias { expr, alias: column.alias },
        other => other,
    }
}

/// A column that a call of `columns` is of.
struct ChosenColumn {
    value: Expr,
    alias: Ident,
}

/// The columns that a call is of.
fn chosen(call: &Function, columns: &[SelectedColumn]) -> Result<Vec<ChosenColumn>> {
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
        [FunctionArgExpr::WildcardWithOptions(options)] => {
            let items = columns.iter().filter_map(|one| with_options(one, options, columns));
            let chosen = |item| match item {
                SelectItem::ExprWithAlias { expr: value, alias } => {
                    Some(ChosenColumn { value, alias })
                }
                _ => None,
            };
            return Ok(items.filter_map(chosen).collect());
        }
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
    let chosen = |column: &SelectedColumn| ChosenColumn {
        value: named(column, columns),
        alias: quoted(&column.name),
    };
    Ok(found.into_iter().map(chosen).collect())
}

fn is_true(expr: &Expr) -> bool {
    expr.to_string() == "true"
}

fn wrong(call: &Function) -> Error {
    Error::usage(format!("`{call}` does not say which columns"))
        .remedy("like columns(*), columns('^price'), or columns(['a', 'b'])")
}

pub(super) fn renames(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_rename.is_some()
        }
        _ => false,
    }
}

/// The call of `columns`, if the expression is one.
pub(super) fn columns_call(expr: &Expr) -> Option<&Function> {
    let Expr::Function(call) = expr else { return None };
    let name = call.name.to_string();
    (name.eq_ignore_ascii_case("columns") || name == MATCHING).then_some(call)
}

/// The first such call in an item.
pub(super) fn calls_of(item: &mut SelectItem) -> Option<Function> {
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
