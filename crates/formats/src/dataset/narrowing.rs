//! Tables without columns that nothing needs, and with those that may stay encoded.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use euphrates_flow::Result;

use super::Dataset;
use crate::text::rejects::ErrorPolicy;

impl Dataset {
    /// The same table with these columns alone, by position in its schema; files are not opened
    /// again. Fails if there is no such column.
    ///
    /// ```
    /// use euphrates_formats::{Dataset, ReadLimits, ReadOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("towns.csv");
    /// std::fs::write(&path, "name,people\nAssur,30000\n")?;
    /// let paths = [path.to_string_lossy().into_owned()];
    /// let people = Dataset::open(&paths, &ReadOptions::default())?.narrowed(&[1])?;
    /// assert_eq!((people.schema().fields().len(), people.all_columns().fields().len()), (1, 2));
    /// let mut batches = people.read(0, &ReadLimits::default())?;
    /// assert_eq!(batches.next().expect("one batch")?.num_columns(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn narrowed(self, columns: &[usize]) -> Result<Dataset> {
        Ok(Dataset { schema: Arc::new(self.schema.project(columns)?), ..self })
    }

    /// The same table with these columns, and those by whose values records are rejected. Records
    /// that are skipped because of a column of text in CSV are known without its values: it is
    /// checked to be UTF-8.
    pub fn narrowed_but_for_errors(
        self,
        columns: &[usize],
        policy: Option<&ErrorPolicy>,
    ) -> Result<Dataset> {
        let Some(policy) = policy else { return self.narrowed(columns) };
        let is_csv = self.infers && !self.is_open;
        let rejects = |column: &usize| {
            let field = self.schema.field(*column);
            let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8);
            !self.hive.has(field.name()) && (policy.keeps_records || !is_csv || !is_text)
        };
        let all = 0..self.schema.fields().len();
        let mut kept: Vec<usize> =
            all.filter(|column| columns.contains(column) || rejects(column)).collect();
        // The fields of a record are counted where one is read.
        if kept.iter().all(|column| self.is_in_path(*column)) {
            kept = (0..self.schema.fields().len()).collect();
        }
        self.narrowed(&kept)
    }

    /// The same table with dictionaries in those of these columns of which all files store few
    /// different values; `is_wanted` is given a column's name, and whether it is text.
    pub fn encoded(self, is_wanted: impl Fn(&str, bool) -> bool) -> Dataset {
        let is_encoded = |field: &FieldRef| {
            let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8);
            let is_in_path = self.hive.has(field.name());
            is_wanted(field.name(), is_text)
                && self.files.iter().all(|(_, file)| match is_in_path {
                    true => is_text,
                    false => file.has_dictionary(field),
                })
        };
        let encoded = |field: &FieldRef| match is_encoded(field) {
            true => {
                let data_type = Box::new(field.data_type().clone());
                let data_type = DataType::Dictionary(Box::new(DataType::Int32), data_type);
                Arc::new(field.as_ref().clone().with_data_type(data_type))
            }
            false => field.clone(),
        };
        let fields: Vec<FieldRef> = self.schema.fields().iter().map(encoded).collect();
        Dataset { schema: Arc::new(Schema::new(fields)), ..self }
    }
}
