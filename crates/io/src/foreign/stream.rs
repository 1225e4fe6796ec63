//! Formats over pipes: what can be read or written only once, from front to back.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Write};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_flow::depth::check_schema;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result};

use super::limits::RECORD_BYTES_MAX;
use super::{
    Batches, Encoder, Note, ReadOptions, WriteOptions, Writer, format_named, packed, source,
    usual_delimiter,
};
use crate::pipe::Stopped;

/// What a stream is read from.
pub type Input = Box<dyn BufRead + Send>;

/// What is read at once.
pub(super) const READ_BYTES: usize = 1 << 20;

/// Batches that come one after the other, once.
pub struct Stream {
    /// Their columns.
    pub schema: SchemaRef,
    /// The batches.
    pub batches: Batches,
}

impl Stream {
    /// Reads a format by name. With `columns`, nothing is read before the first batch is asked
    /// for, or little; without, the format may have to see a sample first (256 KiB, or all).
    pub fn open(
        format: &str,
        input: impl Read + Send + 'static,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<Stream> {
        let usual = usual_delimiter(format);
        let format = format_named(format)?;
        options.check(format)?;
        let options = &ReadOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
        let input = Box::new(BufReader::with_capacity(READ_BYTES, input));
        let input = if format.is_plain() { source::plain(input, format, options)? } else { input };
        let stream = format.read_stream(input, columns, options)?;
        check_schema(&stream.schema)?;
        Ok(stream)
    }
}

/// Writes batches one after the other; what has been written has gone out.
pub struct Sink<W> {
    out: W,
    writer: std::sync::Arc<dyn Writer>,
    encoder: Box<dyn Encoder>,
    /// What was noted about each chunk, and where it begins.
    chunks: Vec<(u64, Note)>,
    offset: u64,
}

impl<W: Write> Sink<W> {
    /// Writes a format by name; its beginning at once.
    pub fn open(
        format: &str,
        out: W,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Sink<W>> {
        let usual = usual_delimiter(format);
        let format = format_named(format)?;
        options.check(format)?;
        let options = WriteOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
        let writer = packed(format, format.stream_writer(schema, &options)?, options.packing());
        let encoder = writer.encoder()?;
        let header = writer.header()?;
        let mut sink = Sink { out, writer, encoder, chunks: vec![], offset: 0 };
        sink.send(&header)?;
        Ok(sink)
    }

    /// Writes a batch. Fails with `Closed` if nobody reads any more.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.encoder.push(batch)?;
        let chunk = self.encoder.finish()?;
        self.chunks.push((self.offset, chunk.note));
        self.send(&chunk.parts)
    }

    /// Writes the end. Fails with `Closed` if nobody reads any more.
    pub fn finish(mut self) -> Result<()> {
        let footer = self.writer.footer(std::mem::take(&mut self.chunks))?;
        self.send(&footer)
    }

    fn send(&mut self, parts: &[arrow::buffer::Buffer]) -> Result<()> {
        for part in parts {
            self.offset += part.len() as u64;
            self.out.write_all(part).map_err(|error| failed("write", &error))?;
        }
        self.out.flush().map_err(|error| failed("write", &error))
    }
}

/// An error of ours on its way through a reader.
pub(super) fn carried(error: Error) -> io::Error {
    io::Error::other(error)
}

/// Whether the cause of a reader's error says what is wrong.
pub(super) fn is_known(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    cause.is::<Stopped>() || cause.is::<Error>()
}

pub(super) fn failed(doing: &str, error: &io::Error) -> Error {
    if let Some(cause) = error.get_ref() {
        if cause.is::<Stopped>() {
            return Error::interrupted();
        }
        if let Some(own) = cause.downcast_ref::<Error>() {
            return own.clone();
        }
    }
    match error.kind() {
        ErrorKind::BrokenPipe => Error::closed(),
        _ => Error::os(doing, "the stream", error),
    }
}

/// As many bytes as there are, at most `count`.
pub(super) fn up_to(input: &mut Input, count: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    let read = input.take(count).read_to_end(&mut bytes);
    read.map_err(|error| failed("read", &error))?;
    Ok(bytes)
}

/// More of the beginning, up to the end of the first line.
pub(super) fn line(input: &mut Input, head: &mut Vec<u8>) -> Result<()> {
    if head.contains(&b'\n') {
        return Ok(());
    }
    let read = input.take(RECORD_BYTES_MAX as u64).read_until(b'\n', head);
    read.map(drop).map_err(|error| failed("read", &error))
}

/// The input with its beginning put back.
pub(super) fn behind(head: Vec<u8>, input: Input) -> Input {
    Box::new(Cursor::new(head).chain(input))
}

/// An error for an input that ends before it has begun.
pub(super) fn nothing() -> Error {
    Error::usage("there is nothing in the input to tell the columns from")
        .remedy("see why nothing was written, or name the `columns`")
}

/// The input in parts of about a batch each, until it ends or fails.
pub(super) fn parts(mut input: Input) -> impl Iterator<Item = Result<Bytes>> + Send {
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let part = up_to(&mut input, BATCH_BYTES_TARGET as u64);
        failed = part.is_err();
        let part = part.map(|bytes| Some(Bytes::from(bytes)).filter(|bytes| !bytes.is_empty()));
        part.transpose()
    })
}

/// The columns of a format that knows them; an error if others are wanted.
pub(super) fn fixed(own: SchemaRef, columns: Option<SchemaRef>) -> Result<SchemaRef> {
    let Some(columns) = columns else { return Ok(own) };
    let names = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    if names(&own) == names(&columns) { Ok(own) } else { Err(differ(&columns, &own)) }
}

/// An error for an input that has other columns than it was said to have.
pub(super) fn differ(wanted: &Schema, found: &Schema) -> Error {
    let names = |schema: &Schema| {
        let names =
            schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
        names.collect::<Vec<_>>().join(", ")
    };
    Error::corrupt(format!(
        "the input has other columns than it was said to have: {}",
        names(found)
    ))
    .remedy(format!("expected: {}", names(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};
    use std::sync::Arc;

    fn batch(format: &str, rows: std::ops::Range<i64>) -> RecordBatch {
        let texts = rows.clone().map(|row| format!("row {row}, \"quoted\""));
        match format {
            "lines" => {
                let lines: Vec<Vec<u8>> = texts.map(String::into_bytes).collect();
                let lines: BinaryArray = lines.iter().map(|line| Some(line.as_slice())).collect();
                let field = arrow::datatypes::Field::new("line", lines_type(), false);
                let schema = Arc::new(Schema::new(vec![field]));
                RecordBatch::try_new(schema, vec![Arc::new(lines)]).unwrap()
            }
            "records" => {
                let bytes: Vec<u8> = rows.flat_map(|row| [row as u8; 100]).collect();
                let input = Cursor::new(bytes);
                let stream = Stream::open(format, input, None, &ReadOptions::default()).unwrap();
                joined(stream)
            }
            _ => {
                let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
                let columns = [("n", numbers, true), ("text", texts, true)];
                RecordBatch::try_from_iter_with_nullable(columns).unwrap()
            }
        }
    }

    fn lines_type() -> arrow::datatypes::DataType {
        arrow::datatypes::DataType::Binary
    }

    fn joined(stream: Stream) -> RecordBatch {
        let batches: Vec<_> = stream.batches.collect::<Result<_>>().unwrap();
        arrow::compute::concat_batches(&stream.schema, &batches).unwrap()
    }

    fn written(format: &str, batches: &[RecordBatch]) -> Vec<u8> {
        let mut bytes = vec![];
        let options = WriteOptions::default();
        let mut sink = Sink::open(format, &mut bytes, &batches[0].schema(), &options).unwrap();
        batches.iter().for_each(|batch| sink.write(batch).unwrap());
        sink.finish().unwrap();
        bytes
    }

    const FORMATS: [&str; 5] = ["arrow_ipc", "csv", "json_lines", "records", "lines"];

    /// Gives a few bytes at a time, as a pipe may.
    struct Dribble(Cursor<Vec<u8>>);

    impl Read for Dribble {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let few = into.len().min(7);
            self.0.read(&mut into[..few])
        }
    }

    #[test]
    fn what_is_written_is_read_again_however_it_dribbles() {
        for format in FORMATS {
            let parts = [batch(format, 0..100), batch(format, 100..101)];
            let all = arrow::compute::concat_batches(&parts[0].schema(), &parts).unwrap();
            let bytes = written(format, &parts);
            for columns in [None, Some(all.schema())] {
                let input = Dribble(Cursor::new(bytes.clone()));
                let stream = Stream::open(format, input, columns, &ReadOptions::default());
                assert_eq!(joined(stream.unwrap()), all, "{format}");
            }
        }
    }

    #[test]
    fn damaged_or_cut_input_is_an_error_at_worst() {
        for format in FORMATS {
            let bytes = written(format, &[batch(format, 0..20)]);
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                for bytes in [flipped, bytes[..at].to_vec()] {
                    let options = ReadOptions::default();
                    if let Ok(stream) = Stream::open(format, Cursor::new(bytes), None, &options) {
                        stream.batches.for_each(drop);
                    }
                }
            }
        }
    }

    #[test]
    fn other_columns_than_said_are_an_error() {
        let bytes = written("csv", &[batch("csv", 0..3)]);
        let columns = batch("csv", 0..1).project(&[1, 0]).unwrap().schema();
        let stream =
            Stream::open("csv", Cursor::new(bytes), Some(columns), &ReadOptions::default());
        let error = stream.err().unwrap().to_string();
        assert!(error.contains("other columns than it was said to have"), "{error}");
    }
}
