//! Tables as the page shows them: columns by name and type, values as text and nothing else.

use arrow::datatypes::{DataType, Schema};
use euphrates_flow::row::{COLUMNS_MAX, Texts, cut};
use serde_json::{Value, json};

/// A schema.
pub fn columns(schema: &Schema) -> Value {
    let column = |field: &arrow::datatypes::FieldRef| {
        let kind = word(field.data_type());
        json!({"name": cut(field.name()), "type": kind, "nullable": field.is_nullable()})
    };
    schema.fields().iter().map(column).collect()
}

/// Rows of this schema.
pub fn sample(schema: &Schema, rows: &[Texts]) -> Value {
    let mut nulls = vec![0; schema.fields().len().min(COLUMNS_MAX)];
    for row in rows {
        for (count, value) in nulls.iter_mut().zip(row) {
            *count += usize::from(value.is_none());
        }
    }
    json!({"schema": columns(schema), "rows": rows, "nulls": nulls})
}

/// As people write it, where that says all.
fn word(kind: &DataType) -> String {
    let text = kind.to_string();
    if text.contains('(') { text } else { text.to_lowercase() }
}
