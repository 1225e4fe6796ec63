//! Writes Arrow IPC files, with dictionary columns decoded: chunks are encoded independently and so
//! share no dictionary, while a file holds one per column.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::IpcSchemaEncoder;
use arrow::ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow::ipc::{Block, CompressionType, FooterBuilder, MetadataVersion};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, new_batch};

use super::framing::{END_OF_STREAM, HEAD, MAGIC};
use crate::format::{ChunkMetadata, EncodedChunk, Encoder, Writer};
use crate::options::{Compression, WriteOptions};
use euphrates_flow::nested::cut_nested;

/// Writes files of one schema.
pub struct IpcWriter {
    /// The schema with dictionary types replaced by their value types.
    schema: SchemaRef,
    options: IpcWriteOptions,
}

impl IpcWriter {
    /// A usage error if Arrow IPC lacks the compression or one of the types.
    pub fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<IpcWriter> {
        let compression = match options.compression.unwrap_or(Compression::None) {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Snappy | Compression::Gzip | Compression::Brotli | Compression::Bzip2 => {
                let error = Error::usage("Arrow IPC is compressed with lz4 or zstd, or not at all");
                return Err(error.remedy("use lz4 or zstd"));
            }
        };
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
        let writer = IpcWriter { schema: Arc::new(Schema::new(fields)), options };
        writer.stream().map_err(|error| {
            Error::usage(error.message()).remedy("cast the column, or leave it out")
        })?;
        Ok(writer)
    }

    fn stream(&self) -> Result<StreamEncoder> {
        Ok(StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?)
    }
}

/// Length of the metadata and of the body of one batch in a chunk, in bytes.
type BatchLengths = (usize, usize);

impl Writer for IpcWriter {
    fn header(&self) -> Result<Vec<Buffer>> {
        // A stream without batches is the schema and the end marker, which is written later.
        let mut parts = vec![Buffer::from(HEAD)];
        parts.extend(self.stream()?.finish()?);
        parts.pop();
        Ok(parts)
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let mut stream = self.stream()?;
        // The encoder emits the schema with the first batch; the file's header has it already.
        stream.encode(&RecordBatch::new_empty(self.schema.clone()))?;
        let schema = self.schema.clone();
        Ok(Box::new(IpcEncoder { schema, stream, parts: vec![], bytes: 0, batches: vec![] }))
    }

    fn footer(&self, chunks: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        let mut blocks = vec![];
        for (mut offset, note) in chunks {
            let batches = note.downcast::<Vec<BatchLengths>>().expect("a note of this encoder");
            for (metadata, body) in *batches {
                blocks.push(Block::new(offset as i64, metadata as i32, body as i64));
                offset += (metadata + body) as u64;
            }
        }
        let mut builder = IpcSchemaEncoder::new().schema_to_fb(&self.schema);
        builder.reset();
        let batches = builder.create_vector(&blocks);
        let dictionaries = builder.create_vector::<Block>(&[]);
        let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, &self.schema);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(batches);
        let root = footer.finish();
        builder.finish(root, None);
        let footer = builder.finished_data();
        let mut bytes = END_OF_STREAM.to_vec();
        bytes.extend_from_slice(footer);
        bytes.extend_from_slice(&(footer.len() as i32).to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        Ok(vec![Buffer::from_vec(bytes)])
    }
}

struct IpcEncoder {
    schema: SchemaRef,
    stream: StreamEncoder,
    parts: Vec<Buffer>,
    bytes: usize,
    batches: Vec<BatchLengths>,
}

impl Encoder for IpcEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| plain(column, field.data_type()));
        let batch =
            new_batch(self.schema.clone(), columns.collect::<Result<_>>()?, batch.num_rows())?;
        let parts = self.stream.encode(&batch)?;
        let bytes: usize = parts.iter().map(Buffer::len).sum();
        // The first part holds the continuation marker and the length of the metadata after it.
        let metadata = u32::from_le_bytes(parts[0][4..8].try_into().expect("four bytes"));
        let metadata = metadata as usize + 8;
        self.batches.push((metadata, bytes - metadata));
        self.bytes += bytes;
        self.parts.extend(parts);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(&mut self) -> Result<EncodedChunk> {
        self.bytes = 0;
        let note = Box::new(std::mem::take(&mut self.batches));
        Ok(EncodedChunk { parts: std::mem::take(&mut self.parts), note })
    }
}

/// The field, with dictionary types replaced by their value types at every depth.
fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(plain_type(field.data_type())))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => plain_type(values),
        List(field) => List(plain_field(field)),
        LargeList(field) => LargeList(plain_field(field)),
        ListView(field) => ListView(plain_field(field)),
        LargeListView(field) => LargeListView(plain_field(field)),
        FixedSizeList(field, size) => FixedSizeList(plain_field(field), *size),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect()),
        Map(field, sorted) => Map(plain_field(field), *sorted),
        other => other.clone(),
    }
}

fn plain(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match column.data_type() == data_type {
        true => Ok(cut_nested(column)),
        false => Ok(cast(column, data_type)?),
    }
}
