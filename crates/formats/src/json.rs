//! Reads and writes JSON: one object a line (JSON lines), an array of objects, or objects over
//! several lines. An absent field is a null.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use arrow::json::writer::{LineDelimited, NullableEncoder};
use arrow::json::{EncoderFactory, EncoderOptions, WriterBuilder};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, Row, batch_rows};
use memchr::memchr;

use crate::format::{Format, FormatInfo, OpenedFile, Writer, some_column};
use crate::json::decoder::JsonRows;
use crate::json::inference::{
    InferredSchema, RecordKind, VALUE_COLUMN, infer, is_one_record, sample_end,
};
use crate::json::raw_text::RawTextRows;
use crate::json::record_lines::{has_record_lines, readable_lines, sample_end_of_lines};
use crate::json::value_boundaries::{DocumentLayout, Scanner, Unwrapped, is_array};
use crate::options::type_named;
use crate::options::{ReadOptions, WriteOptions};
use crate::schema_unification;
use crate::schema_unification::concrete;
use crate::stream;
use crate::stream::{BatchStream, ByteInput, SplitBatches};
use crate::text::encoder::TextWriter;
use crate::text::limits::RecordLimit;
use crate::text::rows::Rows;
use crate::text::salvage::Tolerance;
use crate::text::source;
use crate::text::source::TextFile;
use crate::text::splits::{SAMPLE_BYTES, line_bytes};
use crate::values::digits::write_decimal;
use crate::values::parsing;
use crate::values::printing::{PrintFormat, printed};
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

mod decoder;
mod escapes;
mod inference;
mod raw_text;
mod record_lines;
mod value_boundaries;

/// JSON in all its layouts, as the registry lists it.
pub struct Json;

/// Rows of a batch where there is no sample to estimate row lengths.
const STREAM_ROWS: usize = 8192;

impl Format for Json {
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "json_lines",
            extensions: &["jsonl", "ndjson", "json"],
            options: &["types", "encoding", "on_error"],
            compresses_whole: true,
            infers_types: true,
            records_omit_columns: true,
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
        let text = TextFile::open(file, &blob, &Json, options, None)?;
        let is_tolerant = options.on_error.is_some();
        let end = |head: &[u8], all| match is_tolerant {
            true => sample_end_of_lines(head, all),
            false => sample_end(head, all),
        };
        let (head, all) = text.head(&blob, end)?;
        let found = match is_tolerant && has_record_lines(&head) {
            true => infer(&readable_lines(&head), all)?,
            false => infer(&head, all)?,
        };
        let rows = batch_rows(record_bytes(&head, found.layout));
        let schema = Arc::new(with_types(found.schema.clone(), options)?);
        let text = if found.layout == DocumentLayout::Lines { text } else { text.whole() };
        let (is_chosen, given) = (options.columns.is_some(), given_names(options));
        let (own, bare) = (schema.clone(), found.bare().map(Arc::new));
        Ok(text.opened(schema, bare, move |text, split, schema, limits| {
            if text.text().is_none() || found.bare().is_some() {
                let found = InferredSchema { schema: own.as_ref().clone(), ..found.clone() };
                if split > 0 {
                    // A text without fields is one split: the first split reads all, the others
                    // nothing.
                    return Ok(Box::new(std::iter::empty()));
                }
                let (input, limit) = (text.input()?, RecordLimit::of_file(limits));
                let how = (input, limit, text.tolerance());
                return batches_of(&found, schema, (is_chosen, given.clone()), rows, how);
            }
            let format = JsonRows::of_file(schema.clone(), &own, is_chosen);
            let format = format.with_given_types(given.clone());
            text.rows(split, format, schema, rows, limits)
        }))
    }

    fn unify(&self, one: &Schema, other: &Schema, _: Option<bool>) -> Result<Schema> {
        schema_unification::union(one, other)
    }

    fn read_stream(
        &self,
        mut input: ByteInput,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<BatchStream> {
        let mut given = given_names(options);
        if let Some(columns) = &columns {
            given = Arc::new(columns.fields().iter().map(|field| field.name().clone()).collect());
        }
        let (found, schema, head) = match columns {
            Some(columns) => {
                let mut head = vec![];
                stream::line(&mut input, &mut head)?;
                let layout = if is_one_record(&head) {
                    DocumentLayout::Lines
                } else {
                    DocumentLayout::Documents
                };
                let schema = columns.as_ref().clone();
                let records = RecordKind::Objects;
                (InferredSchema { schema, layout, records, is_some: true }, columns, head)
            }
            None => {
                let end = |head: &[u8]| sample_end(head, false);
                let (head, end, all) = source::sample(&mut input, end)?;
                let found = infer(&head[..end], all)?;
                let schema = match found.bare() {
                    Some(bare) if options.types.is_none() => bare,
                    _ => with_types(found.schema.clone(), options)?,
                };
                if schema.fields().is_empty() {
                    return Err(stream::nothing());
                }
                (found, Arc::new(concrete(&schema)), head)
            }
        };
        // A head that is shorter than a sample may hold less than a record.
        let rows = match head.len() >= SAMPLE_BYTES as usize {
            true => batch_rows(record_bytes(&head, found.layout)),
            false => STREAM_ROWS,
        };
        let input = stream::prepend(head, input);
        let limit = RecordLimit::of_pipe();
        let batches = batches_of(&found, &schema, (false, given), rows, (input, limit, None))?;
        Ok(BatchStream { schema, batches })
    }

    fn writer(&self, schema: &SchemaRef, _: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        for field in schema.fields() {
            if let Some(what) = unwritable(field.data_type()) {
                let message =
                    format!("column `{}` has {what}, which JSON cannot hold", field.name());
                return Err(
                    Error::usage(message).remedy("save as parquet, or leave the column out")
                );
            }
        }
        // The encoder decides which other types it can write.
        append(&RecordBatch::new_empty(schema.clone()), &mut vec![]).map_err(|error| {
            Error::usage(error.message()).remedy("save as parquet, or leave the column out")
        })?;
        Ok(Arc::new(TextWriter(append)))
    }
}

/// What JSON cannot represent of this type. Arrow's encoder fails only at the first row.
fn unwritable(data_type: &DataType) -> Option<&'static str> {
    use DataType::*;
    match data_type {
        Union(..) => Some("unions"),
        Map(entries, _) => match entries.data_type() {
            Struct(pair) if may_be_key(pair[0].data_type()) => unwritable(pair[1].data_type()),
            _ => Some("maps with keys that are no text"),
        },
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            unwritable(field.data_type())
        }
        FixedSizeList(field, _) => unwritable(field.data_type()),
        RunEndEncoded(_, field) => unwritable(field.data_type()),
        Dictionary(_, values) => unwritable(values),
        Struct(fields) => fields.iter().find_map(|field| unwritable(field.data_type())),
        _ => None,
    }
}

/// Whether values are written as strings, so that they can be map keys.
fn may_be_key(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => may_be_key(values),
        RunEndEncoded(_, values) => may_be_key(values.data_type()),
        Null | Boolean | Interval(_) => false,
        other => !other.is_numeric() && !other.is_nested(),
    }
}

/// The names of the columns whose types the user set.
fn given_names(options: &ReadOptions) -> Arc<HashSet<String>> {
    Arc::new(options.types.iter().flatten().map(|(name, _)| name.clone()).collect())
}

/// The schema with the types that the user set, also for columns that no record of the sample has.
fn with_types(schema: Schema, options: &ReadOptions) -> Result<Schema> {
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (name, data_type) in options.types.iter().flatten() {
        let data_type = type_named(data_type)?;
        if !data_type.is_nested() {
            parsing::check(&data_type).map_err(|error| error.at(format!("column `{name}`")))?;
        }
        let given = Field::new(name, data_type, true);
        match fields.iter_mut().find(|field| field.name() == name) {
            Some(field) => *field = given,
            None => fields.push(given),
        }
    }
    Ok(Schema::new(fields))
}

/// Decodes an input of records into batches.
fn batches_of(
    found: &InferredSchema,
    schema: &SchemaRef,
    (is_chosen, given): (bool, Arc<HashSet<String>>),
    rows: usize,
    (input, limit, tolerance): (ByteInput, RecordLimit, Option<Tolerance>),
) -> Result<SplitBatches> {
    let input: ByteInput = Box::new(Unwrapped::new(input));
    let of = schema.clone();
    // Objects without fields make a table only as their raw text.
    let are_texts = found.records == RecordKind::Texts
        || (found.bare().is_some() && schema.field_with_name(VALUE_COLUMN).is_ok());
    if are_texts {
        let format = RawTextRows::new(of.clone());
        return Ok(Box::new(Rows::of_stream(format, input, 0, of, rows, limit)?));
    }
    let format = match found.records {
        RecordKind::Values => JsonRows::values(of.clone(), &found.schema),
        _ => JsonRows::of_file(of.clone(), &found.schema, is_chosen).in_layout(found.layout),
    };
    let format = format.with_given_types(given);
    let rows = Rows::of_stream(format, input, 0, of, rows, limit)?;
    Ok(Box::new(rows.tolerating(tolerance)))
}

/// Average bytes of a record in the sample.
fn record_bytes(sample: &[u8], layout: DocumentLayout) -> usize {
    if layout == DocumentLayout::Lines {
        return line_bytes(sample);
    }
    let begin = if is_array(sample) { memchr(b'[', sample).map_or(0, |at| at + 1) } else { 0 };
    Scanner::default().end(&sample[begin..]).unwrap_or(sample.len()).max(1)
}

/// Appends the rows of a batch, an object a line.
fn append(batch: &RecordBatch, bytes: &mut Vec<u8>) -> Result<()> {
    let batch = &printed(batch, PrintFormat::Json)?;
    for (is_wrong, said, remedy) in UNREPRESENTABLE {
        let is_within = |column: &ArrayRef| some_within(column, is_wrong);
        let Some(column) = batch.columns().iter().position(is_within) else { continue };
        let values = batch.column(column);
        let row = (0..values.len()).find(|row| is_within(&values.slice(*row, 1)));
        let row = row.unwrap_or(0);
        let error = Error::failed(said)
            .in_row(|| Row::of(batch, row, format!("row {row} of its batch")))
            .at(format!("column `{}`", batch.schema_ref().field(column).name()));
        return Err(error.remedy(remedy));
    }
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let builder = builder.with_encoder_factory(Arc::new(Decimals));
    let mut writer = builder.build::<_, LineDelimited>(bytes);
    writer.write(batch)?;
    Ok(writer.finish()?)
}

/// Encodes decimals as numbers with all their digits.
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
    let encoder = DecimalEncoder { values: array.as_primitive::<T>(), scale };
    NullableEncoder::new(Box::new(encoder), array.nulls().cloned())
}

struct DecimalEncoder<'a, T: DecimalType> {
    values: &'a PrimitiveArray<T>,
    scale: i8,
}

impl<T: DecimalType> arrow::json::Encoder for DecimalEncoder<'_, T>
where
    T::Native: std::fmt::Display,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        write_decimal(self.values.value(row), self.scale, out);
    }
}

type ArrayTest = fn(&ArrayRef) -> bool;

/// Values that JSON cannot represent: the test, the message and the remedy.
const UNREPRESENTABLE: [(ArrayTest, &str, &str); 2] = [
    (
        has_nan_or_infinity,
        "JSON has no NaN and no infinity",
        "filter them out, or save as csv or parquet",
    ),
    (
        repeats_key,
        "a map has a key twice, and an object of JSON cannot",
        "leave one of them out, or save as parquet",
    ),
];

/// Whether the test holds for a printed column or a column nested in it.
fn some_within(column: &ArrayRef, is_so: ArrayTest) -> bool {
    let within = |values: &ArrayRef, first: usize, end: usize| {
        some_within(&values.slice(first, end - first), is_so)
    };
    is_so(column)
        || match column.data_type() {
            DataType::List(_) => {
                let (list, rows) = (column.as_list::<i32>(), column.len());
                within(list.values(), list.offsets()[0] as usize, list.offsets()[rows] as usize)
            }
            DataType::LargeList(_) => {
                let (list, rows) = (column.as_list::<i64>(), column.len());
                within(list.values(), list.offsets()[0] as usize, list.offsets()[rows] as usize)
            }
            DataType::FixedSizeList(..) => some_within(column.as_fixed_size_list().values(), is_so),
            DataType::Map(..) => {
                let (map, rows) = (column.as_map(), column.len());
                within(map.values(), map.offsets()[0] as usize, map.offsets()[rows] as usize)
            }
            DataType::Struct(_) => {
                column.as_struct().columns().iter().any(|column| some_within(column, is_so))
            }
            _ => false,
        }
}

/// Whether a float is NaN or infinite.
fn has_nan_or_infinity(column: &ArrayRef) -> bool {
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
        _ => false,
    }
}

/// Whether a map has a key, as printed, more than once.
fn repeats_key(column: &ArrayRef) -> bool {
    let Some(map) = column.as_map_opt() else { return false };
    let keys: Vec<&str> = match map.keys().data_type() {
        DataType::LargeUtf8 => map.keys().as_string::<i64>().iter().flatten().collect(),
        DataType::Utf8View => map.keys().as_string_view().iter().flatten().collect(),
        DataType::Utf8 => map.keys().as_string::<i32>().iter().flatten().collect(),
        // `printed` leaves no other type.
        _ => return false,
    };
    let mut seen = HashSet::new();
    (0..map.len()).filter(|row| map.is_valid(*row)).any(|row| {
        let (first, end) = (map.offsets()[row] as usize, map.offsets()[row + 1] as usize);
        seen.clear();
        !keys[first..end].iter().all(|key| seen.insert(*key))
    })
}
