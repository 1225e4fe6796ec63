//! Plain schemas: collections store values in place of dictionaries.
//!
//! An Arrow file has one dictionary for all its batches, while every batch of a flow may bring its
//! own.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use euphrates_flow::Result;

use crate::segment::has_dictionary;

/// The schema with the dictionaries at the top level, and in lists and structs, replaced by their
/// value types. Dictionaries in maps, unions, list views and run-end-encoded columns stay.
pub fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| has_dictionary(field)) {
        return schema.clone();
    }
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Casts a batch to the plain form of its schema.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, DictionaryArray, RecordBatch};
/// use arrow::datatypes::{DataType, Int32Type};
/// use euphrates_store::collection::{plain_batch, plain_schema};
///
/// let coded: DictionaryArray<Int32Type> = ["Mari", "Assur", "Mari"].into_iter().collect();
/// let batch = RecordBatch::try_from_iter([("town", Arc::new(coded) as ArrayRef)])?;
/// let plain = plain_schema(&batch.schema());
/// assert_eq!(plain.field(0).data_type(), &DataType::Utf8);
/// assert_eq!(plain_batch(batch, &plain)?.num_rows(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plain_batch(batch: RecordBatch, plain: &SchemaRef) -> Result<RecordBatch> {
    let same = |(column, field): (&ArrayRef, &Arc<Field>)| column.data_type() == field.data_type();
    if batch.columns().iter().zip(plain.fields()).all(same) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(plain.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(plain.clone(), columns)?)
}

fn plain_field(field: &Arc<Field>) -> Arc<Field> {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::List(inner) => DataType::List(plain_field(inner)),
        DataType::LargeList(inner) => DataType::LargeList(plain_field(inner)),
        DataType::FixedSizeList(inner, length) => {
            DataType::FixedSizeList(plain_field(inner), *length)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        _ => return field.clone(),
    };
    let plain = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}
