//! Prints the rows that a `collect` module kept: the first ones as a text table, and their number.

use arrow::array::{Array, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_engine::observe::format::count;
use euphrates_flow::Result;
use euphrates_flow::module::Collected;

mod nested_text;

use nested_text::nested_text;

/// Rows of the table.
pub(crate) const ROWS_MAX: usize = 20;
/// Characters of a value; a longer one is cut.
const WIDTH_MAX: usize = 40;

/// The table of the rows that module `id` collected. It ends in a newline.
pub fn table(id: &str, collected: &Collected) -> Result<String> {
    let rows = rows_of(collected);
    let only = match rows > ROWS_MAX {
        true => format!("; the first {ROWS_MAX} are shown"),
        false => String::new(),
    };
    Ok(format!("{}{id}: {}{only}\n", lines(collected)?, counted(rows)))
}

/// The table of the first rows of a query, of which at most one more than fits was collected.
pub fn first_rows(collected: &Collected) -> Result<String> {
    let told = match rows_of(collected) {
        rows if rows > ROWS_MAX => format!("the first {ROWS_MAX} rows; --output writes all"),
        rows => counted(rows),
    };
    Ok(format!("{}({told})\n", lines(collected)?))
}

fn rows_of(collected: &Collected) -> usize {
    collected.batches.iter().map(RecordBatch::num_rows).sum()
}

fn counted(rows: usize) -> String {
    format!("{} {}", count(rows as u64), if rows == 1 { "row" } else { "rows" })
}

/// The names of the columns, a rule, and the first rows.
fn lines(collected: &Collected) -> Result<String> {
    let fields = collected.schema.fields();
    let mut columns: Vec<TextColumn> = fields
        .iter()
        .map(|field| TextColumn {
            cells: vec![shown(field.name())],
            is_number: field.data_type().is_numeric(),
        })
        .collect();
    let mut left = ROWS_MAX;
    for batch in &collected.batches {
        let part = batch.slice(0, left.min(batch.num_rows()));
        left -= part.num_rows();
        add(&part, &mut columns)?;
    }
    let shown = rows_of(collected).min(ROWS_MAX);
    let widths: Vec<usize> = columns.iter().map(TextColumn::width).collect();
    let line = |row: usize| {
        let cells = columns.iter().zip(&widths).map(|(column, width)| {
            let cell = &column.cells[row];
            if column.is_number { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ");
    let body: String = (1..=shown).map(line).collect();
    Ok(format!("{}{rule}\n{body}", line(0)))
}

/// The cells of a column as text; the first one is its name.
struct TextColumn {
    cells: Vec<String>,
    is_number: bool,
}

impl TextColumn {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn add(batch: &RecordBatch, columns: &mut [TextColumn]) -> Result<()> {
    let options = FormatOptions::default();
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    for (array, column) in batch.columns().iter().zip(columns) {
        // Text lines are binary, because their encoding is unknown. Most are UTF-8.
        let text = match array.data_type() {
            DataType::Binary => cast_with_options(array, &DataType::Utf8, &strict).ok(),
            _ => None,
        };
        let array = text.as_ref().unwrap_or(array);
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
        let cell = |row: usize| match array.is_null(row) {
            true => Ok("null".to_string()),
            false if array.data_type().is_nested() => Ok(shown(&nested_text(array, row)?)),
            false => Ok(shown(&formatter.value(row).try_to_string()?)),
        };
        let cells = (0..array.len()).map(cell).collect::<Result<Vec<_>>>()?;
        column.cells.extend(cells);
    }
    Ok(())
}

/// A cell's text: control characters become spaces, and long text is cut.
fn shown(text: &str) -> String {
    let is_plain = |c: &char| c.escape_debug().count() == 1 || matches!(c, '"' | '\'' | '\\');
    let plain = |c: char| if is_plain(&c) { c } else { ' ' };
    let mut cell: String = text.chars().take(WIDTH_MAX).map(plain).collect();
    if text.chars().count() > WIDTH_MAX {
        cell.pop();
        cell.push('…');
    }
    cell
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListArray, StringArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;

    fn collected(batches: Vec<RecordBatch>) -> Collected {
        Collected { schema: batches[0].schema(), batches }
    }

    #[test]
    fn table_shows_first_rows_and_counts_all() {
        let batch = |from: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 15));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        let text = table("collect_1", &collected(vec![batch(0), batch(15)])).unwrap();
        assert!(text.starts_with(" n\n--\n 0\n"), "{text}");
        assert!(text.ends_with("\n19\ncollect_1: 30 rows; the first 20 are shown\n"), "{text}");
        let text = first_rows(&collected(vec![batch(0), batch(15)])).unwrap();
        assert!(text.ends_with("\n19\n(the first 20 rows; --output writes all)\n"), "{text}");
    }

    #[test]
    fn nulls_and_texts_in_lists_and_structs_are_told_apart() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("null"), None, Some("it's")]));
        let item = Arc::new(Field::new("item", DataType::Utf8, true));
        let list =
            ListArray::new(item.clone(), OffsetBuffer::from_lengths([3]), texts.clone(), None);
        let of: ArrayRef = Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("city", DataType::Utf8, true)),
            texts.slice(1, 1),
        )]));
        let columns: [(&str, ArrayRef); 2] = [("list", Arc::new(list)), ("of", of)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let text = table("c", &collected(vec![batch])).unwrap();
        assert!(text.contains("\n['null', null, 'it''s']  {city: null}\n"), "{text}");
    }

    #[test]
    fn control_characters_become_spaces_and_long_values_are_cut() {
        let columns: [(&str, ArrayRef); 2] = [
            ("text", Arc::new(StringArray::from(vec![Some("a\x1b[31m\nb"), None]))),
            ("line", Arc::new(BinaryArray::from(vec![b"plain".as_slice(), &[b'x'; 50]]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let text = table("c", &collected(vec![batch])).unwrap();
        let long = "x".repeat(39);
        let wanted = format!(
            "text      line\n--------  {}\na [31m b  plain\nnull      {long}…\nc: 2 rows\n",
            "-".repeat(40)
        );
        assert_eq!(text, wanted);
    }
}
