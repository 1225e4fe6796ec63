//! `ORDER BY` items, as people write them.

use std::fmt;

use arrow::datatypes::Schema;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::sort::keys::KeyColumn;

/// A column to sort by: `"price"`, `"price desc"`, `"name asc nulls first"`, or spelled out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SortKey {
    /// As in SQL.
    Text(String),
    /// Spelled out.
    Spelled {
        /// Name of the column.
        column: String,
        /// Largest first.
        #[serde(default)]
        descending: bool,
        /// Nulls before everything else; they come last by default.
        #[serde(default)]
        nulls_first: bool,
    },
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SortKey::Text(text) => f.write_str(text),
            SortKey::Spelled { column, descending, nulls_first } => {
                let direction = if *descending { " desc" } else { "" };
                let nulls = if *nulls_first { " nulls first" } else { "" };
                write!(f, "{column}{direction}{nulls}")
            }
        }
    }
}

/// The columns these keys name.
pub fn resolve(keys: &[SortKey], schema: &Schema) -> Result<Vec<KeyColumn>> {
    keys.iter().map(|key| resolve_one(key, schema)).collect()
}

fn resolve_one(key: &SortKey, schema: &Schema) -> Result<KeyColumn> {
    let find = |name: &str| {
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        schema.index_of(name).map_err(|_| unknown("column", name, names()))
    };
    match key {
        SortKey::Spelled { column, descending, nulls_first } => Ok(KeyColumn {
            column: find(column)?,
            descending: *descending,
            nulls_first: *nulls_first,
        }),
        // A column may be called "a desc": its own name wins.
        SortKey::Text(text) if schema.index_of(text).is_ok() => {
            Ok(KeyColumn { column: find(text)?, descending: false, nulls_first: false })
        }
        SortKey::Text(text) => {
            let (name, descending, nulls_first) = parse(text)?;
            Ok(KeyColumn { column: find(name)?, descending, nulls_first })
        }
    }
}

/// `name [asc|desc] [nulls first|nulls last]`.
fn parse(text: &str) -> Result<(&str, bool, bool)> {
    let mut rest = text.trim();
    let mut strip = |suffix: &str| {
        let cut = rest.len().checked_sub(suffix.len()).filter(|cut| rest.is_char_boundary(*cut));
        let Some((head, tail)) = cut.map(|cut| rest.split_at(cut)) else { return false };
        let found = tail.eq_ignore_ascii_case(suffix) && head.ends_with(char::is_whitespace);
        if found {
            rest = head.trim_end();
        }
        found
    };
    let nulls_first = strip("nulls first");
    let _ = !nulls_first && strip("nulls last");
    let descending = strip("desc");
    let _ = !descending && strip("asc");
    match rest.trim_matches('"') {
        "" => Err(Error::usage(format!("`{text}` names no column"))),
        name => Ok((name, descending, nulls_first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn keys_are_read_as_in_sql_and_unknown_columns_are_named() {
        let columns = ["price", "a desc", "größe"];
        let fields = columns.map(|name| Field::new(name, DataType::Int32, true));
        let schema = Schema::new(fields.to_vec());
        for (text, column, descending, nulls_first) in [
            ("price", 0, false, false),
            ("price DESC", 0, true, false),
            (" price  asc  nulls first", 0, false, true),
            ("price desc nulls last", 0, true, false),
            ("a desc", 1, false, false),
            ("größe desc", 2, true, false),
        ] {
            let key = resolve_one(&SortKey::Text(text.into()), &schema).unwrap();
            assert_eq!(key, KeyColumn { column, descending, nulls_first }, "{text}");
        }
        let error = resolve_one(&SortKey::Text("prise".into()), &schema).unwrap_err();
        assert!(error.to_string().contains("did you mean `price`"), "{error}");
    }
}
