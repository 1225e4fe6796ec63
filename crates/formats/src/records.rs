//! Reads and writes fixed-size records of the sort benchmarks (gensort, valsort): 100 bytes each, a
//! key of 10 and a payload of 90, without separators.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_flow::{Error, Result, batch_rows, new_batch};

use crate::format::{EncodedChunk, Encoder, Format, FormatInfo, OpenFile, OpenedFile, Writer};
use crate::options::{ReadOptions, WriteOptions};
use crate::stream;
use crate::stream::{BatchStream, ByteInput, SplitBatches};
use crate::text::limits::ReadLimits;
use crate::text::source::TextFile;
use euphrates_device::blob::Blob;
use euphrates_device::buffer::pool;
use euphrates_device::location::FileRef;

pub mod gensort;
pub mod valsort;

/// Bytes of a key, of its payload, and of both.
const KEY_BYTES: usize = 10;
const PAYLOAD_BYTES: usize = 90;
const RECORD_BYTES: usize = KEY_BYTES + PAYLOAD_BYTES;

/// Bytes of a split, a multiple of the record size.
const SPLIT_BYTES: u64 = (16 << 20) / RECORD_BYTES as u64 * RECORD_BYTES as u64;

/// Benchmark records, as the registry lists them.
pub struct RecordsFormat;

impl Format for RecordsFormat {
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "records",
            extensions: &["records", "dat", "gensort"],
            options: &[],
            compresses_whole: true,
            infers_types: false,
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
        let text = TextFile::open(file, &blob, &RecordsFormat, options, None)?;
        if text.text().is_none() {
            // A compressed file is one split.
            return Ok(text.opened(schema(), None, |text, _, schema, _| {
                Ok(batches(text.input()?, schema.clone()))
            }));
        }
        if !blob.bytes().is_multiple_of(RECORD_BYTES as u64) {
            let message = format!("{} bytes are no whole number of 100-byte records", blob.bytes());
            return Err(Error::corrupt(message).remedy("it is cut short, or of another format"));
        }
        let (file, bytes) = (file.clone(), blob.bytes());
        Ok(Arc::new(OpenFile {
            schema: schema(),
            bare: None,
            splits: (0..bytes.div_ceil(SPLIT_BYTES)).map(|split| split * SPLIT_BYTES).collect(),
            bytes: Some(bytes),
            read: move |split: usize, schema: &SchemaRef, _: &ReadLimits| {
                split_batches(file.open()?, split, bytes, schema.clone())
            },
        }))
    }

    fn read_stream(
        &self,
        input: ByteInput,
        columns: Option<SchemaRef>,
        _: &ReadOptions,
    ) -> Result<BatchStream> {
        let schema = stream::check_columns(schema(), columns)?;
        let batches = batches(input, schema.clone());
        Ok(BatchStream { schema, batches })
    }

    fn writer(&self, schema: &SchemaRef, _: &WriteOptions) -> Result<Arc<dyn Writer>> {
        let width = |field: &Arc<Field>| match field.data_type() {
            DataType::FixedSizeBinary(width) => Some(*width as usize),
            _ => None,
        };
        let widths: Option<Vec<usize>> = schema.fields().iter().map(width).collect();
        match widths {
            Some(widths) if widths.iter().sum::<usize>() == RECORD_BYTES => {
                Ok(Arc::new(RecordsWriter { widths }))
            }
            _ => Err(Error::usage("records are written of fixed-size binary columns of 100 bytes")
                .remedy("like key: FixedSizeBinary(10), payload: FixedSizeBinary(90)")),
        }
    }
}

/// Splits an input into batches of records; fails if it ends within a record.
fn batches(mut input: ByteInput, schema: SchemaRef) -> SplitBatches {
    let step = batch_rows(RECORD_BYTES) * RECORD_BYTES;
    Box::new(stream::until_error(move || {
        let bytes = stream::up_to(&mut input, step as u64)?;
        if !bytes.len().is_multiple_of(RECORD_BYTES) {
            return Err(Error::corrupt("the input ends within a record of 100 bytes"));
        }
        (!bytes.is_empty()).then(|| batch_of(&bytes, &schema)).transpose()
    }))
}

fn schema() -> SchemaRef {
    let bytes = |bytes: usize| DataType::FixedSizeBinary(bytes as i32);
    Arc::new(Schema::new(vec![
        Field::new("key", bytes(KEY_BYTES), false),
        Field::new("payload", bytes(PAYLOAD_BYTES), false),
    ]))
}

/// The batches of a split of a file of `bytes` bytes.
fn split_batches(blob: Blob, split: usize, bytes: u64, schema: SchemaRef) -> Result<SplitBatches> {
    let begin = split as u64 * SPLIT_BYTES;
    let end = (begin + SPLIT_BYTES).min(bytes);
    let step = (batch_rows(RECORD_BYTES) * RECORD_BYTES) as u64;
    // A remote split is one request, as each costs a round trip; a local one is one read per
    // batch.
    let all = if blob.is_remote() { Some(read(&blob, begin, end)?) } else { None };
    Ok(Box::new((begin..end).step_by(step as usize).map(move |from| {
        let to = (from + step).min(end);
        let bytes = match &all {
            Some(all) => all.slice((from - begin) as usize..(to - begin) as usize),
            None => read(&blob, from, to)?,
        };
        batch_of(&bytes, &schema)
    })))
}

fn read(blob: &Blob, begin: u64, end: u64) -> Result<Bytes> {
    blob.read_at(begin, (end - begin) as usize)
}

fn batch_of(bytes: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = bytes.len() / RECORD_BYTES;
    let columns = schema.fields().iter().map(|field| -> Result<ArrayRef> {
        let (at, width) = match field.name().as_str() {
            "key" => (0, KEY_BYTES),
            _ => (KEY_BYTES, PAYLOAD_BYTES),
        };
        let mut values = pool().take(rows * width)?;
        let records = bytes.chunks_exact(RECORD_BYTES);
        for (value, record) in values.chunks_exact_mut(width).zip(records) {
            value.copy_from_slice(&record[at..at + width]);
        }
        let values = values.into_arrow();
        Ok(Arc::new(FixedSizeBinaryArray::try_new(width as i32, values, None)?))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(new_batch(schema.clone(), columns, rows)?)
}

struct RecordsWriter {
    widths: Vec<usize>,
}

impl Writer for RecordsWriter {
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(RecordsEncoder { widths: self.widths.clone(), parts: vec![], bytes: 0 }))
    }
}

struct RecordsEncoder {
    widths: Vec<usize>,
    parts: Vec<Buffer>,
    bytes: usize,
}

impl RecordsEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut part = pool().take(batch.num_rows() * RECORD_BYTES)?;
        let mut at = 0;
        for (column, &width) in batch.columns().iter().zip(&self.widths) {
            let values = column.as_fixed_size_binary().value_data().chunks_exact(width.max(1));
            for (record, value) in part.chunks_exact_mut(RECORD_BYTES).zip(values) {
                record[at..at + width].copy_from_slice(value);
            }
            at += width;
        }
        self.bytes += part.len();
        self.parts.push(part.into_arrow());
        Ok(())
    }
}

impl Encoder for RecordsEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(column) = batch.columns().iter().position(|column| column.null_count() > 0) {
            let name = batch.schema_ref().field(column).name().clone();
            let error = Error::failed(format!("`{name}` has nulls, which records cannot hold"));
            return Err(error.remedy("filter them out"));
        }
        let step = batch_rows(RECORD_BYTES);
        let mut starts = (0..batch.num_rows()).step_by(step);
        starts.try_for_each(|at| self.encode(&batch.slice(at, step.min(batch.num_rows() - at))))
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(&mut self) -> Result<EncodedChunk> {
        self.bytes = 0;
        Ok(EncodedChunk { parts: std::mem::take(&mut self.parts), note: Box::new(()) })
    }
}
