//! Where the columns of a table come from in one file: from the file, from its path, or from
//! nowhere, which makes them null.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use euphrates_flow::{Result, new_batch};

use crate::columns_by_name::ColumnsByName;
use crate::type_unification::converted;

/// The columns of a table in one file.
#[derive(Clone)]
pub(super) struct FileColumns {
    /// What is read from the file, in its types.
    pub own: SchemaRef,
    /// The columns of the table.
    table: SchemaRef,
    sources: Vec<TableColumnSource>,
}

#[derive(Clone)]
enum TableColumnSource {
    /// The position in `own`.
    File(usize),
    /// A value for all rows; null if there is none.
    Constant(Option<ArrayRef>),
}

/// What is known of a file.
pub(super) struct SourceFile<'a> {
    /// Its columns.
    pub schema: &'a Schema,
    /// Whether records are parsed to the types of the table, not to those of the file.
    pub infers: bool,
    /// Whether any record may have columns that the schema lacks.
    pub is_open: bool,
    /// Whether rows can be counted without reading a column.
    pub counts_rows: bool,
}

impl FileColumns {
    /// The columns of `table` in a file, with those in its path.
    pub fn new(
        table: &SchemaRef,
        file: &SourceFile,
        in_path: impl Fn(&str) -> Option<ArrayRef>,
    ) -> Result<FileColumns> {
        let places = ColumnsByName::new(file.schema);
        let (mut own, mut sources) = (vec![], vec![]);
        for field in table.fields() {
            if let Some(value) = in_path(field.name()) {
                sources.push(TableColumnSource::Constant(Some(cast(&value, field.data_type())?)));
                continue;
            }
            let read = match places.field(field.name()) {
                Some(in_file) => Some(read_as(field, in_file, file.infers)),
                None => file.is_open.then(|| field.clone()),
            };
            sources.push(match read {
                Some(_) => TableColumnSource::File(own.len()),
                None => TableColumnSource::Constant(None),
            });
            own.extend(read);
        }
        if own.is_empty() && !file.counts_rows {
            // Read for the number of rows alone.
            let width =
                |field: &&FieldRef| field.data_type().primitive_width().unwrap_or(usize::MAX);
            own.extend(file.schema.fields().iter().min_by_key(width).cloned());
        }
        Ok(FileColumns { own: Arc::new(Schema::new(own)), table: table.clone(), sources })
    }

    /// The table's columns of a batch of the file.
    pub fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.schema_ref() == &self.table {
            return Ok(batch.clone());
        }
        let rows = batch.num_rows();
        let sources = self.table.fields().iter().zip(&self.sources);
        let columns = sources.map(|(field, source)| completed(batch, field, source));
        Ok(new_batch(self.table.clone(), columns.collect::<Result<_>>()?, rows)?)
    }

    /// Like `complete`, for a batch of which some columns have dictionaries that the file's types
    /// do not have; those stay as they are if their values have the table's type.
    pub fn complete_coded(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.schema_ref() == &self.table {
            return Ok(batch.clone());
        }
        let (mut fields, mut columns) = (vec![], vec![]);
        for (field, source) in self.table.fields().iter().zip(&self.sources) {
            let coded = match source {
                TableColumnSource::File(at) => Some(batch.column(*at)),
                TableColumnSource::Constant(_) => None,
            };
            let coded = coded.filter(|column| match column.data_type() {
                DataType::Dictionary(_, values) => **values == *field.data_type(),
                _ => false,
            });
            let column = coded.cloned().map_or_else(|| completed(batch, field, source), Ok)?;
            fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        Ok(new_batch(Arc::new(Schema::new(fields)), columns, batch.num_rows())?)
    }
}

/// A column of the table, of a batch of the file.
fn completed(
    batch: &RecordBatch,
    field: &FieldRef,
    source: &TableColumnSource,
) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    match source {
        TableColumnSource::File(at) => converted(batch.column(*at), field.data_type()),
        TableColumnSource::Constant(None) => Ok(new_null_array(field.data_type(), rows)),
        TableColumnSource::Constant(Some(value)) => {
            Ok(take(value, &UInt32Array::from(vec![0; rows]), None)?)
        }
    }
}

/// The type in which a column is read from a file.
fn read_as(field: &FieldRef, file: &FieldRef, infers: bool) -> FieldRef {
    let is_encoded = match field.data_type() {
        DataType::Dictionary(_, values) => **values == *file.data_type(),
        _ => false,
    };
    match infers || is_encoded || field.data_type() == file.data_type() {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_data_type(file.data_type().clone())),
    }
}
