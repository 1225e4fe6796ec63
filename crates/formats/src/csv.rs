//! Reads and writes CSV; options set its dialect (delimiter, quote, escape, comment, nulls).
//!
//! By default `"` quotes fields and the first line is a header. Types are inferred from the first
//! records (`decoder::infer`). In text columns an empty unquoted field is null and `""` is an empty
//! string; in columns of any other type both are null.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown_column;
use euphrates_flow::{Error, Result, batch_rows};

use crate::columns_by_name::ColumnsByName;
use crate::csv::decoder::{CsvRows, infer};
use crate::csv::dialect::Dialect;
use crate::csv::encoder::{append, write_record};
use crate::csv::fields::Tokenizer;
use crate::format::{Encoder, Format, FormatInfo, OpenedFile, Writer, some_column};
use crate::options::{ReadOptions, WriteOptions, default_delimiter_of_path};
use crate::options::{default_delimiter, type_named};
use crate::schema_unification;
use crate::schema_unification::concrete;
use crate::stream;
use crate::stream::{BatchStream, ByteInput};
use crate::text::encoder::TextEncoder;
use crate::text::limits::RecordLimit;
use crate::text::rows::Rows;
use crate::text::source;
use crate::text::source::TextFile;
use crate::text::splits::line_bytes;
use crate::values::parsing;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

mod cell;
mod decoder;
mod dialect;
mod encoder;
mod fields;
pub(crate) mod quotes;
mod special_bytes;

/// CSV and TSV, as the registry lists them.
pub struct Csv;

#[rustfmt::skip]
const OPTIONS: [&str; 11] = [
    "delimiter", "header", "types", "quote", "escape", "comment", "skip_rows", "null_values",
    "null_value", "encoding", "on_error",
];

impl Format for Csv {
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "csv",
            extensions: &["csv", "tsv"],
            options: &OPTIONS,
            compresses_whole: true,
            infers_types: true,
            records_omit_columns: false,
            counts_rows: false,
            selects_rows: false,
        }
    }

    fn open(
        &self,
        file: &FileRef,
        blob: Blob,
        options: &ReadOptions,
    ) -> Result<Arc<dyn OpenedFile>> {
        let named = options.format.as_deref().and_then(default_delimiter);
        let dialect =
            Dialect::to_read(options, named.or_else(|| default_delimiter_of_path(&file.name)))?;
        let text = TextFile::open(file, &blob, &Csv, options, Some(dialect.quoting()))?;
        // In this dialect quotes alone do not determine where records end, so the file is one
        // split, read from front to back.
        let text = if dialect.quotes_determine_record_ends() { text } else { text.whole() };
        let end =
            |bytes: &[u8], all| if all { Some(bytes.len()) } else { dialect.sample_end(bytes) };
        let (sample, _) = text.head(&blob, end)?;
        let schema = inferred(&dialect, &sample)?;
        let schema = with_types(schema, options)?;
        // A row has at least as many bytes as its delimiters.
        let rows = batch_rows(line_bytes(&sample).max(schema.fields().len()));
        let (own, given) = (Arc::new(schema), given_names(options));
        let skips = options.on_error.as_ref().is_some_and(|policy| !policy.keeps_records);
        let checks_others = skips && options.columns.is_none();
        Ok(text.opened(own.clone(), None, move |text, split, schema, limits| {
            // Projected columns get the types on which all files agree; the others are not parsed.
            let mut fields = own.fields().to_vec();
            let projection = ColumnsByName::new(&own).of_all(schema)?;
            for (column, wanted) in projection.iter().zip(schema.fields()) {
                fields[*column] = wanted.clone();
            }
            let format = CsvRows::new(dialect.clone(), fields.into(), projection);
            let format = format.with_given_types(given.clone());
            let format = if checks_others { format.checking_others() } else { format };
            text.rows(split, format, schema, rows, limits)
        }))
    }

    fn unify(&self, one: &Schema, other: &Schema, union_by_name: Option<bool>) -> Result<Schema> {
        schema_unification::widening(one, other, union_by_name)
    }

    fn read_stream(
        &self,
        mut input: ByteInput,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<BatchStream> {
        let dialect = Dialect::to_read(options, None)?;
        let (mut head, mut end) = (vec![], 0);
        match (&columns, dialect.header) {
            (Some(_), false) => {}
            (Some(_), true) => stream::line(&mut input, &mut head)?,
            (None, _) => {
                let last_end = |bytes: &[u8]| dialect.sample_end(bytes);
                (head, end, _) = source::sample(&mut input, last_end)?;
            }
        }
        let mut given = given_names(options);
        if let Some(columns) = &columns {
            given = Arc::new(columns.fields().iter().map(|field| field.name().clone()).collect());
        }
        let schema = match columns {
            Some(columns) if head.is_empty() || !dialect.header => columns,
            Some(columns) => {
                let found = infer(&dialect, &head)?;
                match same_names(&columns, &found) {
                    true => columns,
                    false => return Err(stream::differ(&columns, &found)),
                }
            }
            None if head.is_empty() => return Err(stream::nothing()),
            None => {
                let found = inferred(&dialect, &head[..end])?;
                Arc::new(concrete(&with_types(found, options)?))
            }
        };
        let rows = batch_rows(line_bytes(&head).max(schema.fields().len()));
        let projection = (0..schema.fields().len()).collect();
        let format = CsvRows::new(dialect, schema.fields().clone(), projection);
        let format = format.with_given_types(given);
        let input = stream::prepend(head, input);
        let (skipped, limit) = (options.skip_rows.unwrap_or(0), RecordLimit::of_pipe());
        let batches = Rows::of_stream(format, input, skipped, schema.clone(), rows, limit)?;
        Ok(BatchStream { schema, batches: Box::new(batches) })
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
            let what = format!("column `{}` is {}", field.name(), field.data_type());
            return Err(Error::usage(format!("{what}, which CSV cannot hold"))
                .remedy("save as parquet, or leave the column out"));
        }
        let dialect = Dialect::to_write(options)?;
        // Fails here, before anything is written, if a type has no text form.
        append(&RecordBatch::new_empty(schema.clone()), &dialect, &mut vec![])?;
        Ok(Arc::new(CsvWriter { schema: schema.clone(), dialect }))
    }
}

/// The schema that a sample shows. Without a header, lines that are all empty are nulls of a single
/// column, because that is how they are written.
fn inferred(dialect: &Dialect, sample: &[u8]) -> Result<Schema> {
    let schema = infer(dialect, sample)?;
    if dialect.header || !schema.fields().is_empty() {
        return Ok(schema);
    }
    let mut lines = Tokenizer::new(dialect, true);
    lines.take(sample, |lines| lines.len() == 1);
    Ok(match lines.len() {
        0 => schema,
        _ => Schema::new(vec![Field::new("column_1", DataType::Null, true)]),
    })
}

fn same_names(one: &Schema, other: &Schema) -> bool {
    let names = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    names(one) == names(other)
}

/// The names of the columns whose types the user set.
fn given_names(options: &ReadOptions) -> Arc<HashSet<String>> {
    Arc::new(options.types.iter().flatten().map(|(name, _)| name.clone()).collect())
}

/// The schema with the types that the user set.
fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let Some(types) = &options.types else { return Ok(schema) };
    if schema.fields().is_empty() {
        // The schema of an empty file is compatible with any other.
        return Ok(schema);
    }
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in types {
        let data_type = type_named(data_type)?;
        parsing::check(&data_type).map_err(|error| error.at(format!("column `{name}`")))?;
        match fields.iter_mut().find(|field| field.name() == name) {
            Some(field) => *field = field.clone().with_data_type(data_type),
            None => return Err(unknown_column(name, &schema)),
        }
    }
    Ok(Schema::new(fields))
}

struct CsvWriter {
    schema: SchemaRef,
    dialect: Dialect,
}

impl Writer for CsvWriter {
    fn header(&self) -> Result<Vec<arrow::buffer::Buffer>> {
        let mut bytes = vec![];
        if self.dialect.header {
            let names = self.schema.fields().iter().map(|field| field.name().as_str());
            write_record(names, &self.dialect, &mut bytes)?;
        }
        Ok(vec![bytes.into()])
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let dialect = self.dialect.clone();
        let append = move |batch: &RecordBatch, bytes: &mut Vec<u8>| append(batch, &dialect, bytes);
        Ok(Box::new(TextEncoder { append, bytes: vec![] }))
    }
}
