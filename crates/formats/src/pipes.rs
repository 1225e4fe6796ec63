//! Reads and writes formats over pipes: once, from front to back.

use std::io::{BufReader, Read, Write};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_flow::depth::check_schema;

use crate::format::{ChunkMetadata, Encoder, Writer};
use crate::options::{ReadOptions, WriteOptions, default_delimiter};
use crate::registry::{format_named, packed};
use crate::stream::{BatchStream, READ_BYTES, failed};
use crate::text::source;

impl BatchStream {
    /// Reads a format by name. With `columns`, little or nothing is read before the first batch is
    /// requested; without them, the format may first read a sample (256 KiB, or all).
    ///
    /// ```
    /// use euphrates_formats::{BatchStream, ReadOptions};
    ///
    /// let text: &[u8] = b"name,people\nAssur,30000\nMari,25000\n";
    /// let towns = BatchStream::open("csv", text, None, &ReadOptions::default())?;
    /// assert_eq!(towns.schema.field(1).name(), "people");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn open(
        format: &str,
        input: impl Read + Send + 'static,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<BatchStream> {
        let usual = default_delimiter(format);
        let format = format_named(format)?;
        options.check(format)?;
        let options = &ReadOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
        let input = Box::new(BufReader::with_capacity(READ_BYTES, input));
        let input = if format.about().compresses_whole {
            source::plain(input, format, options)?
        } else {
            input
        };
        let stream = format.read_stream(input, columns, options)?;
        check_schema(&stream.schema)?;
        Ok(stream)
    }
}

/// Writes batches to a pipe; each is flushed before `write` returns.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_formats::{PipeWriter, WriteOptions};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let mut out = vec![];
/// let mut writer = PipeWriter::open("csv", &mut out, &batch.schema(), &WriteOptions::default())?;
/// writer.write(&batch)?;
/// writer.finish()?;
/// assert_eq!(out, b"n\n7\n8\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PipeWriter<W> {
    out: W,
    writer: Arc<dyn Writer>,
    encoder: Box<dyn Encoder>,
    /// Offset and note of each chunk.
    chunks: Vec<(u64, ChunkMetadata)>,
    offset: u64,
}

impl<W: Write> PipeWriter<W> {
    /// Creates a writer by format name, and writes the header at once.
    pub fn open(
        format: &str,
        out: W,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<PipeWriter<W>> {
        let usual = default_delimiter(format);
        let format = format_named(format)?;
        options.check(format)?;
        let options = WriteOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
        let writer = packed(format, format.stream_writer(schema, &options)?, options.packing());
        let encoder = writer.encoder()?;
        let header = writer.header()?;
        let mut sink = PipeWriter { out, writer, encoder, chunks: vec![], offset: 0 };
        sink.send(&header)?;
        Ok(sink)
    }

    /// Writes a batch. Fails with `Closed` if the reading end is closed.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.encoder.push(batch)?;
        let chunk = self.encoder.finish()?;
        self.chunks.push((self.offset, chunk.note));
        self.send(&chunk.parts)
    }

    /// Writes the footer. Fails with `Closed` if the reading end is closed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};
    use arrow::datatypes::Schema;

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
                let stream =
                    BatchStream::open(format, input, None, &ReadOptions::default()).unwrap();
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

    fn joined(stream: BatchStream) -> RecordBatch {
        let batches: Vec<_> = stream.batches.collect::<Result<_>>().unwrap();
        arrow::compute::concat_batches(&stream.schema, &batches).unwrap()
    }

    fn written(format: &str, batches: &[RecordBatch]) -> Vec<u8> {
        let mut bytes = vec![];
        let options = WriteOptions::default();
        let mut sink =
            PipeWriter::open(format, &mut bytes, &batches[0].schema(), &options).unwrap();
        batches.iter().for_each(|batch| sink.write(batch).unwrap());
        sink.finish().unwrap();
        bytes
    }

    const FORMATS: [&str; 5] = ["arrow_ipc", "csv", "json_lines", "records", "lines"];

    /// Returns a few bytes per read, as a pipe may.
    struct Dribble(Cursor<Vec<u8>>);

    impl Read for Dribble {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let few = into.len().min(7);
            self.0.read(&mut into[..few])
        }
    }

    #[test]
    fn written_batches_are_read_again_in_short_reads() {
        for format in FORMATS {
            let parts = [batch(format, 0..100), batch(format, 100..101)];
            let all = arrow::compute::concat_batches(&parts[0].schema(), &parts).unwrap();
            let bytes = written(format, &parts);
            for columns in [None, Some(all.schema())] {
                let input = Dribble(Cursor::new(bytes.clone()));
                let stream = BatchStream::open(format, input, columns, &ReadOptions::default());
                assert_eq!(joined(stream.unwrap()), all, "{format}");
            }
        }
    }

    #[test]
    fn damaged_or_truncated_input_is_at_worst_an_error() {
        for format in FORMATS {
            let bytes = written(format, &[batch(format, 0..20)]);
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                for bytes in [flipped, bytes[..at].to_vec()] {
                    let options = ReadOptions::default();
                    if let Ok(stream) =
                        BatchStream::open(format, Cursor::new(bytes), None, &options)
                    {
                        stream.batches.for_each(drop);
                    }
                }
            }
        }
    }

    #[test]
    fn unexpected_columns_are_an_error() {
        let bytes = written("csv", &[batch("csv", 0..3)]);
        let columns = batch("csv", 0..1).project(&[1, 0]).unwrap().schema();
        let stream =
            BatchStream::open("csv", Cursor::new(bytes), Some(columns), &ReadOptions::default());
        let error = stream.err().unwrap().to_string();
        assert!(error.contains("other columns than it was said to have"), "{error}");
    }
}
