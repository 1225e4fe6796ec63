//! CSV: fields between delimiters, quoted with `"`, a header line by default.
//!
//! Types are inferred from the first records. An empty field is a null; CSV cannot tell an empty
//! string from it.

use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow::csv::reader::{Decoder, Format as CsvFormat};
use arrow::csv::{ReaderBuilder, WriterBuilder};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result, batch_rows};

use super::options::{delimiter_byte, type_named};
use super::rows::{RowDecoder, RowFormat, Rows};
use super::text::{Text, line_bytes};
use super::{
    Batches, Chunk, Encoder, Format, Input, Opened, ReadOptions, Stream, WriteOptions, Writer,
    agree, guarded, some_column, stream,
};
use crate::blob::Blob;
use crate::location::FileRef;

/// The format.
pub struct Csv;

/// Records looked at to infer types, within the sample.
const SAMPLE_RECORDS: usize = 4096;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["csv", "tsv"]
    }

    fn options(&self) -> &'static [&'static str] {
        &["delimiter", "header", "types"]
    }

    fn open(&self, file: &FileRef, blob: Blob, options: &ReadOptions) -> Result<Arc<dyn Opened>> {
        let dialect = Dialect::new(&file.name, options.delimiter, options.header)?;
        let text = Text::with_quotes(file, &blob, dialect.delimiter);
        let sample = text.sample(&blob)?;
        let schema = infer(dialect, &sample)?;
        let schema = with_types(schema, options)?;
        // A row cannot be shorter than its delimiters.
        let rows = batch_rows(line_bytes(&sample).max(schema.fields().len()));
        Ok(Arc::new(File { text: Arc::new(text), dialect, schema: Arc::new(schema), rows }))
    }

    fn agree(&self, one: &Schema, other: &Schema) -> Result<Schema> {
        agree::widening(one, other)
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
        let dialect = Dialect::new("", options.delimiter, options.header)?;
        let head = match (&columns, dialect.header) {
            (Some(_), false) => vec![],
            (Some(_), true) => stream::line(&mut input)?,
            (None, _) => stream::sample(&mut input)?,
        };
        let inferred = infer(dialect, &head[..stream::whole_lines(&head)])?;
        let schema = match columns {
            Some(columns) if head.is_empty() || same_names(&columns, &inferred) => columns,
            Some(columns) => return Err(stream::differ(&columns, &inferred)),
            None => Arc::new(with_types(inferred, options)?),
        };
        let row_bytes = line_bytes(&head).max(schema.fields().len());
        let reader = ReaderBuilder::new(schema.clone())
            .with_delimiter(dialect.delimiter)
            .with_header(dialect.header)
            .with_batch_size(batch_rows(row_bytes))
            .build_buffered(Cursor::new(head).chain(input))?;
        Ok(Stream::new(schema, reader))
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
            let what = format!("column `{}` is {}", field.name(), field.data_type());
            return Err(Error::usage(format!("{what}, which CSV cannot hold"))
                .remedy("save as parquet, or leave the column out"));
        }
        let dialect = Dialect::new("", options.delimiter, options.header)?;
        Ok(Arc::new(CsvWriter { schema: schema.clone(), dialect }))
    }
}

/// How a file is written.
#[derive(Clone, Copy)]
struct Dialect {
    delimiter: u8,
    header: bool,
}

impl Dialect {
    fn new(name: &str, delimiter: Option<char>, header: Option<bool>) -> Result<Dialect> {
        let is_tsv = name.to_lowercase().ends_with(".tsv");
        let delimiter = delimiter_byte(delimiter.or(is_tsv.then_some('\t')))?;
        Ok(Dialect { delimiter, header: header.unwrap_or(true) })
    }
}

/// The columns of a sample.
fn infer(dialect: Dialect, sample: &[u8]) -> Result<Schema> {
    let format = CsvFormat::default().with_delimiter(dialect.delimiter).with_header(dialect.header);
    let inferred = guarded(|| {
        Ok(format.with_truncated_rows(true).infer_schema(Cursor::new(sample), Some(SAMPLE_RECORDS)))
    })?;
    inferred.map(|(schema, _)| schema).map_err(|error| {
        Error::corrupt(error).remedy("check delimiter and header, and that it is UTF-8 text")
    })
}

fn same_names(one: &Schema, other: &Schema) -> bool {
    let names = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    names(one) == names(other)
}

/// The schema with the types the user gave.
pub(super) fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let Some(types) = &options.types else { return Ok(schema) };
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in types {
        let data_type = type_named(data_type)?;
        match fields.iter_mut().find(|field| field.name() == name) {
            Some(field) => *field = field.clone().with_data_type(data_type),
            None => {
                let names = schema.fields().iter().map(|field| field.name().as_str());
                return Err(unknown("column", name, names));
            }
        }
    }
    Ok(Schema::new(fields))
}

struct File {
    text: Arc<Text>,
    dialect: Dialect,
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
        // The agreed types for the columns that are wanted; the others are not parsed.
        let agreed = |field: &Arc<Field>| {
            let wanted = schema.field_with_name(field.name());
            wanted.map_or_else(|_| field.clone(), |wanted| Arc::new(wanted.clone()))
        };
        let all = Schema::new(self.schema.fields().iter().map(agreed).collect::<Vec<_>>());
        let projection = schema.fields().iter().map(|field| Ok(all.index_of(field.name())?));
        let format = CsvRows {
            dialect: self.dialect,
            projection: projection.collect::<Result<_>>()?,
            schema: Arc::new(all),
        };
        let range = self.text.range(split)?;
        Ok(Box::new(Rows::new(format, self.text.clone(), range, schema.clone(), self.rows)?))
    }
}

struct CsvRows {
    dialect: Dialect,
    schema: SchemaRef,
    projection: Vec<usize>,
}

impl RowFormat for CsvRows {
    type Decoder = Decoder;

    fn decoder(&self, rows: usize, offset: u64) -> Result<Decoder> {
        let builder = ReaderBuilder::new(self.schema.clone())
            .with_delimiter(self.dialect.delimiter)
            .with_header(self.dialect.header && offset == 0)
            .with_batch_size(rows)
            .with_projection(self.projection.clone());
        Ok(builder.build_decoder())
    }

    fn remedy(&self) -> &'static str {
        "correct the line, or give types={\"column\": \"string\"}"
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

struct CsvWriter {
    schema: SchemaRef,
    dialect: Dialect,
}

impl CsvWriter {
    fn encode(&self, batch: &RecordBatch, header: bool, bytes: &mut Vec<u8>) -> Result<()> {
        let builder =
            WriterBuilder::new().with_header(header).with_delimiter(self.dialect.delimiter);
        Ok(builder.build(bytes).write(batch)?)
    }
}

impl Writer for CsvWriter {
    fn header(&self) -> Result<Vec<arrow::buffer::Buffer>> {
        let mut bytes = vec![];
        if self.dialect.header {
            self.encode(&RecordBatch::new_empty(self.schema.clone()), true, &mut bytes)?;
        }
        Ok(vec![bytes.into()])
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let writer = CsvWriter { schema: self.schema.clone(), dialect: self.dialect };
        Ok(Box::new(CsvEncoder { writer, bytes: vec![] }))
    }
}

struct CsvEncoder {
    writer: CsvWriter,
    bytes: Vec<u8>,
}

impl Encoder for CsvEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.encode(batch, false, &mut self.bytes)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn finish(&mut self) -> Result<Chunk> {
        Ok(Chunk::bytes(std::mem::take(&mut self.bytes)))
    }
}
