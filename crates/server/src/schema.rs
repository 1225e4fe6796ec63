//! Tables as the page shows them: columns by name and type, values as text and nothing else.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_flow::Result;
use euphrates_flow::row::{COLUMNS_MAX, cut};
use euphrates_flow::tap::ROWS_MAX;
use serde_json::{Value, json};

/// A schema.
pub fn columns(schema: &Schema) -> Value {
    let column = |field: &arrow::datatypes::FieldRef| {
        let kind = word(field.data_type());
        json!({"name": cut(field.name()), "type": kind, "nullable": field.is_nullable()})
    };
    schema.fields().iter().map(column).collect()
}

/// The last rows of these batches.
pub fn sample(schema: &Schema, batches: &[RecordBatch]) -> Result<Value> {
    let mut rows: Vec<Vec<Option<String>>> = vec![];
    let mut nulls = vec![0; schema.fields().len().min(COLUMNS_MAX)];
    let all: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut skipped = all.saturating_sub(ROWS_MAX);
    for batch in batches {
        let from = skipped.min(batch.num_rows());
        skipped -= from;
        let options = FormatOptions::default();
        let columns = batch.columns().iter().take(COLUMNS_MAX);
        let formats = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formats = formats.collect::<Result<Vec<_>, _>>()?;
        for row in from..batch.num_rows() {
            let mut texts = vec![];
            for (at, format) in formats.iter().enumerate() {
                let is_null = batch.column(at).is_null(row);
                nulls[at] += usize::from(is_null);
                texts.push(match is_null {
                    true => None,
                    false => Some(cut(&format.value(row).try_to_string()?)),
                });
            }
            rows.push(texts);
        }
    }
    Ok(json!({"schema": columns(schema), "rows": rows, "nulls": nulls}))
}

/// As people write it, where that says all.
fn word(kind: &DataType) -> String {
    let text = kind.to_string();
    if text.contains('(') { text } else { text.to_lowercase() }
}
