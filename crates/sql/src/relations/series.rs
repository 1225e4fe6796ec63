//! Functions as tables: `range(…)` and `generate_series(…)` of whole numbers, for which the module
//! `generate` counts and the numbers are computed from its rows; `delta_scan('path')`; and
//! `read_parquet('path')` and the like, which are the path.

pub(super) mod column_names;

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableAliasColumnDef,
    TableFactor, UnaryOperator, Value, visit_expressions,
};
use euphrates_flow::{Document, Error, Result};
use serde_json::json;

use super::texts::derived;
use crate::functions::calls::call_of;

/// What the names of such tables begin with.
const PREFIX: &str = "integers:";

/// What the names of Delta tables begin with.
const LAKE: &str = "delta://";

/// The subquery that a call is.
pub(super) fn as_query(table: &TableFactor) -> Result<Option<TableFactor>> {
    let TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } = table else {
        return Ok(None);
    };
    let function = name.to_string().to_lowercase();
    let is_series = matches!(function.as_str(), "range" | "generate_series");
    if *with_ordinality && !is_series {
        let error = Error::usage(format!("`{function}` has no `with ordinality`"));
        return Err(error.remedy("number the rows: `row_number() over (order by …)`"));
    }
    if function == "delta_scan" {
        let [path] = args.args.as_slice() else { return Err(no_path()) };
        let path = text(path).ok_or_else(no_path)?;
        let path = path.strip_prefix(LAKE).unwrap_or(path).replace('"', "\"\"");
        let alias = named(alias.as_ref(), &function);
        return derived(&format!("select * from \"{LAKE}{path}\""), Some(alias)).map(Some);
    }
    if let Some(format) = function.strip_prefix("read_") {
        let [path] = args.args.as_slice() else { return Err(only_path(&function, format)) };
        let path = text(path).ok_or_else(|| only_path(&function, format))?.replace('"', "\"\"");
        let alias = named(alias.as_ref(), &function);
        return derived(&format!("select * from \"{path}\""), Some(alias)).map(Some);
    }
    if !is_series {
        let error = Error::usage(format!("no function named `{function}` has rows"));
        return Err(error.remedy(
            "write `range(…)`, `generate_series(…)`, `unnest(…)`, `delta_scan('path')`, or the \
             path of files in quotes",
        ));
    }
    let numbers = args.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => number(expr),
        _ => None,
    });
    let numbers = numbers.collect::<Option<Vec<i64>>>();
    let (start, end, step) = match numbers.as_deref() {
        Some(&[end]) => (0, end, 1),
        Some(&[start, end]) => (start, end, 1),
        Some(&[start, end, step]) => (start, end, step),
        _ => {
            let items = numbers.is_none().then(|| as_items(&function, table)).flatten();
            if let Some(items) = items {
                let column = column(alias.as_ref(), &function, *with_ordinality);
                let text = unnested(&items, &column, *with_ordinality);
                return derived(&text, Some(named(alias.as_ref(), &function))).map(Some);
            }
            if let Some(list) = of_columns(name, table).filter(|_| !with_ordinality) {
                let alias = alias.clone().unwrap_or_else(|| named(None, &function));
                return Ok(Some(items_of(list, alias)));
            }
            let error = Error::usage(format!("`{function}` as a table takes whole numbers"));
            return Err(error.remedy("write `unnest(range(…))` for values of a row"));
        }
    };
    if step == 0 {
        return Err(Error::usage(format!("the step of `{function}` is zero")));
    }
    let is_inclusive = function == "generate_series";
    let rows = rows(start.into(), end.into(), step.into(), is_inclusive);
    let numbered = if *with_ordinality { ", n + 1 as ordinality" } else { "" };
    let column = column(alias.as_ref(), &function, *with_ordinality);
    let text = format!("select {start} + n * {step} as {column}{numbered} from \"{PREFIX}{rows}\"");
    derived(&text, Some(named(alias.as_ref(), &function))).map(Some)
}

/// `unnest([…])`, whose column is named after the table; and with `with ordinality` the items of a
/// list that is written, or computed without columns.
pub(super) fn items(table: &TableFactor) -> Result<Option<TableFactor>> {
    let TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } = table else {
        return Ok(None);
    };
    let [list] = &array_exprs[..] else { return Ok(None) };
    if !with_ordinality {
        return Ok(Some(items_of(list.clone(), named(alias.as_ref(), "unnest"))));
    }
    if has_columns(list) {
        let error = Error::usage("`unnest(…) with ordinality` takes no list of a column");
        return Err(error.remedy(
            "number the items in the list: `unnest(list_zip(l, generate_series(1, len(l))))`",
        ));
    }
    let text = unnested(&list.to_string(), "unnest", true);
    derived(&text, Some(named(alias.as_ref(), "unnest"))).map(Some)
}

/// The items of a list beside the rows before it.
fn items_of(list: Expr, mut alias: TableAlias) -> TableFactor {
    if alias.columns.is_empty() {
        let (name, data_type) = (alias.name.clone(), None);
        alias.columns.push(TableAliasColumnDef { name, data_type });
    }
    TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![list],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// The list of a series whose arguments have columns.
fn of_columns(name: &ObjectName, table: &TableFactor) -> Option<Expr> {
    let TableFactor::Table { args: Some(args), .. } = table else { return None };
    let args = args.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let args = args.collect::<Option<Vec<_>>>()?;
    args.iter().any(has_columns).then(|| call_of(&name.to_string(), args))
}

/// The query of a list's items.
fn unnested(list: &str, name: &str, is_numbered: bool) -> String {
    let numbers = format!(", unnest(generate_series(1, len({list}))) as ordinality");
    let numbers = if is_numbered { numbers.as_str() } else { "" };
    format!("select unnest({list}) as {name}{numbers}")
}

fn has_columns(expr: &Expr) -> bool {
    let is_column = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_column).is_break()
}

/// The name of a function's column: that of its table, `range(3) i`, as in PostgreSQL.
fn column(alias: Option<&TableAlias>, function: &str, is_numbered: bool) -> String {
    match alias {
        Some(alias) if !is_numbered => alias.name.to_string(),
        _ => function.into(),
    }
}

/// The alias of a table, or the name of its function.
fn named(alias: Option<&TableAlias>, function: &str) -> TableAlias {
    alias.cloned().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: vec![],
        at: None,
    })
}

/// The list of a series of other values, times mostly; `None` if an argument is a text or has
/// columns. Dates are taken as instants, since a step may be less than a day.
fn as_items(function: &str, table: &TableFactor) -> Option<String> {
    let TableFactor::Table { args: Some(args), .. } = table else { return None };
    let mut texts = vec![];
    for arg in &args.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return None };
        let is_plain = !matches!(expr, Expr::Value(value) if is_text(&value.value));
        let is_plain = is_plain && !has_columns(expr);
        texts.push(is_plain.then(|| expr.to_string())?);
    }
    if let [start, end, _] = &mut texts[..] {
        for date in [start, end] {
            let lower = date.to_lowercase();
            if lower.starts_with("date ") || lower.ends_with("::date") {
                *date = format!("cast({date} as timestamp)");
            }
        }
    }
    Some(format!("{function}({})", texts.join(", ")))
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::SingleQuotedString(_))
}

fn no_path() -> Error {
    Error::usage("`delta_scan` takes the path of a table").remedy("write `delta_scan('path')`")
}

/// What to write instead of a function that reads files with options, which `scan` has.
fn only_path(function: &str, format: &str) -> Error {
    let error = Error::usage(format!("`{function}` takes one path, and no options"));
    match format {
        "csv" | "csv_auto" => error.remedy(
            "give a table `sales=eu.scan('sales.csv', delimiter=';')`, or --delimiter and the \
             other options of text of `euphrates sql`",
        ),
        _ => error.remedy("give a table with options: `sales=eu.scan('sales.parquet', …)`"),
    }
}

/// The text of an argument, if it is one.
fn text(argument: &FunctionArg) -> Option<&str> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// How many numbers there are.
fn rows(start: i128, end: i128, step: i128, is_inclusive: bool) -> i128 {
    let span = if step > 0 { end - start } else { start - end };
    let (span, step) = (span + i128::from(is_inclusive), step.abs());
    // Rounded up.
    if span <= 0 { 0 } else { (span + step - 1) / step }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr)?.checked_neg(),
        Expr::Nested(expr) => number(expr),
        _ => None,
    }
}

/// The flow of a table with such a name.
pub(crate) fn rows_of_name(name: &str) -> Option<Document> {
    let rows: u64 = name.strip_prefix(PREFIX)?.parse().ok()?;
    let mut document = Document::new("table");
    document.place("generate", json!({"what": "integers", "rows": rows}), None);
    Some(document)
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn a_series_ends_before_its_end_or_with_it() {
        assert_eq!([rows(0, 5, 1, false), rows(0, 5, 1, true)], [5, 6]);
        assert_eq!([rows(0, 5, 2, false), rows(0, 4, 2, false), rows(0, 4, 2, true)], [3, 2, 3]);
        assert_eq!([rows(5, 0, -2, false), rows(5, 1, -2, true), rows(1, 0, 1, true)], [3, 3, 0]);
    }
}
