//! The planner's errors as errors of flows.

use std::collections::BTreeSet;

use datafusion_common::{DataFusionError, SchemaError};
use euphrates_flow::Error;
use euphrates_flow::error::unknown;

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
        return unknown("column", &field.name, valid_fields.iter().map(|one| one.name.as_str()));
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
    if let Some(error) = of_types(&text) {
        return error;
    }
    let known = ["Error during planning: ", "Schema error: ", "SQL error: "];
    let text = known.iter().fold(text.as_str(), |text, prefix| text.trim_start_matches(prefix));
    Error::usage(text)
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
