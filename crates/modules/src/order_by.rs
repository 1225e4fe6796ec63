//! Parses `ORDER BY` items.

use std::fmt;

use arrow::datatypes::Schema;
use euphrates_flow::error::unknown_column;
use euphrates_flow::module::ColumnNames;
use euphrates_flow::module::ValueOrder;
use euphrates_flow::{Error, Result, spec};
use euphrates_formats::SortedColumn;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::sort::keys::key_layout::KeyColumn;

/// A column to sort by: `"price"`, `"price desc"`, `"name asc nulls first"`, or spelled out.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum SortKey {
    /// A column and how it is ordered, as in SQL: `price desc nulls first`.
    Text(String),
    /// An object with a field for each part.
    Spelled(SpelledKey),
}

impl SortKey {
    /// The ascending order of a column, whatever its name.
    pub(crate) fn of_column(name: &str) -> SortKey {
        let column = name.to_string();
        match name.contains(char::is_whitespace) {
            true => SortKey::Spelled(SpelledKey { column, descending: false, nulls_first: false }),
            false => SortKey::Text(column),
        }
    }
}

/// A column to sort by, spelled out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct SpelledKey {
    /// Name of the column.
    pub(crate) column: String,
    /// Whether the largest values come first; the smallest do by default.
    #[serde(default)]
    pub(crate) descending: bool,
    /// Nulls before everything else; they come last by default.
    #[serde(default)]
    pub(crate) nulls_first: bool,
}

/// The columns that keys may name: a text may be a name with blanks, or a name and a direction.
pub(crate) fn column_names(by: &[SortKey]) -> ColumnNames {
    let mut names = ColumnNames::default();
    for key in by {
        match key {
            SortKey::Spelled(key) => names.add(&key.column),
            SortKey::Text(text) => {
                let ends = text.char_indices().filter(|(_, letter)| letter.is_whitespace());
                ends.for_each(|(end, _)| names.add_possible(text[..end].trim()));
                names.add_possible(text.trim());
            }
        }
    }
    names
}

/// The columns of the keys, as far as their texts tell without a schema.
pub(crate) fn named_columns(by: &[SortKey]) -> Vec<String> {
    let name = |key: &SortKey| match key {
        SortKey::Spelled(key) => key.column.clone(),
        SortKey::Text(text) => parse(text).map_or(text.as_str(), |(name, ..)| name).to_string(),
    };
    by.iter().map(name).collect()
}

/// The order of the first of these keys.
pub(crate) fn first_order(by: &[SortKey]) -> ValueOrder {
    let is_descending = by.first().is_some_and(|key| match key {
        SortKey::Spelled(key) => key.descending,
        SortKey::Text(text) => parse(text).is_ok_and(|(_, descending, _)| descending),
    });
    if is_descending { ValueOrder::Descending } else { ValueOrder::Ascending }
}

/// Implemented by hand, so that errors name the wrong field.
impl<'de> Deserialize<'de> for SortKey {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<SortKey, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(SortKey::Text(text)),
            other => SpelledKey::deserialize(other).map(SortKey::Spelled).map_err(D::Error::custom),
        }
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SortKey::Text(text) => f.write_str(text),
            SortKey::Spelled(SpelledKey { column, descending, nulls_first }) => {
                let direction = if *descending { " desc" } else { "" };
                let nulls = if *nulls_first { " nulls first" } else { "" };
                write!(f, "{column}{direction}{nulls}")
            }
        }
    }
}

/// Parses a configuration, whose keys must not be empty.
pub(crate) fn parse_keyed<C: DeserializeOwned + JsonSchema>(
    config: Value,
    by: fn(&C) -> &[SortKey],
) -> Result<C> {
    let config = spec::parse_config(config)?;
    match by(&config).is_empty() {
        true => Err(Error::usage("`by` is empty").remedy("name at least one column")),
        false => Ok(config),
    }
}

/// Resolves the columns that the keys name.
pub(crate) fn resolve(keys: &[SortKey], schema: &Schema) -> Result<Vec<KeyColumn>> {
    keys.iter().map(|key| resolve_one(key, schema)).collect()
}

/// The columns of the keys by which a stream is sorted, up to the first that is not certain.
pub(crate) fn sorted_columns(sorted_by: &[String], schema: &Schema) -> Vec<SortedColumn> {
    let columns = sorted_by.iter().map_while(|text| {
        // A key that is spelled out may read like the name of another column.
        let is_name = schema.index_of(text).is_ok() && text.contains(char::is_whitespace);
        let key = (!is_name).then(|| resolve_one(&SortKey::Text(text.clone()), schema).ok())??;
        Some(SortedColumn {
            name: schema.field(key.column).name().clone(),
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
    });
    columns.collect()
}

fn resolve_one(key: &SortKey, schema: &Schema) -> Result<KeyColumn> {
    let find = |name: &str| schema.index_of(name).map_err(|_| unknown_column(name, schema));
    match key {
        SortKey::Spelled(SpelledKey { column, descending, nulls_first }) => Ok(KeyColumn {
            column: find(column)?,
            descending: *descending,
            nulls_first: *nulls_first,
        }),
        // A column may be named "a desc", and then its name takes precedence.
        SortKey::Text(text) if schema.index_of(text).is_ok() => {
            Ok(KeyColumn { column: find(text)?, descending: false, nulls_first: false })
        }
        SortKey::Text(text) => {
            let (name, descending, nulls_first) = parse(text)?;
            let column = find(name).map_err(|error| match name.split_once(char::is_whitespace) {
                Some((head, rest)) if schema.index_of(head).is_ok() => {
                    let error = Error::usage(format!("`{}` is no way to sort", rest.trim()));
                    error.remedy("say `asc` or `desc`, then `nulls first` or `nulls last`")
                }
                _ => error,
            });
            Ok(KeyColumn { column: column?, descending, nulls_first })
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
        for (text, said) in [
            ("prise", "did you mean `price`"),
            ("price desending", "`desending` is no way to sort"),
            ("price nulls first desc", "`nulls first` is no way to sort"),
        ] {
            let error = resolve_one(&SortKey::Text(text.into()), &schema).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn a_wrong_field_of_a_key_is_named() {
        let read = |text: &str| serde_json::from_str::<SortKey>(text);
        let error = read(r#"{"column": "i", "desc": true}"#).unwrap_err().to_string();
        assert!(error.contains("`desc`") && error.contains("`descending`"), "{error}");
        let key = SpelledKey { column: "i".into(), descending: true, nulls_first: false };
        let spelled = read(r#"{"column": "i", "descending": true}"#).unwrap();
        assert_eq!(spelled, SortKey::Spelled(key));
    }
}
