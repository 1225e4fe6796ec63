//! Rows in error messages: values as text, limited in number and length.

use std::fmt;
use std::ops::Range;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

/// Maximum characters shown of a value.
pub(crate) const TEXT_MAX: usize = 256;
/// Maximum columns shown of a row.
pub const COLUMNS_MAX: usize = 200;
/// Maximum columns, and characters of each, on a line of a terminal.
const LINE_COLUMNS_MAX: usize = 8;
const LINE_TEXT_MAX: usize = 40;

/// A row shown in an error message.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::Row;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// assert_eq!(Row::of(&batch, 0, "row 17").to_string(), "row 17: n = 5");
/// assert_eq!(Row::of(&batch, 1, "row 18").to_string(), "row 18: n is null");
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Which row it is, and whether it is known to be the one at fault.
    pub about: String,
    /// The values of its first columns.
    pub values: Vec<RowValue>,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowValue {
    /// The name of the column.
    pub column: String,
    /// The value as text; `None` for null.
    pub text: Option<String>,
    /// Whether it is a number or a truth value, which is shown without quotes.
    #[serde(default)]
    pub is_bare: bool,
}

impl Row {
    /// Row `row` of a batch.
    pub fn of(batch: &RecordBatch, row: usize, about: impl fmt::Display) -> Row {
        let schema = batch.schema_ref();
        let options = FormatOptions::default();
        let columns = schema.fields().iter().zip(batch.columns()).take(COLUMNS_MAX);
        let value = |(field, column): (&arrow::datatypes::FieldRef, &arrow::array::ArrayRef)| {
            let format = ArrayFormatter::try_new(column.as_ref(), &options).ok();
            let text = format.and_then(|format| format.value(row).try_to_string().ok());
            let text = column.is_valid(row).then(|| cut(&text.unwrap_or_default()));
            let kind = field.data_type();
            let is_bare = kind.is_numeric() || *kind == DataType::Boolean;
            RowValue { column: cut(field.name()), text, is_bare }
        };
        Row { about: about.to_string(), values: columns.map(value).collect() }
    }

    /// A row that could not be parsed into columns.
    pub fn of_text(text: &str, about: impl fmt::Display) -> Row {
        let value = RowValue { column: "text".into(), text: Some(cut(text)), is_bare: false };
        Row { about: about.to_string(), values: vec![value] }
    }
}

/// `row 17 of its input: n = 5, name = "a"`, with at most `LINE_COLUMNS_MAX` columns.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.about)?;
        for (at, value) in self.values.iter().take(LINE_COLUMNS_MAX).enumerate() {
            let RowValue { column, text, is_bare } = value;
            let before = if at == 0 { ": " } else { ", " };
            match text {
                Some(text) if *is_bare => write!(f, "{before}{column} = {text}")?,
                Some(text) => {
                    let shown: String = text.chars().take(LINE_TEXT_MAX).collect();
                    let more = if shown.len() < text.len() { "…" } else { "" };
                    write!(f, "{before}{column} = {shown:?}{more}")?;
                }
                None => write!(f, "{before}{column} is null")?,
            }
        }
        if self.values.len() > LINE_COLUMNS_MAX { f.write_str(", …") } else { Ok(()) }
    }
}

/// The values of a row as text; `None` for null.
pub type RowTexts = Vec<Option<String>>;

/// The last rows of these batches, at most `rows_max`.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::row::last_texts;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// assert_eq!(last_texts(&[batch], 2)?, [[Some("2".to_string())], [None]]);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn last_texts(batches: &[RecordBatch], rows_max: usize) -> Result<Vec<RowTexts>, ArrowError> {
    let mut rows = vec![];
    let all: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut skipped = all.saturating_sub(rows_max);
    for batch in batches {
        let from = skipped.min(batch.num_rows());
        skipped -= from;
        let options = FormatOptions::default();
        let columns = batch.columns().iter().take(COLUMNS_MAX);
        let formats = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formats = formats.collect::<Result<Vec<_>, _>>()?;
        for row in from..batch.num_rows() {
            let text =
                |(at, format): (usize, &ArrayFormatter<'_>)| match batch.column(at).is_null(row) {
                    true => Ok(None),
                    false => Ok(Some(cut(&format.value(row).try_to_string()?))),
                };
            rows.push(formats.iter().enumerate().map(text).collect::<Result<_, ArrowError>>()?);
        }
    }
    Ok(rows)
}

/// The text cut to `TEXT_MAX` characters.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => text[..end].to_string(),
        None => text.to_string(),
    }
}

/// Bisects `rows` rows that fail together: returns one row, or the smallest range found that still
/// fails. `fails` evaluates a range, and returns `None` to give up.
///
/// ```
/// use euphrates_flow::row::at_fault;
///
/// let fails = |rows: std::ops::Range<usize>| Some(rows.contains(&70));
/// assert_eq!(at_fault(100, fails), Some(70..71));
/// assert_eq!(at_fault(100, |_| None), None, "given up");
/// ```
pub fn at_fault(
    rows: usize,
    mut fails: impl FnMut(Range<usize>) -> Option<bool>,
) -> Option<Range<usize>> {
    let mut within = 0..rows;
    while within.len() > 1 {
        let half = within.start + within.len() / 2;
        if fails(within.start..half)? {
            within.end = half;
        } else if fails(half..within.end)? {
            within.start = half;
        } else {
            break;
        }
    }
    Some(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn bisection_finds_first_faulty_row() {
        for bad in [vec![0], vec![999], vec![3, 700], vec![500, 501]] {
            let mut tries = 0;
            let found = at_fault(1000, |rows| {
                tries += 1;
                Some(bad.iter().any(|row| rows.contains(row)))
            });
            assert_eq!(found, Some(bad[0]..bad[0] + 1));
            assert!(tries <= 20, "{tries}");
        }
    }

    #[test]
    fn rows_that_fail_only_together_are_reported_together() {
        let fails = |rows: Range<usize>| rows.contains(&10) && rows.contains(&20);
        assert_eq!(at_fault(32, |rows| Some(fails(rows))), Some(0..32));
        assert_eq!(at_fault(64, |rows| Some(fails(rows))), Some(0..32));
        assert_eq!(at_fault(64, |_| None), None);
    }

    #[test]
    fn row_text_is_truncated() {
        let long = "é".repeat(1000);
        let names: ArrayRef = Arc::new(StringArray::from(vec![None, Some(long.as_str())]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("name", names)]).unwrap();
        let row = Row::of(&batch, 1, "row 1");
        assert_eq!(row.values[1].text.as_ref().unwrap().chars().count(), TEXT_MAX);
        let line = format!("row 1: n = 2, name = \"{}\"…", "é".repeat(LINE_TEXT_MAX));
        assert_eq!(row.to_string(), line);
        let null = Row::of(&batch, 0, "row 0").to_string();
        assert_eq!(null, "row 0: n = 1, name is null");
    }
}
