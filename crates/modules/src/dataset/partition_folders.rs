//! The folders of a dataset that is partitioned by columns: which rows go to which.

use std::ops::Range;
use std::path::PathBuf;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, partition};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use euphrates_flow::error::unknown_column;
use euphrates_flow::{Error, Result};
use euphrates_formats::dataset::hive::folder_name;

/// The longest name of a file or folder on usual file systems.
const NAME_BYTES_MAX: usize = 255;

/// The columns whose values name folders.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionFolders {
    /// By position in the input, the outermost folder first.
    columns: Vec<usize>,
    names: Vec<String>,
    /// The positions of the others, which are in the files.
    rest: Vec<usize>,
}

impl PartitionFolders {
    /// The folders of these columns.
    pub(crate) fn new(by: &[String], schema: &Schema) -> Result<PartitionFolders> {
        let mut columns = vec![];
        for name in by {
            let column = schema.index_of(name).map_err(|_| unknown_column(name, schema))?;
            if columns.contains(&column) {
                return Err(Error::usage(format!("`{name}` is named twice")).remedy("name it once"));
            }
            check_type(name, schema.field(column).data_type())?;
            columns.push(column);
        }
        let rest: Vec<usize> =
            (0..schema.fields().len()).filter(|column| !columns.contains(column)).collect();
        if rest.is_empty() && !columns.is_empty() {
            let error =
                Error::usage("every column would be in names of folders, and none in files");
            return Err(error.remedy("leave one out of `partition_by`"));
        }
        Ok(PartitionFolders { columns, names: by.to_vec(), rest })
    }

    /// Whether there are columns, and so a folder for each combination of their values.
    pub(crate) fn are_several(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The columns of the files.
    pub(crate) fn file_schema(&self, schema: &SchemaRef) -> Result<SchemaRef> {
        Ok(SchemaRef::new(schema.project(&self.rest)?))
    }

    /// The columns of the files, of these rows.
    pub(crate) fn file_columns(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        Ok(rows.project(&self.rest)?)
    }

    /// Ranges of rows with equal values, which are next to each other.
    pub(crate) fn ranges(&self, rows: &RecordBatch) -> Result<Vec<Range<usize>>> {
        if self.columns.is_empty() {
            return Ok(std::iter::once(0..rows.num_rows()).collect());
        }
        let keys = self.columns.iter().map(|column| plain(rows.column(*column)));
        Ok(partition(&keys.collect::<Result<Vec<_>>>()?)?.ranges())
    }

    /// The folder of a row, relative to the dataset; empty without columns.
    pub(crate) fn of_row(&self, rows: &RecordBatch, row: usize) -> Result<PathBuf> {
        let mut folder = PathBuf::new();
        for (column, name) in self.columns.iter().zip(&self.names) {
            let text = text_of(&rows.column(*column).slice(row, 1))?;
            folder.push(checked(name, folder_name(name, text.as_deref()))?);
        }
        Ok(folder)
    }

    /// The folder of rows whose values are all null.
    pub(crate) fn of_nulls(&self) -> PathBuf {
        self.names.iter().map(|name| folder_name(name, None)).collect()
    }
}

fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    let is_plain = match data_type {
        DataType::Dictionary(_, values) => return check_type(name, values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean => true,
        other => other.is_numeric() || other.is_temporal() && !is_span(other),
    };
    match is_plain {
        true => Ok(()),
        false => Err(Error::usage(format!("`{name}` is {data_type}, which names no folder"))
            .remedy("partition by numbers, texts, dates, times or bools")),
    }
}

fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// A column without its dictionary.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Dictionary(_, values) => Ok(arrow::compute::cast(column, values)?),
        _ => Ok(column.clone()),
    }
}

/// The only value of a column as text; `None` for null.
fn text_of(value: &ArrayRef) -> Result<Option<String>> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let text = cast_with_options(&plain(value)?, &DataType::Utf8, &strict)?;
    let text = text.as_string::<i32>();
    let is_moment = matches!(value.data_type(), DataType::Timestamp(..));
    Ok(text.is_valid(0).then(|| match is_moment {
        true => text.value(0).replace('T', " "),
        false => text.value(0).to_string(),
    }))
}

fn checked(column: &str, name: String) -> Result<String> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(name),
        bytes => {
            let message = format!(
                "a value of `{column}` makes a folder's name of {bytes} bytes, and file systems \
                 take {NAME_BYTES_MAX}"
            );
            Err(Error::failed(message).remedy("partition by a column of shorter values"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Float64Array, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;

    #[test]
    fn equal_rows_have_a_folder_and_files_the_other_columns() {
        let city = StringArray::from(vec![Some("Ur"), Some("Ur"), Some("a/b"), None]);
        let columns: [(&str, ArrayRef); 5] = [
            ("city", Arc::new(city)),
            ("day", Arc::new(Date32Array::from(vec![0, 0, 1, 1]))),
            ("x", Arc::new(Float64Array::from(vec![1.5, 1.5, 2.0, -0.0]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 0, 1_500_000, 0]))),
            ("n", Arc::new(Date32Array::from(vec![1, 2, 3, 4]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let by = ["day", "city", "x", "at"].map(String::from);
        let folders = PartitionFolders::new(&by, &rows.schema()).unwrap();
        assert_eq!(folders.ranges(&rows).unwrap(), [0..2, 2..3, 3..4]);
        let of = |row| folders.of_row(&rows, row).unwrap().display().to_string();
        assert_eq!(of(1), "day=1970-01-01/city=Ur/x=1.5/at=1970-01-01 00%3A00%3A00");
        assert_eq!(of(2), "day=1970-01-02/city=a%2Fb/x=2.0/at=1970-01-01 00%3A00%3A01.500");
        assert!(of(3).contains("/city=__HIVE_DEFAULT_PARTITION__/x=-0.0/"));
        assert_eq!(folders.file_columns(&rows).unwrap().schema().field(0).name(), "n");
        for wrong in [&["city", "city"][..], &["town"], &["city", "day", "x", "at", "n"]] {
            let by: Vec<String> = wrong.iter().map(|name| name.to_string()).collect();
            assert!(PartitionFolders::new(&by, &rows.schema()).is_err(), "{wrong:?}");
        }
    }
}
