//! CSV: fields between delimiters, quoted with `"`, a header line by default.
//!
//! Types are inferred from the first records (`guess`). Nothing between delimiters is a null, `""`
//! an empty text; in columns of other types both are null.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result, batch_rows};

use super::agree::concrete;
use super::csv_rows::{CsvRows, Dialect, infer};
use super::options::{delimiter_byte, type_named, usual_delimiter};
use super::printed::{Form, printed};
use super::rows::Rows;
use super::text::{Text, line_bytes, without_mark};
use super::{
    Batches, Chunk, Encoder, Format, Input, Opened, ReadOptions, Stream, WriteOptions, Writer,
    agree, some_column, stream, typed,
};
use crate::blob::Blob;
use crate::location::{FileRef, extension_of};

/// The format.
pub struct Csv;

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
        let named = options.format.as_deref().and_then(usual_delimiter);
        let dialect = dialect(&file.name, options.delimiter.or(named), options.header)?;
        let text = Text::with_quotes(file, &blob, dialect.delimiter);
        let sample = text.sample(&blob)?;
        let schema = infer(dialect, without_mark(&sample))?;
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
        let dialect = dialect("", options.delimiter, options.header)?;
        let mut head = stream::text_begin(&mut input)?;
        match (&columns, dialect.header) {
            (Some(_), false) => {}
            (Some(_), true) => stream::line(&mut input, &mut head)?,
            (None, _) => stream::sample(&mut input, &mut head)?,
        }
        let schema = match columns {
            Some(columns) if head.is_empty() || !dialect.header => columns,
            Some(columns) => {
                let found = infer(dialect, &head)?;
                match same_names(&columns, &found) {
                    true => columns,
                    false => return Err(stream::differ(&columns, &found)),
                }
            }
            None if head.is_empty() => return Err(stream::nothing()),
            None => {
                let inferred = infer(dialect, &head[..stream::whole_lines(&head)])?;
                Arc::new(concrete(&with_types(inferred, options)?))
            }
        };
        let rows = batch_rows(line_bytes(&head).max(schema.fields().len()));
        let projection = (0..schema.fields().len()).collect();
        let format = CsvRows::new(dialect, schema.fields().clone(), projection);
        let input = stream::behind(head, input);
        let batches = Rows::of_stream(format, input, schema.clone(), rows)?;
        Ok(Stream { schema, batches: Box::new(batches) })
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
            let what = format!("column `{}` is {}", field.name(), field.data_type());
            return Err(Error::usage(format!("{what}, which CSV cannot hold"))
                .remedy("save as parquet, or leave the column out"));
        }
        let dialect = dialect("", options.delimiter, options.header)?;
        // A type that cannot be shown is found out here.
        formatters(&printed(&RecordBatch::new_empty(schema.clone()), Form::Csv)?)?;
        Ok(Arc::new(CsvWriter { schema: schema.clone(), dialect }))
    }
}

fn dialect(name: &str, delimiter: Option<char>, header: Option<bool>) -> Result<Dialect> {
    let usual = || usual_delimiter(&extension_of(name)?);
    let delimiter = delimiter_byte(delimiter.or_else(usual))?;
    Ok(Dialect { delimiter, header: header.unwrap_or(true) })
}

fn same_names(one: &Schema, other: &Schema) -> bool {
    let names = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    names(one) == names(other)
}

/// The schema with the types the user gave.
fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let Some(types) = &options.types else { return Ok(schema) };
    if schema.fields().is_empty() {
        // An empty file agrees with any other.
        return Ok(schema);
    }
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in types {
        let data_type = type_named(data_type)?;
        typed::check(&data_type).map_err(|error| error.at(format!("column `{name}`")))?;
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

    fn bytes(&self) -> Option<u64> {
        Some(self.text.bytes())
    }

    fn read(self: Arc<Self>, split: usize, schema: &SchemaRef) -> Result<Batches> {
        // The agreed types for the columns that are wanted; the others are not parsed.
        let agreed = |field: &Arc<Field>| {
            let wanted = schema.field_with_name(field.name());
            wanted.map_or_else(|_| field.clone(), |wanted| Arc::new(wanted.clone()))
        };
        let all = Schema::new(self.schema.fields().iter().map(agreed).collect::<Vec<_>>());
        let projection = schema.fields().iter().map(|field| Ok(all.index_of(field.name())?));
        let projection = projection.collect::<Result<_>>()?;
        let format = CsvRows::new(self.dialect, all.fields, projection);
        let range = self.text.range(split)?;
        Ok(Box::new(Rows::of_split(format, self.text.clone(), range, schema.clone(), self.rows)?))
    }
}

struct CsvWriter {
    schema: SchemaRef,
    dialect: Dialect,
}

impl Writer for CsvWriter {
    fn header(&self) -> Result<Vec<arrow::buffer::Buffer>> {
        let mut bytes = vec![];
        if self.dialect.header {
            let names = self.schema.fields().iter().map(|field| Some(field.name().as_str()));
            write_record(names, self.dialect.delimiter, &mut bytes);
        }
        Ok(vec![bytes.into()])
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(CsvEncoder { delimiter: self.dialect.delimiter, bytes: vec![] }))
    }
}

struct CsvEncoder {
    delimiter: u8,
    bytes: Vec<u8>,
}

fn formatters(batch: &RecordBatch) -> Result<Vec<ArrayFormatter<'_>>> {
    let options = FormatOptions::default().with_display_error(false);
    let columns = batch.columns().iter();
    columns.map(|column| Ok(ArrayFormatter::try_new(column.as_ref(), &options)?)).collect()
}

impl Encoder for CsvEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &printed(batch, Form::Csv)?;
        let formatters = formatters(batch)?;
        let mut texts = vec![String::new(); batch.num_columns()];
        for row in 0..batch.num_rows() {
            for ((text, formatter), column) in
                texts.iter_mut().zip(&formatters).zip(batch.columns())
            {
                text.clear();
                if column.is_valid(row) {
                    formatter.value(row).write(text)?;
                }
            }
            let fields = texts.iter().zip(batch.columns());
            let fields = fields.map(|(text, column)| column.is_valid(row).then_some(text.as_str()));
            write_record(fields, self.delimiter, &mut self.bytes);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn finish(&mut self) -> Result<Chunk> {
        Ok(Chunk::bytes(std::mem::take(&mut self.bytes)))
    }
}

/// Writes a record; a null is nothing at all, an empty text `""`.
fn write_record<'a>(
    fields: impl Iterator<Item = Option<&'a str>>,
    delimiter: u8,
    bytes: &mut Vec<u8>,
) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            bytes.push(delimiter);
        }
        let Some(field) = field else { continue };
        let is_special = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
        if !field.is_empty() && !field.bytes().any(is_special) {
            bytes.extend_from_slice(field.as_bytes());
            continue;
        }
        bytes.push(b'"');
        for byte in field.bytes() {
            if byte == b'"' {
                bytes.push(b'"');
            }
            bytes.push(byte);
        }
        bytes.push(b'"');
    }
    bytes.push(b'\n');
}
