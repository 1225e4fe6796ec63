//! Reads and writes text lines: one column `line` of bytes with a row for each line, for sorting
//! and counting.
//!
//! A line ends with `\n`, which is not part of it; a `\r` before it is. The last line need not have
//! an end.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::{Buf, Bytes};
use euphrates_flow::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Error, Result, new_batch};
use memchr::{memchr, memchr_iter};

use crate::format::{Format, FormatInfo, OpenedFile, Writer};
use crate::options::{ReadOptions, WriteOptions};
use crate::stream;
use crate::stream::{BatchStream, ByteInput, SplitBatches};
use crate::text::encoder::TextWriter;
use crate::text::limits::RecordLimit;
use crate::text::source::TextFile;
use crate::text::splits::{SplitParts, Text};
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

/// Text lines, as the registry lists them.
pub struct Lines;

impl Format for Lines {
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "lines",
            extensions: &["txt", "log"],
            options: &["encoding"],
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
        let text = TextFile::open(file, &blob, &Lines, options, None)?;
        Ok(text.opened(schema(), None, |file, split, schema, limits| {
            let (schema, limit) = (schema.clone(), RecordLimit::of_file(limits));
            Ok(match file.text() {
                Some(text) => {
                    split_batches(text.clone(), text.range(split, limit.is_short())?, schema, limit)
                }
                None => batches(file.input()?, schema, limit),
            })
        }))
    }

    fn read_stream(
        &self,
        input: ByteInput,
        columns: Option<SchemaRef>,
        _: &ReadOptions,
    ) -> Result<BatchStream> {
        let schema = stream::check_columns(schema(), columns)?;
        let batches = batches(input, schema.clone(), RecordLimit::of_pipe());
        Ok(BatchStream { schema, batches })
    }

    fn writer(&self, schema: &SchemaRef, _: &WriteOptions) -> Result<Arc<dyn Writer>> {
        use DataType::{Binary, LargeBinary, LargeUtf8, Utf8};
        match schema.fields().as_ref() {
            [field] if matches!(field.data_type(), Binary | Utf8 | LargeBinary | LargeUtf8) => {
                Ok(Arc::new(TextWriter(append_lines)))
            }
            _ => Err(Error::usage("lines are written of one column of strings or bytes")
                .remedy("select one column, or save as csv")),
        }
    }
}

/// Splits an input into batches of lines.
fn batches(input: ByteInput, schema: SchemaRef, limit: RecordLimit) -> SplitBatches {
    let parts = Box::new(stream::parts(input));
    let line_of = Box::new(|before: u64| format!("line {}", before + 1));
    Box::new(LineBatches { schema, parts, part: Bytes::new(), lines: 0, line_of, limit })
}

/// Splits the text of a split into batches of lines.
fn split_batches(
    text: Arc<Text>,
    mut range: SplitParts,
    schema: SchemaRef,
    limit: RecordLimit,
) -> SplitBatches {
    let offset = range.offset;
    let parts = Box::new(std::iter::from_fn(move || range.next_part().transpose()));
    let line_of = Box::new(move |before: u64| match text.line(offset) {
        Ok(first) => format!("line {}", first + before),
        Err(_) => format!("line {} behind byte {offset}", before + 1),
    });
    Box::new(LineBatches { schema, parts, part: Bytes::new(), lines: 0, line_of, limit })
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("line", DataType::Binary, false)]))
}

/// Cuts parts of a text into batches of lines.
struct LineBatches {
    schema: SchemaRef,
    parts: Box<dyn Iterator<Item = Result<Bytes>> + Send>,
    part: Bytes,
    /// Lines in earlier batches.
    lines: u64,
    /// Names a line in errors, by the number of lines before it.
    line_of: Box<dyn Fn(u64) -> String + Send>,
    limit: RecordLimit,
}

impl Iterator for LineBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.next_batch();
        match &batch {
            Ok(batch) => self.lines += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64),
            Err(_) => {
                self.parts = Box::new(std::iter::empty());
                self.part.clear();
            }
        }
        batch.transpose()
    }
}

impl LineBatches {
    /// The next batch of lines; a line may span parts.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut values, mut offsets) = (vec![], vec![0]);
        let mut turn = None;
        loop {
            if self.part.is_empty() {
                match self.parts.next().transpose()? {
                    Some(part) => self.part = part,
                    None => break,
                }
            }
            if self.take_lines(&mut values, &mut offsets) {
                return self.batch(values, offsets).map(Some);
            }
            self.limit.hold(values.len(), &mut turn);
            if self.limit.is_passed(open_bytes(&values, &offsets)) {
                let before = self.lines + offsets.len() as u64 - 1;
                return Err(self.limit.error().at((self.line_of)(before)));
            }
        }
        if open_bytes(&values, &offsets) > 0 {
            offsets.push(values.len() as i32);
        }
        (offsets.len() > 1).then(|| self.batch(values, offsets)).transpose()
    }

    /// Moves lines from the part to the batch and returns whether the batch is full. If it is not,
    /// the rest of the part has been moved too.
    fn take_lines(&mut self, values: &mut Vec<u8>, offsets: &mut Vec<i32>) -> bool {
        values.reserve(self.part.len().min(BATCH_BYTES_TARGET));
        let mut begin = 0;
        for end in memchr_iter(b'\n', &self.part) {
            values.extend_from_slice(&self.part[begin..end]);
            offsets.push(values.len() as i32);
            begin = end + 1;
            if values.len() >= BATCH_BYTES_TARGET || offsets.len() > BATCH_ROWS_MAX {
                self.part.advance(begin);
                return true;
            }
        }
        values.extend_from_slice(&self.part[begin..]);
        self.part.clear();
        false
    }

    fn batch(&self, values: Vec<u8>, offsets: Vec<i32>) -> Result<RecordBatch> {
        // A line is shorter than a gigabyte (`limits`), and a batch ends with the line that fills
        // it, so offsets fit 32 bits.
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let rows = offsets.len() - 1;
        let column: ArrayRef = Arc::new(BinaryArray::new(offsets, Buffer::from_vec(values), None));
        let columns = if self.schema.fields().is_empty() { vec![] } else { vec![column] };
        Ok(new_batch(self.schema.clone(), columns, rows)?)
    }
}

/// Bytes of the unfinished line.
fn open_bytes(values: &[u8], offsets: &[i32]) -> usize {
    values.len() - offsets.last().map_or(0, |last| *last as usize)
}

/// Appends the lines of a batch of one column.
fn append_lines(batch: &RecordBatch, bytes: &mut Vec<u8>) -> Result<()> {
    let column = batch.column(0);
    match column.data_type() {
        DataType::Binary => append(column.as_binary::<i32>().iter(), bytes),
        DataType::LargeBinary => append(column.as_binary::<i64>().iter(), bytes),
        DataType::Utf8 => append(texts(column.as_string::<i32>()), bytes),
        _ => append(texts(column.as_string::<i64>()), bytes),
    }
}

fn texts<O: OffsetSizeTrait>(
    strings: &GenericStringArray<O>,
) -> impl Iterator<Item = Option<&[u8]>> {
    strings.iter().map(|line| line.map(str::as_bytes))
}

fn append<'a>(lines: impl Iterator<Item = Option<&'a [u8]>>, bytes: &mut Vec<u8>) -> Result<()> {
    for line in lines {
        let wrong = |what| {
            Err(Error::failed(format!("{what} cannot be written as a line"))
                .remedy("filter it out, or save as csv"))
        };
        let Some(line) = line else { return wrong("a null") };
        if memchr(b'\n', line).is_some() {
            return wrong("a line end in a value");
        }
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    Ok(())
}
