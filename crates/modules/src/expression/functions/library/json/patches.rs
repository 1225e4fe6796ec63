//! JSON as a whole: patches, what it contains, its structure, and how it is laid out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use serde_json::{Map, Value, json};

use super::super::row_functions::ArgumentKind::Text;
use super::super::row_functions::{Computed, ResultKind, RowFunction, each, of_text, text};
use super::{kind, parsed};

pub(crate) const FUNCTIONS: [RowFunction; 4] = [
    RowFunction {
        names: &["json_merge_patch"],
        takes: &[Text; 8],
        optional: 6,
        returns: ResultKind::Text,
        compute: |args| {
            let patched = |row: usize| -> Computed<Option<String>> {
                let mut found: Option<Value> = None;
                for (at, arg) in args.iter().enumerate() {
                    found = match arg.as_string::<i32>().is_valid(row) {
                        // What comes before is lost.
                        false => None,
                        true if at == 0 => Some(parsed(text(args, at).value(row))?),
                        true => Some(merged(found, parsed(text(args, at).value(row))?)),
                    };
                }
                Ok(found.map(|found| found.to_string()))
            };
            let found = (0..args[0].len()).map(patched).collect::<Computed<Vec<_>>>()?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["json_contains"],
        takes: &[Text, Text],
        optional: 0,
        returns: ResultKind::Boolean,
        compute: |args| {
            let found = each(args, |row| {
                let whole = parsed(text(args, 0).value(row))?;
                Ok(Some(contains(&whole, &parsed(text(args, 1).value(row))?)))
            })?;
            let found: ArrayRef = Arc::new(BooleanArray::from(found));
            Ok(found)
        },
    },
    RowFunction {
        names: &["json_structure"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| of_text(args, |text| Ok(Some(structure(&[&parsed(text)?]).to_string()))),
    },
    RowFunction {
        names: &["json_pretty"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            of_text(args, |text| {
                let mut shown = String::new();
                pretty(&parsed(text)?, 0, &mut shown);
                Ok(Some(shown))
            })
        },
    },
];

/// A value with a patch (RFC 7396): objects are merged field by field, and null takes a field away;
/// all else takes the place of the value. As in DuckDB, a patch of what is no object stays as it
/// is.
fn merged(of: Option<Value>, patch: Value) -> Value {
    let (Some(Value::Object(mut fields)), Value::Object(patch)) = (of, patch.clone()) else {
        return patch;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.shift_remove(&name);
            continue;
        }
        let known = fields.get(&name).cloned().or_else(|| value.is_object().then(|| json!({})));
        fields.insert(name, merged(known, value));
    }
    Value::Object(fields)
}

/// Whether a value is, or holds somewhere, another one: of an object all fields, of a list all
/// items.
fn contains(whole: &Value, part: &Value) -> bool {
    if covers(whole, part) {
        return true;
    }
    match whole {
        Value::Array(items) => items.iter().any(|item| contains(item, part)),
        Value::Object(fields) => fields.values().any(|field| contains(field, part)),
        _ => false,
    }
}

fn covers(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            let has = |(name, value): (&String, &Value)| {
                whole.get(name).is_some_and(|known| covers(known, value))
            };
            part.iter().all(has)
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|item| whole.iter().any(|known| contains(known, item)))
        }
        (whole, part) => whole == part,
    }
}

/// The types of values that stand in one place.
fn structure(values: &[&Value]) -> Value {
    let known: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    let Some(first) = known.first() else { return "NULL".into() };
    if known.iter().all(|value| value.is_object()) {
        let mut fields: Map<String, Value> = Map::new();
        let objects: Vec<_> = known.iter().filter_map(|value| value.as_object()).collect();
        for name in objects.iter().flat_map(|object| object.keys()) {
            if !fields.contains_key(name) {
                let of: Vec<_> = objects.iter().filter_map(|object| object.get(name)).collect();
                fields.insert(name.clone(), structure(&of));
            }
        }
        return Value::Object(fields);
    }
    if known.iter().all(|value| value.is_array()) {
        let items: Vec<_> = known.iter().filter_map(|value| value.as_array()).flatten().collect();
        return json!([structure(&items)]);
    }
    let kinds: Vec<&str> = known.iter().map(|value| kind(value)).collect();
    let is_number = |kind: &&str| ["UBIGINT", "BIGINT", "DOUBLE"].contains(kind);
    match kind(first) {
        one if kinds.iter().all(|other| *other == one) => one.into(),
        _ if !kinds.iter().all(is_number) => "JSON".into(),
        _ if kinds.contains(&"DOUBLE") => "DOUBLE".into(),
        _ => "HUGEINT".into(),
    }
}

/// JSON with each field and item on a line of its own, four spaces deeper than what holds it.
fn pretty(value: &Value, depth: usize, shown: &mut String) {
    let indent = |depth: usize| "    ".repeat(depth);
    let (brackets, parts): (_, Vec<(Option<&String>, &Value)>) = match value {
        Value::Array(items) if !items.is_empty() => {
            (['[', ']'], items.iter().map(|item| (None, item)).collect())
        }
        Value::Object(fields) if !fields.is_empty() => {
            (['{', '}'], fields.iter().map(|(name, of)| (Some(name), of)).collect())
        }
        other => return shown.push_str(&other.to_string()),
    };
    shown.push(brackets[0]);
    for (at, (name, part)) in parts.into_iter().enumerate() {
        shown.push_str(if at == 0 { "\n" } else { ",\n" });
        shown.push_str(&indent(depth + 1));
        if let Some(name) = name {
            shown.push_str(&format!("{}: ", Value::from(name.as_str())));
        }
        pretty(part, depth + 1, shown);
    }
    shown.push('\n');
    shown.push_str(&indent(depth));
    shown.push(brackets[1]);
}
