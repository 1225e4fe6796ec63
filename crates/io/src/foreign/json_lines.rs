//! JSON lines: one object per line. A field that is absent is null.

use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::reader::{Decoder, infer_json_schema};
use arrow::json::writer::LineDelimited;
use arrow::json::{ReaderBuilder, WriterBuilder};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, batch_rows};

use super::options::type_named;
use super::rows::{RowDecoder, RowFormat, Rows};
use super::text::{Text, line_bytes};
use super::{
    Batches, Chunk, Encoder, Format, Input, Opened, ReadOptions, Stream, WriteOptions, Writer,
    agree, guarded, some_column, stream,
};
use crate::blob::Blob;
use crate::location::FileRef;

/// The format.
pub struct JsonLines;

/// Records looked at to infer types, within the sample.
const SAMPLE_RECORDS: usize = 4096;

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
        let schema = infer(&sample)?;
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
        let (schema, rows, head) = match columns {
            Some(columns) => (columns, STREAM_ROWS, vec![]),
            None => {
                let head = stream::sample(&mut input)?;
                let schema = infer(&head[..stream::whole_lines(&head)])?;
                let rows = batch_rows(line_bytes(&head));
                (Arc::new(with_types(schema, options)?), rows, head)
            }
        };
        let reader = ReaderBuilder::new(schema.clone())
            .with_batch_size(rows)
            .with_strict_mode(true)
            .build(Cursor::new(head).chain(input))?;
        Ok(Stream::new(schema, reader))
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

/// The columns of a sample.
fn infer(sample: &[u8]) -> Result<Schema> {
    let inferred = guarded(|| Ok(infer_json_schema(Cursor::new(sample), Some(SAMPLE_RECORDS))))?;
    inferred.map(|(schema, _)| schema).map_err(|error| explain(&error, sample))
}

/// Finds the line that is no record.
fn explain(error: &ArrowError, sample: &[u8]) -> Error {
    let is_wrong = |line: &[u8]| {
        infer_json_schema(Cursor::new(line), None).err().map(|error| error.to_string())
    };
    let mut lines = sample.split(|byte| *byte == b'\n').map(is_wrong).enumerate();
    let error = match lines.find_map(|(index, wrong)| Some((index, wrong?))) {
        Some((index, wrong)) => {
            let wrong = wrong.split(" at line ").next().unwrap_or_default().to_string();
            Error::corrupt(wrong).at(format!("line {}", index + 1))
        }
        None => Error::corrupt(error),
    };
    error.remedy("every line must be one JSON object, with fields of the same types")
}

/// The schema with the types the user gave; a column no record of the sample has may be among them.
fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in options.types.iter().flatten() {
        let given = Field::new(name, type_named(data_type)?, true);
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

    fn read(self: Arc<Self>, split: usize, schema: &SchemaRef) -> Result<Batches> {
        // A field the schema does not have would be lost without a word, unless it was left out
        // on purpose.
        let is_whole =
            self.schema.fields().iter().all(|field| schema.field_with_name(field.name()).is_ok());
        let format = JsonRows { schema: schema.clone(), is_whole };
        let range = self.text.range(split)?;
        Ok(Box::new(Rows::new(format, self.text.clone(), range, schema.clone(), self.rows)?))
    }
}

struct JsonRows {
    schema: SchemaRef,
    is_whole: bool,
}

impl RowFormat for JsonRows {
    type Decoder = Decoder;

    fn decoder(&self, rows: usize, _: u64) -> Result<Decoder> {
        let builder = ReaderBuilder::new(self.schema.clone())
            .with_batch_size(rows)
            .with_strict_mode(self.is_whole);
        Ok(builder.build_decoder()?)
    }

    fn remedy(&self) -> &'static str {
        "correct the line, or give types={\"field\": \"string\"} for what the first records lack"
    }
}

impl RowDecoder for Decoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        Decoder::decode(self, bytes)
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        Decoder::flush(self)
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
        let builder = WriterBuilder::new().with_explicit_nulls(true);
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
