//! The planner's errors as errors of flows.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::{DataFusionError, SchemaError};
use euphrates_flow::Error;
use euphrates_flow::error::{did_you_mean, unknown};

/// The planner's error, in its words but for unknown columns.
pub(crate) fn failed(error: DataFusionError) -> Error {
    if let DataFusionError::SchemaError(error, _) = error.find_root()
        && let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref()
    {
        // The column is there, in another table.
        if let Some(table) = &field.relation
            && valid_fields.iter().any(|one| one.name == field.name)
        {
            let tables = valid_fields.iter().filter_map(|one| one.relation.as_ref());
            let tables: BTreeSet<String> = tables.map(|one| one.table().to_string()).collect();
            return unknown("table", table.table(), tables.iter().map(String::as_str));
        }
        let mut names: Vec<&str> = vec![];
        for one in valid_fields.iter().map(|one| one.name.as_str()) {
            // A column is there twice: as one of the table, and of the rows before they are sorted.
            if !names.contains(&one) {
                names.push(one);
            }
        }
        return unknown("column", &field.name, names.into_iter());
    }
    let text = error.find_root().strip_backtrace();
    if let Some((_, rest)) = text.split_once("Invalid function '")
        && let Some((name, rest)) = rest.split_once('\'')
    {
        let error = Error::usage(format!("no function named `{name}`"));
        return match rest.split('\'').nth(1) {
            Some(near) => error.remedy(format!("did you mean `{near}`?")),
            None => error,
        };
    }
    if let Some((_, rest)) = text.split_once("argument types '")
        && let Some((call, _)) = rest.split_once('\'')
    {
        let error = Error::usage(format!("no function takes the arguments of `{call}`"));
        return error.remedy("convert them with CAST(… AS …)");
    }
    if let Some(error) = of_types(&text).or_else(|| of_clauses(&text)) {
        return error;
    }
    let known = [
        "Error during planning: ",
        "Schema error: ",
        "SQL error: ",
        "Execution error: ",
        "Internal error: ",
    ];
    let text = known.iter().fold(text.as_str(), |text, prefix| text.trim_start_matches(prefix));
    // Behind it, the planner asks for a report to its authors.
    let text = text.split("\nThis issue was likely caused by").next().unwrap_or(text);
    let error = Error::usage(text.trim_end_matches('.'));
    let remedy = REMEDIES.iter().find(|(said, _)| text.contains(said));
    let other = "write it in another way: CAST(… AS …) gives a value a type, and AS a name";
    error.remedy(remedy.map_or(other, |(_, remedy)| remedy))
}

/// What errors of the planner say, and their remedies.
const REMEDIES: &[(&str, &str)] = &[
    ("UNION queries have different number", "select as many columns in each, or `union by name`"),
    ("not allowed in the WHERE clause", "write the condition behind the groups: `having …`"),
    ("Unary operator '-' only supports", "convert it to a number: CAST(… AS BIGINT)"),
    ("Unary operator 'NOT' requires", "compare it with something: `not (x = 1)`"),
    ("with no tables specified", "name a table: `from 'sales.csv'`"),
    ("can only be applied to array", "give it a list: `unnest([1, 2])`, or a column of lists"),
    ("Inconsistent data length across", "give each row as many values"),
];

/// The planner's errors about conditions, groups and fields, in words that name the remedy.
fn of_clauses(text: &str) -> Option<Error> {
    let quoted = |start: &str, end: char| {
        let (_, rest) = text.split_once(start)?;
        rest.split_once(end)
    };
    if let Some((condition, rest)) = quoted("filter with non-boolean predicate '", '\'') {
        let of = rest.trim_start_matches(" returning ");
        let error = Error::usage(format!("the condition `{condition}` is of type {of}"));
        return Some(error.remedy("a condition is true or false: compare it with something"));
    }
    if text.contains("must be in GROUP BY or an aggregate")
        && let Some((column, _)) = quoted("column \"", '"')
    {
        let error =
            Error::usage(format!("`{column}` is neither in GROUP BY nor in an aggregate function"));
        return Some(error.remedy(
            "a group has one row: add the column to `group by`, or take one value of each group, \
             like min(…)",
        ));
    }
    if let Some((_, types)) = text.split_once("common argument type for logical boolean operation ")
    {
        let error = Error::usage(format!("no operator takes the types of `{types}`"));
        return Some(error.remedy("its sides are true or false: compare each with something"));
    }
    if let Some((_, rest)) = text.split_once("Cannot access field at argument ") {
        let of = rest.split_once("type ").and_then(|(_, rest)| rest.split_once(" is not "));
        let of = of.map_or("another type", |(of, _)| of);
        let error = Error::usage(format!("a field is taken of a value of type {of}"));
        return Some(error.remedy(
            "only structs and maps have fields; the name of a column with a dot stands in double \
             quotes: \"a.b\"",
        ));
    }
    None
}

/// The error of an unknown function, with the nearest of those that there are.
pub(crate) fn named_function(
    error: Error,
    names: impl Fn() -> BTreeMap<&'static str, Vec<String>>,
) -> Error {
    let name = error.message().strip_prefix("no function named `");
    let Some(name) = name.and_then(|rest| rest.strip_suffix('`')) else { return error };
    let (name, names) = (name.to_lowercase(), names());
    if names["window"].contains(&name) {
        let remedy = format!("it is computed over rows: {name}(…) over (order by …)");
        return error.better_remedy(remedy);
    }
    match did_you_mean(&name, names.values().flatten().map(String::as_str)) {
        Some(near) => error.better_remedy(format!("did you mean `{near}`?")),
        None => error.better_remedy("the manual lists the functions of expressions"),
    }
}

/// The error, with what quotes mean if its unknown column stands in double quotes in the text.
pub(crate) fn named_text(error: Error, text: &str) -> Error {
    let name = error.message().strip_prefix("no column named `");
    let Some(name) = name.and_then(|rest| rest.strip_suffix('`')) else { return error };
    if !text.contains(&format!("\"{name}\"")) {
        return error;
    }
    let columns = error.advice().map(|advice| advice.replacen("known:", "columns:", 1));
    let columns = columns.map(|columns| format!("; {columns}")).unwrap_or_default();
    let remedy = format!("a text stands in single quotes: '{}'{columns}", name.replace('\'', "''"));
    error.better_remedy(remedy)
}

/// The planner's errors about types and names, in words that name the remedy.
fn of_types(text: &str) -> Option<Error> {
    let behind = |start: &str| text.split_once(start).map(|(_, rest)| rest);
    let operation = behind("common argument type for comparison operation ")
        .or_else(|| behind("Cannot get result type for temporal operation "))
        .or_else(|| behind("Cannot coerce arithmetic expression "));
    if let Some(operation) = operation {
        let operation = operation.split(": ").next().unwrap_or_default();
        let operation = operation.trim_end_matches(" to valid types");
        let error = Error::usage(format!("no operator takes the types of `{operation}`"));
        return Some(error.remedy("convert one side with CAST(… AS …)"));
    }
    if let Some(name) = behind("duplicate qualified field name ")
        .or_else(|| behind("duplicate unqualified field name "))
    {
        let error = Error::usage(format!("the column `{name}` comes twice"));
        return Some(error.remedy("name one of them with AS, or leave it out"));
    }
    if let Some(of) = behind("Unsupported DataType: conversion: ") {
        let error = Error::usage(format!("a query cannot convert values to the type {of}"));
        return Some(error.remedy("convert the columns of this type with CAST(… AS …) before"));
    }
    let what = behind("This feature is not implemented: ")?;
    let what = what.trim_start_matches("Unsupported ast node in sqltorel: ");
    // What follows is the structure of the parser.
    let what = what.split([' ', '(']).next().filter(|_| what.contains("span: Span("));
    let what = what.map(|name| format!("`{name}` is not supported in a query"));
    Some(match what {
        Some(what) => Error::usage(what).remedy("write it in another way"),
        None => Error::usage(behind("This feature is not implemented: ")?.to_string()),
    })
}
