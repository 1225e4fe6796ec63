//! Decodes JSON lines: Arrow reads them as text, `typed` makes values of that.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::{Error, Result};
use memchr::memchr;

use super::rows::{RowDecoder, RowFormat};
use super::typed;

/// How a JSON lines file is decoded.
pub struct JsonRows {
    schema: SchemaRef,
    /// The same, with text where a value may not fit its type.
    texts: SchemaRef,
    /// Fail at a field the schema does not have.
    is_whole: bool,
}

impl JsonRows {
    /// To batches with this schema. A field that is not in it is passed over, or, if the schema is
    /// the whole of it, an error.
    pub fn new(schema: SchemaRef, is_whole: bool) -> JsonRows {
        let texts = Schema::new(schema.fields().iter().map(as_text).collect::<Fields>());
        JsonRows { schema, texts: Arc::new(texts), is_whole }
    }
}

impl RowFormat for JsonRows {
    type Decoder = JsonDecoder;

    fn decoder(&self, rows: usize, _: u64) -> Result<JsonDecoder> {
        let builder = ReaderBuilder::new(self.texts.clone())
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .with_strict_mode(self.is_whole);
        Ok(JsonDecoder { decoder: builder.build_decoder()?, schema: self.schema.clone() })
    }

    fn record_end(&self, bytes: &[u8]) -> usize {
        memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)
    }
}

/// A decoder.
pub struct JsonDecoder {
    decoder: Decoder,
    schema: SchemaRef,
}

impl RowDecoder for JsonDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        self.decoder.decode(bytes).map_err(|error| malformed(&error))
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let batch = self.decoder.flush().map_err(|error| malformed(&error))?;
        let Some(batch) = batch else { return Ok(None) };
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            let place = |error: Error| error.at(format!("column `{}`", field.name()));
            typed_of(column, field.data_type()).map_err(place)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)?))
    }
}

fn malformed(error: &ArrowError) -> Error {
    // The decoder's own count of lines begins anew in every split.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    Error::corrupt(message).remedy(
        "correct the line, or say the types (`types`) of fields the first records lack, and of \
         those that are not of one type",
    )
}

/// Whether a value of this type can be written in a way that does not fit it.
fn may_misfit(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(..) | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) => true,
        other => other.is_numeric(),
    }
}

/// The field as it is read first.
fn as_text(field: &FieldRef) -> FieldRef {
    let data_type = text_of(field.data_type());
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn text_of(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        List(field) => List(as_text(field)),
        LargeList(field) => LargeList(as_text(field)),
        FixedSizeList(field, size) => FixedSizeList(as_text(field), *size),
        Map(field, sorted) => Map(as_text(field), *sorted),
        Struct(fields) => Struct(fields.iter().map(as_text).collect()),
        leaf if may_misfit(leaf) => Utf8,
        other => other.clone(),
    }
}

/// What was read as `text_of` a type, as values of that type.
fn typed_of(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    use DataType::*;
    let made = |array: Result<ArrayRef, ArrowError>| array.map_err(Error::corrupt);
    let nulls = || column.nulls().cloned();
    match to {
        leaf if may_misfit(leaf) => typed::column(column.as_string(), leaf),
        List(field) => {
            let list = column.as_list::<i32>();
            let values = typed_of(list.values(), field.data_type())?;
            let list = ListArray::try_new(field.clone(), list.offsets().clone(), values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        LargeList(field) => {
            let list = column.as_list::<i64>();
            let values = typed_of(list.values(), field.data_type())?;
            let offsets = list.offsets().clone();
            let list = LargeListArray::try_new(field.clone(), offsets, values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        FixedSizeList(field, size) => {
            let values = typed_of(column.as_fixed_size_list().values(), field.data_type())?;
            let list = FixedSizeListArray::try_new(field.clone(), *size, values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        Map(field, sorted) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = typed_of(&entries, field.data_type())?.as_struct().clone();
            let offsets = map.offsets().clone();
            let map = MapArray::try_new(field.clone(), offsets, entries, nulls(), *sorted);
            made(map.map(|map| Arc::new(map) as ArrayRef))
        }
        Struct(fields) => {
            let columns = column.as_struct().columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| typed_of(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let rows = column.len();
            let all = StructArray::try_new_with_length(fields.clone(), columns, nulls(), rows);
            made(all.map(|all| Arc::new(all) as ArrayRef))
        }
        _ => Ok(column.clone()),
    }
}
