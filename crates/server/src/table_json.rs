//! Schemas and sample rows as JSON: columns by name and type, values as text.

use arrow::datatypes::{DataType, Schema};
use euphrates_flow::row::{COLUMNS_MAX, RowTexts, cut};
use serde_json::{Value, json};

/// The columns of a schema.
pub fn columns(schema: &Schema) -> Value {
    let column = |field: &arrow::datatypes::FieldRef| {
        let kind = word(field.data_type());
        json!({"name": cut(field.name()), "type": kind, "nullable": field.is_nullable()})
    };
    schema.fields().iter().map(column).collect()
}

/// Rows with their schema, and the number of nulls of each column.
pub fn sample(schema: &Schema, rows: &[RowTexts]) -> Value {
    let mut nulls = vec![0; schema.fields().len().min(COLUMNS_MAX)];
    for row in rows {
        for (count, value) in nulls.iter_mut().zip(row) {
            *count += usize::from(value.is_none());
        }
    }
    json!({"schema": columns(schema), "rows": rows, "nulls": nulls})
}

/// The name of a type: in lower case, unless it has parameters.
fn word(kind: &DataType) -> String {
    let text = kind.to_string();
    if text.contains('(') { text } else { text.to_lowercase() }
}
