//! JSON lines: one object per line. A field that is absent is null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::error::ArrowError;
use arrow::json::writer::{LineDelimited, NullableEncoder};
use arrow::json::{EncoderFactory, EncoderOptions, WriterBuilder};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, Row, batch_rows};

use super::agree::concrete;
use super::json_guess::infer;
use super::json_rows::JsonRows;
use super::options::type_named;
use super::printed::{Form, printed, write_decimal};
use super::rows::Rows;
use super::text::{Text, line_bytes, without_mark};
use super::{
    Batches, Chunk, Encoder, Format, Input, Opened, ReadOptions, Stream, WriteOptions, Writer,
    agree, some_column, stream, typed,
};
use crate::blob::Blob;
use crate::location::FileRef;

/// The format.
pub struct JsonLines;

/// Rows of a batch where there is no sample.
const STREAM_ROWS: usize = 8192;

impl Format for JsonLines {
    fn name(&self) -> &'static str {
        "json_lines"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["jsonl", "ndjson", "json"]
    }

    fn options(&self) -> &'static [&'static str] {
        &["types"]
    }

    fn open(&self, file: &FileRef, blob: Blob, options: &ReadOptions) -> Result<Arc<dyn Opened>> {
        let text = Text::new(file, &blob);
        let sample = text.sample(&blob)?;
        let schema = infer(without_mark(&sample))?;
        let rows = batch_rows(line_bytes(&sample));
        let schema = Arc::new(with_types(schema, options)?);
        Ok(Arc::new(File { text: Arc::new(text), schema, rows }))
    }

    fn agree(&self, one: &Schema, other: &Schema) -> Result<Schema> {
        agree::union(one, other)
    }

    fn infers(&self) -> bool {
        true
    }

    fn read_stream(
        &self,
        mut input: Input,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<Stream> {
        let mut head = stream::text_begin(&mut input)?;
        let (schema, rows) = match columns {
            Some(columns) => (columns, STREAM_ROWS),
            None => {
                stream::sample(&mut input, &mut head)?;
                let schema = infer(&head[..stream::whole_lines(&head)])?;
                if schema.fields().is_empty() && options.types.is_none() {
                    return Err(stream::nothing());
                }
                let schema = concrete(&with_types(schema, options)?);
                (Arc::new(schema), batch_rows(line_bytes(&head)))
            }
        };
        let format = JsonRows::whole(schema.clone());
        let input = stream::behind(head, input);
        let batches = Rows::of_stream(format, input, schema.clone(), rows)?;
        Ok(Stream { schema, batches: Box::new(batches) })
    }

    fn writer(&self, schema: &SchemaRef, _: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        // The encoder knows which types it can write.
        let mut encoder = JsonEncoder { bytes: vec![] };
        encoder.push(&RecordBatch::new_empty(schema.clone())).map_err(|error| {
            Error::usage(error.message()).remedy("save as parquet, or leave the column out")
        })?;
        Ok(Arc::new(JsonWriter))
    }
}

/// The schema with the types the user gave; a column no record of the sample has may be among them.
fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in options.types.iter().flatten() {
        let data_type = type_named(data_type)?;
        if !data_type.is_nested() {
            typed::check(&data_type).map_err(|error| error.at(format!("column `{name}`")))?;
        }
        let given = Field::new(name, data_type, true);
        match fields.iter_mut().find(|field| field.name() == name) {
            Some(field) => *field = given,
            None => fields.push(given),
        }
    }
    Ok(Schema::new(fields))
}

struct File {
    text: Arc<Text>,
    schema: SchemaRef,
    /// Rows of a batch.
    rows: usize,
}

impl Opened for File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn splits(&self) -> usize {
        self.text.splits()
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.text.bytes())
    }

    fn read(self: Arc<Self>, split: usize, schema: &SchemaRef) -> Result<Batches> {
        let format = JsonRows::of_file(schema.clone(), &self.schema);
        let range = self.text.range(split)?;
        Ok(Box::new(Rows::of_split(format, self.text.clone(), range, schema.clone(), self.rows)?))
    }
}

struct JsonWriter;

impl Writer for JsonWriter {
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(JsonEncoder { bytes: vec![] }))
    }
}

struct JsonEncoder {
    bytes: Vec<u8>,
}

impl Encoder for JsonEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &printed(batch, Form::Json)?;
        let strange = batch.columns().iter().position(has_no_number);
        if let Some(column) = strange {
            let values = batch.column(column);
            let row = (0..values.len()).find(|row| has_no_number(&values.slice(*row, 1)));
            let row = row.unwrap_or(0);
            let error = Error::failed("JSON has no NaN and no infinity")
                .in_row(|| Row::of(batch, row, format!("row {row} of its batch")))
                .at(format!("column `{}`", batch.schema_ref().field(column).name()));
            return Err(error.remedy("filter them out, or save as csv or parquet"));
        }
        let builder = WriterBuilder::new().with_explicit_nulls(true);
        let builder = builder.with_encoder_factory(Arc::new(Decimals));
        let mut writer = builder.build::<_, LineDelimited>(&mut self.bytes);
        writer.write(batch)?;
        Ok(writer.finish()?)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn finish(&mut self) -> Result<Chunk> {
        Ok(Chunk::bytes(std::mem::take(&mut self.bytes)))
    }
}

/// Encodes decimals as numbers with all of their digits.
#[derive(Debug)]
struct Decimals;

impl EncoderFactory for Decimals {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        Ok(Some(match array.data_type() {
            DataType::Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
            DataType::Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
            DataType::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
            DataType::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale),
            _ => return Ok(None),
        }))
    }
}

fn decimals<T: DecimalType>(array: &dyn Array, scale: i8) -> NullableEncoder<'_>
where
    T::Native: std::fmt::Display,
{
    let (values, text) = (array.as_primitive::<T>(), String::new());
    let encoder = DecimalEncoder { values, scale, text };
    NullableEncoder::new(Box::new(encoder), array.nulls().cloned())
}

struct DecimalEncoder<'a, T: DecimalType> {
    values: &'a PrimitiveArray<T>,
    scale: i8,
    text: String,
}

impl<T: DecimalType> arrow::json::Encoder for DecimalEncoder<'_, T>
where
    T::Native: std::fmt::Display,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.text.clear();
        write_decimal(&self.values.value(row).to_string(), self.scale, &mut self.text);
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// Whether one of the floats is NaN or infinite.
fn has_no_number(column: &ArrayRef) -> bool {
    match column.data_type() {
        DataType::Float16 => {
            column.as_primitive::<Float16Type>().iter().flatten().any(|value| !value.is_finite())
        }
        DataType::Float32 => {
            column.as_primitive::<Float32Type>().iter().flatten().any(|value| !value.is_finite())
        }
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().iter().flatten().any(|value| !value.is_finite())
        }
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let offsets = list.offsets();
            let (first, end) = (offsets[0] as usize, offsets[list.len()] as usize);
            has_no_number(&list.values().slice(first, end - first))
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            let offsets = list.offsets();
            let (first, end) = (offsets[0] as usize, offsets[list.len()] as usize);
            has_no_number(&list.values().slice(first, end - first))
        }
        DataType::FixedSizeList(..) => has_no_number(column.as_fixed_size_list().values()),
        DataType::ListView(_) => {
            column.as_list_view::<i32>().iter().flatten().any(|list| has_no_number(&list))
        }
        DataType::LargeListView(_) => {
            column.as_list_view::<i64>().iter().flatten().any(|list| has_no_number(&list))
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let offsets = map.offsets();
            let (first, end) = (offsets[0] as usize, offsets[map.len()] as usize);
            has_no_number(&map.values().slice(first, end - first))
        }
        // Not all that a dictionary holds need be written.
        DataType::Dictionary(_, values) if values.is_floating() || values.is_nested() => {
            cast(column, values).is_ok_and(|plain| has_no_number(&plain))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().any(has_no_number),
        _ => false,
    }
}
