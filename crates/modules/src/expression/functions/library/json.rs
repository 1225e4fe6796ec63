//! Functions of JSON, which is text here: parts of it, and what they are.

pub(super) mod patches;
mod path;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use serde_json::Value;

use super::row_functions::ArgumentKind::{Any, Text};
use super::row_functions::{Computed, ResultKind, RowFunction, each, text, wrong};

pub(super) const FUNCTIONS: [RowFunction; 11] = [
    RowFunction {
        names: &["_json_all"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| all_parts(args, |found| Some(found.to_string())),
    },
    RowFunction {
        names: &["_json_all_texts"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| all_parts(args, plain_text),
    },
    RowFunction {
        names: &["json_extract", "json_extract_path"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| texts(args, |found| Some(found.to_string())),
    },
    RowFunction {
        names: &["json_extract_string", "json_extract_path_text"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| texts(args, plain_text),
    },
    RowFunction {
        names: &["json_value"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            texts(args, |found| match found {
                Value::Array(_) | Value::Object(_) => None,
                other => Some(other.to_string()),
            })
        },
    },
    RowFunction {
        names: &["json_exists"],
        takes: &[Text, Any],
        optional: 0,
        returns: ResultKind::Boolean,
        compute: |args| {
            let found = parts(args, |found| Some(found.is_some()))?;
            Ok(Arc::new(BooleanArray::from(found)))
        },
    },
    RowFunction {
        names: &["json_array_length"],
        takes: &[Text, Any],
        optional: 1,
        returns: ResultKind::Integer,
        compute: |args| {
            let length = |found: &Value| found.as_array().map_or(0, |items| items.len() as i64);
            let found = parts(args, |found| found.map(length))?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
    RowFunction {
        names: &["json_keys"],
        takes: &[Text, Any],
        optional: 1,
        returns: ResultKind::Texts,
        compute: |args| {
            let keys = |found: &Value| -> Vec<Option<String>> {
                let fields = found.as_object().into_iter().flat_map(|fields| fields.keys());
                fields.cloned().map(Some).collect()
            };
            Ok(text_lists(parts(args, |found| found.map(keys))?))
        },
    },
    RowFunction {
        names: &["json_type"],
        takes: &[Text, Any],
        optional: 1,
        returns: ResultKind::Text,
        compute: |args| texts(args, |found| Some(kind(found).into())),
    },
    RowFunction {
        names: &["json_valid"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Boolean,
        compute: |args| {
            let found = each(args, |row| Ok(Some(parsed(text(args, 0).value(row)).is_ok())))?;
            Ok(Arc::new(BooleanArray::from(found)))
        },
    },
    RowFunction {
        names: &["json"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| texts(args, |found| Some(found.to_string())),
    },
];

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "BOOLEAN",
        Value::Number(number) if number.is_u64() => "UBIGINT",
        Value::Number(number) if number.is_i64() => "BIGINT",
        Value::Number(_) => "DOUBLE",
        Value::String(_) => "VARCHAR",
        Value::Array(_) => "ARRAY",
        Value::Object(_) => "OBJECT",
    }
}

/// A value without the quotes of a text.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Lists of what is made of all values at the path of each row.
fn all_parts(args: &[ArrayRef], of: impl Fn(&Value) -> Option<String>) -> Computed<ArrayRef> {
    let paths = paths(args)?;
    let found = each(args, |row| {
        let whole = parsed(text(args, 0).value(row))?;
        let paths = paths.as_ref().map_or("$", |paths| paths.value(row));
        Ok(Some(path::all(&whole, paths).into_iter().map(&of).collect::<Vec<_>>()))
    })?;
    Ok(text_lists(found))
}

fn text_lists(found: Vec<Option<Vec<Option<String>>>>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for list in found {
        lists.append_option(list);
    }
    Arc::new(lists.finish())
}

fn texts(args: &[ArrayRef], of: impl Fn(&Value) -> Option<String>) -> Computed<ArrayRef> {
    Ok(Arc::new(StringArray::from(parts(args, |found| of(found?))?)))
}

/// What is made of the value at the path of each row, or of all of it without a path.
fn parts<T>(
    args: &[ArrayRef],
    of: impl Fn(Option<&Value>) -> Option<T>,
) -> Computed<Vec<Option<T>>> {
    let paths = paths(args)?;
    each(args, |row| {
        let whole = parsed(text(args, 0).value(row))?;
        Ok(match &paths {
            Some(paths) => of(path::at(&whole, paths.value(row))),
            None => of(Some(&whole)),
        })
    })
}

/// The paths, of which numbers are those of items.
fn paths(args: &[ArrayRef]) -> Computed<Option<StringArray>> {
    let Some(paths) = args.get(1) else { return Ok(None) };
    if paths.data_type().is_nested() {
        return wrong(
            "a path is a text or a number; a list of paths has to be written: ['$.a']".into(),
        );
    }
    let paths = arrow::compute::cast(paths, &arrow::datatypes::DataType::Utf8)?;
    Ok(Some(text(&[paths], 0).clone()))
}

fn parsed(text: &str) -> Computed<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => wrong(format!("malformed JSON: {error}")),
    }
}
