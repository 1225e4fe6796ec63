//! Converts UUIDs, which files hold as 16 bytes, to text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, StringArray, make_array};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::{Error, Result};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::dataset::row_filter::{FileTest, RowMatcher};
use crate::parquet::footer::ColumnTypes;
use crate::predicate::compared_columns;
use crate::stream::SplitBatches;

/// A matcher of decoded columns whose tests see all UUIDs as text.
pub fn matcher_of_texts(matcher: RowMatcher, types: &ColumnTypes) -> RowMatcher {
    let columns = types.to_decode(&matcher.columns);
    if Arc::ptr_eq(&columns, &matcher.columns) {
        return matcher;
    }
    // Pages have bounds in bytes.
    let is_comparable = |predicate: &_| {
        compared_columns(predicate).iter().all(|column| types.is_same(&column.name))
    };
    let predicate = matcher.predicate.filter(is_comparable);
    let shown = matcher.columns;
    let of_texts = |test: FileTest| {
        let (matches, shown) = (test.matches, shown.clone());
        let matches = move |batch: &RecordBatch| matches(&tested_batch(batch, &shown)?);
        FileTest { matches: Box::new(matches), ..test }
    };
    let tests = matcher.tests.into_iter().map(of_texts).collect();
    RowMatcher { columns, tests, predicate, tightens: matcher.tightens }
}

/// A batch that a test sees, of which some columns have dictionaries.
fn tested_batch(batch: &RecordBatch, shown: &Schema) -> Result<RecordBatch> {
    let schema = batch.schema();
    let converted = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let data_type = match (column.data_type(), shown.field_with_name(field.name())) {
            (own @ DataType::Dictionary(keys, values), Ok(shown)) => {
                match **values == *shown.data_type() {
                    true => own.clone(),
                    false => DataType::Dictionary(keys.clone(), shown.data_type().clone().into()),
                }
            }
            (_, Ok(shown)) => shown.data_type().clone(),
            (own, Err(_)) => own.clone(),
        };
        let column = with_texts(column, &data_type)?;
        Ok((Arc::new(field.as_ref().clone().with_data_type(data_type)), column))
    });
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
        converted.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(Error::failed)
}

/// Batches with all UUIDs as text, under this schema.
pub fn with_uuid_texts(batches: SplitBatches, shown: SchemaRef) -> SplitBatches {
    Box::new(batches.map(move |batch| converted_batch(&batch?, &shown)))
}

fn converted_batch(batch: &RecordBatch, shown: &SchemaRef) -> Result<RecordBatch> {
    let fields = shown.fields().iter();
    let columns = batch.columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| with_texts(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new_with_options(shown.clone(), columns, &options).map_err(Error::failed)
}

/// The column in this type, which differs from its own in UUIDs alone.
pub fn with_texts(column: &ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), shown) {
        (own, shown) if own == shown => Ok(column.clone()),
        (DataType::FixedSizeBinary(16), DataType::Utf8) => {
            Ok(Arc::new(texts(column.as_fixed_size_binary())?))
        }
        _ => nested(column, shown),
    }
}

/// A nested column with its children converted.
fn nested(column: &ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    let data = column.to_data();
    let fields: Vec<&FieldRef> = match shown {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(field) | DataType::LargeList(field) => vec![field],
        DataType::FixedSizeList(field, _) | DataType::Map(field, _) => vec![field],
        DataType::Dictionary(_, values) => {
            let texts = with_texts(column.as_any_dictionary().values(), values)?;
            return Ok(column.as_any_dictionary().with_values(texts));
        }
        _ => return Err(Error::failed(format!("{} is not read as {shown}", data.data_type()))),
    };
    let children = data.child_data().iter().zip(fields).map(|(child, field)| {
        Ok(with_texts(&make_array(child.clone()), field.data_type())?.to_data())
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    let data = data.into_builder().data_type(shown.clone()).child_data(children).build();
    Ok(make_array(data.map_err(Error::failed)?))
}

/// The UUIDs in lower case with hyphens, in the order of their bytes.
fn texts(bytes: &FixedSizeBinaryArray) -> Result<StringArray> {
    let mut texts = Vec::with_capacity(bytes.len() * Hyphenated::LENGTH);
    for at in 0..bytes.len() {
        let value = bytes.value(at).try_into().map_err(Error::corrupt)?;
        let mut text = [0; Hyphenated::LENGTH];
        Uuid::from_bytes(value).hyphenated().encode_lower(&mut text);
        texts.extend_from_slice(&text);
    }
    let lengths = std::iter::repeat_n(Hyphenated::LENGTH, bytes.len());
    let nulls = bytes.nulls().cloned();
    let offsets = OffsetBuffer::from_lengths(lengths);
    StringArray::try_new(offsets, Buffer::from_vec(texts), nulls).map_err(Error::failed)
}
