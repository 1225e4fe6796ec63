//! Lists, structs and maps as text, in which a null is not a text: `['a', null]`.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_flow::Result;

/// Bytes after which a text is long enough; more is not shown.
const BYTES_MAX: usize = 400;

/// A value as SQL writes it; texts stand in single quotes.
pub(super) fn nested_text(array: &dyn Array, row: usize) -> Result<String> {
    if array.is_null(row) {
        return Ok("null".into());
    }
    let items = |items: &ArrayRef| -> Result<String> {
        let texts = (0..items.len()).map(|at| nested_text(items, at));
        Ok(format!("[{}]", joined(texts)?))
    };
    Ok(match array.data_type() {
        DataType::Null => "null".into(),
        DataType::List(_) => items(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => items(&array.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => items(&array.as_fixed_size_list().value(row))?,
        DataType::Struct(fields) => {
            let of = array.as_struct();
            let named = fields.iter().zip(of.columns()).map(|(field, column)| {
                Ok(format!("{}: {}", field.name(), nested_text(column, row)?))
            });
            format!("{{{}}}", joined(named)?)
        }
        DataType::Map(..) => {
            let of = array.as_map().value(row);
            let pairs = (0..of.len()).map(|at| {
                let [key, value] = [0, 1].map(|column| nested_text(of.column(column), at));
                Ok(format!("{}: {}", key?, value?))
            });
            format!("{{{}}}", joined(pairs)?)
        }
        DataType::Dictionary(..) => {
            let of = array.as_any_dictionary();
            nested_text(of.values(), of.normalized_keys()[row])?
        }
        other => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(array, &options)?.value(row).try_to_string()?;
            let is_text =
                matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            if is_text { format!("'{}'", text.replace('\'', "''")) } else { text }
        }
    })
}

/// Texts with commas between, as far as they are shown.
fn joined(texts: impl Iterator<Item = Result<String>>) -> Result<String> {
    let mut all = String::new();
    for text in texts {
        if !all.is_empty() {
            all += ", ";
        }
        all += &text?;
        if all.len() > BYTES_MAX {
            break;
        }
    }
    Ok(all)
}
