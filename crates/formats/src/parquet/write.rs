//! Encodes row groups independently, and writes the footer that lists them.

use std::fmt;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_flow::{Error, Result};
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::Compression as Codec;
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescriptor, SchemaDescPtr};

use self::record_shredding::LeafPath;
use super::column_encoder::ColumnChunk;
use super::errors::failed;
use super::footer::MAGIC;
use super::page_codec::{PageCodec, codec_of};
use super::stored_types::{stored_column, stored_schema};
use super::thrift::{DICTIONARY_PAGE, PageHeader, with_crc};
use super::values::PhysicalLayout;
use crate::format::{ChunkMetadata, EncodedChunk, Encoder, Writer};
use crate::options::WriteOptions;

pub mod levels;
pub mod record_shredding;

/// Readers number row groups with 16 bits.
const ROW_GROUPS_MAX: usize = i16::MAX as usize;

/// Writes files of one schema.
#[derive(Clone)]
pub struct ParquetWriter {
    /// The schema in the types that Parquet stores.
    schema: SchemaRef,
    descr: SchemaDescPtr,
    properties: Arc<WriterProperties>,
    codec: Codec,
}

impl ParquetWriter {
    /// A usage error if Parquet lacks one of the types or the codec.
    pub fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<ParquetWriter> {
        let codec = codec_of(options.compression)?;
        let unfit = |error| {
            Error::usage(format!("Parquet cannot hold this: {error}"))
                .remedy("cast the column, or leave it out")
        };
        let schema = Arc::new(stored_schema(schema)?);
        let descr = ArrowSchemaConverter::new().convert(&schema).map_err(unfit)?;
        let mut properties = WriterProperties::builder()
            .set_compression(codec)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("euphrates ", env!("CARGO_PKG_VERSION")).into())
            .build();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let writer = ParquetWriter {
            schema,
            descr: Arc::new(descr),
            properties: Arc::new(properties),
            codec,
        };
        writer.columns().map_err(|error| unfit(ParquetError::General(error.message().into())))?;
        Ok(writer)
    }

    /// Empty columns of a row group, one per leaf of the schema.
    fn columns(&self) -> Result<Vec<ColumnWriter>> {
        let fields = self.schema.fields();
        let mut leaf = 0;
        let mut own = vec![];
        for field in fields {
            let paths = LeafPath::all(field);
            let descrs = (leaf..leaf + paths.len()).map(|leaf| self.descr.column(leaf));
            leaf += paths.len();
            own.push(
                paths
                    .into_iter()
                    .zip(descrs)
                    .map(|(path, descr)| {
                        let layout = own_layout(&path, &descr)?;
                        Some(ColumnChunk::new(descr, path, layout, self.codec))
                    })
                    .collect::<Option<Vec<ColumnChunk>>>(),
            );
        }
        let others: Vec<usize> = (0..fields.len()).filter(|root| own[*root].is_none()).collect();
        let mut others = self.others(&others)?.into_iter();
        let mut columns = vec![];
        for (field, chunks) in fields.iter().zip(own) {
            match chunks {
                Some(chunks) => columns
                    .extend(chunks.into_iter().map(|chunk| ColumnWriter::Own(Box::new(chunk)))),
                None => columns.extend(others.by_ref().take(LeafPath::all(field).len())),
            }
        }
        match columns.len() == self.descr.num_columns() {
            true => Ok(columns),
            false => Err(Error::failed("a leaf has no writer")),
        }
    }

    /// The crate's writers for the leaves of these fields. A writer takes 74 kB before its first
    /// value, so columns that are encoded here have none.
    fn others(&self, fields: &[usize]) -> Result<Vec<ColumnWriter>> {
        if fields.is_empty() {
            return Ok(vec![]);
        }
        let schema = Arc::new(self.schema.project(fields)?);
        let descr = ArrowSchemaConverter::new().convert(&schema).map_err(failed)?;
        let (root, properties) = (descr.root_schema_ptr(), self.properties.clone());
        let nowhere = SerializedFileWriter::new(std::io::sink(), root, properties);
        let captured = Arc::new(Captured::default());
        let factory = ArrowRowGroupWriterFactory::new(&nowhere.map_err(failed)?, schema)
            .with_page_store_factory(captured.clone());
        let writers = factory.create_column_writers(0).map_err(failed)?;
        let pages = captured.0.lock().clone();
        let column = |(writer, pages)| ColumnWriter::Other { writer: Box::new(writer), pages };
        Ok(writers.into_iter().zip(pages).map(column).collect())
    }
}

/// The layout of a leaf to encode here; `None` if the crate encodes it, with all leaves of its field.
fn own_layout(path: &LeafPath, descr: &ColumnDescriptor) -> Option<PhysicalLayout> {
    let (definition, repetition) = path.levels_max();
    let is_as_stored = definition == descr.max_def_level() as usize
        && repetition == descr.max_rep_level() as usize;
    // Levels are computed in bytes.
    let is_shallow = definition < u8::MAX as usize;
    (is_as_stored && is_shallow).then(|| PhysicalLayout::of(&path.kind, descr.physical_type()))?
}

impl Writer for ParquetWriter {
    fn header(&self) -> Result<Vec<Buffer>> {
        Ok(vec![Buffer::from(MAGIC)])
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let codec = PageCodec::new(self.codec)?;
        Ok(Box::new(RowGroupEncoder { writer: self.clone(), codec, columns: vec![], rows: 0 }))
    }

    fn footer(&self, chunks: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        let groups = chunks.into_iter().filter_map(|(offset, note)| {
            let group = note.downcast::<Option<EncodedGroup>>().expect("a note of this encoder");
            group.map(|group| (offset, group))
        });
        let groups: Vec<RowGroupMetaData> = groups
            .enumerate()
            .map(|(ordinal, (offset, group))| group.placed(&self.descr, ordinal, offset))
            .collect::<Result<_>>()?;
        if groups.len() > ROW_GROUPS_MAX {
            let message = format!("{} row groups are more than Parquet can number", groups.len());
            return Err(Error::failed(message).remedy("give a larger row_group_bytes"));
        }
        let file = FileMetaData::new(
            1,
            groups.iter().map(RowGroupMetaData::num_rows).sum(),
            Some(self.properties.created_by().to_string()),
            self.properties.key_value_metadata().cloned(),
            self.descr.clone(),
            None,
        );
        let mut bytes = vec![];
        let metadata = ParquetMetaData::new(file, groups);
        ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().map_err(failed)?;
        Ok(vec![Buffer::from_vec(bytes)])
    }
}

/// An encoded row group; offsets count from its first byte.
struct EncodedGroup {
    columns: Vec<ColumnChunkMetaData>,
    rows: usize,
}

impl EncodedGroup {
    /// Its metadata for the footer of a file in which it begins at `offset`.
    fn placed(
        self,
        descr: &SchemaDescPtr,
        ordinal: usize,
        offset: u64,
    ) -> Result<RowGroupMetaData> {
        let offset = offset as i64;
        let columns = self.columns.into_iter().map(|column| {
            let (data, dictionary) = (column.data_page_offset(), column.dictionary_page_offset());
            let column = column.into_builder().set_data_page_offset(data + offset);
            column.set_dictionary_page_offset(dictionary.map(|page| page + offset)).build()
        });
        let columns: Vec<ColumnChunkMetaData> =
            columns.collect::<Result<_, _>>().map_err(failed)?;
        let group = RowGroupMetaData::builder(descr.clone())
            .set_total_byte_size(columns.iter().map(ColumnChunkMetaData::uncompressed_size).sum())
            .set_column_metadata(columns)
            .set_num_rows(self.rows as i64)
            .set_ordinal(ordinal as i16)
            .set_file_offset(offset)
            .build();
        group.map_err(failed)
    }
}

struct RowGroupEncoder {
    writer: ParquetWriter,
    codec: PageCodec,
    /// One per leaf; empty before the first row.
    columns: Vec<ColumnWriter>,
    rows: usize,
}

/// A leaf column that is being encoded.
enum ColumnWriter {
    /// A column encoded here.
    Own(Box<ColumnChunk>),
    /// A column encoded by the crate, with the pages it has produced.
    Other { writer: Box<ArrowColumnWriter>, pages: Pages },
}

impl RowGroupEncoder {
    fn sum(&self, bytes: fn(&ColumnChunk) -> usize) -> usize {
        let each = self.columns.iter().map(|column| match column {
            ColumnWriter::Own(column) => bytes(column),
            ColumnWriter::Other { writer, .. } => writer.get_estimated_total_bytes(),
        });
        each.sum()
    }
}

impl Encoder for RowGroupEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = self.writer.columns()?;
        }
        self.rows += batch.num_rows();
        let mut leaf = 0;
        let fields = self.writer.schema.fields().iter().zip(batch.columns());
        for (root, (field, array)) in fields.enumerate() {
            let array = &stored_column(array, field)?;
            let mut others = None;
            while leaf < self.columns.len() && self.writer.descr.get_column_root_idx(leaf) == root {
                match &mut self.columns[leaf] {
                    ColumnWriter::Own(column) => column.push(array, &mut self.codec)?,
                    ColumnWriter::Other { writer, .. } => {
                        let others = match &mut others {
                            Some(others) => others,
                            None => others
                                .insert(compute_leaves(field, array).map_err(failed)?.into_iter()),
                        };
                        let levels =
                            others.next().ok_or_else(|| Error::failed("a leaf has no levels"))?;
                        writer.write(&levels).map_err(failed)?;
                    }
                }
                leaf += 1;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.sum(ColumnChunk::bytes)
    }

    fn held_bytes(&self) -> usize {
        self.sum(ColumnChunk::held_bytes)
    }

    fn finish(&mut self) -> Result<EncodedChunk> {
        if self.rows == 0 {
            return Ok(EncodedChunk { parts: vec![], note: Box::new(None::<EncodedGroup>) });
        }
        let columns = std::mem::take(&mut self.columns);
        let rows = std::mem::take(&mut self.rows);
        let (mut parts, mut encoded, mut offset) = (vec![], vec![], 0);
        for column in columns {
            let metadata = match column {
                ColumnWriter::Own(column) => column.finish(offset, &mut parts, &mut self.codec)?,
                ColumnWriter::Other { writer, pages } => {
                    let closed = writer.close().map_err(failed)?;
                    checksummed(closed.close().metadata.clone(), &pages, offset, &mut parts)?
                }
            };
            offset += metadata.compressed_size();
            encoded.push(metadata);
        }
        let note = Some(EncodedGroup { columns: encoded, rows });
        Ok(EncodedChunk { parts, note: Box::new(note) })
    }
}

/// Moves pages to `parts`, each with a checksum, the dictionary page first; `offset` is where the
/// first will begin.
fn checksummed(
    metadata: ColumnChunkMetaData,
    pages: &Pages,
    offset: i64,
    parts: &mut Vec<Buffer>,
) -> Result<ColumnChunkMetaData> {
    let broken = || Error::failed("the page writer changed: header and data are not in turn");
    let pages = std::mem::take(&mut *pages.lock());
    let (mut dictionary, mut data) = (vec![], vec![]);
    let (mut dictionary_bytes, mut data_bytes, mut grown) = (0, 0, 0);
    for pair in pages.chunks_exact(2) {
        let [header, page] = pair else { return Err(broken()) };
        let parsed = PageHeader::parse(header).filter(|parsed| parsed.bytes as usize == page.len());
        let parsed = parsed.ok_or_else(broken)?;
        let signed = with_crc(header, crc32fast::hash(page)).ok_or_else(broken)?;
        grown += (signed.len() - header.len()) as i64;
        let bytes = (signed.len() + page.len()) as i64;
        let is_dictionary = parsed.kind == DICTIONARY_PAGE;
        let (target, total) = match is_dictionary {
            true => (&mut dictionary, &mut dictionary_bytes),
            false => (&mut data, &mut data_bytes),
        };
        *total += bytes;
        target.extend([Buffer::from_vec(signed), Buffer::from(page.clone())]);
    }
    let has_dictionary = dictionary_bytes > 0;
    parts.append(&mut dictionary);
    parts.append(&mut data);
    let unpacked = metadata.uncompressed_size() + grown;
    let metadata = metadata
        .into_builder()
        .set_total_compressed_size(dictionary_bytes + data_bytes)
        .set_total_uncompressed_size(unpacked)
        .set_dictionary_page_offset(has_dictionary.then_some(offset))
        .set_data_page_offset(offset + dictionary_bytes);
    metadata.build().map_err(failed)
}

/// Header and data of each page in turn, in the order in which the crate produces them.
type Pages = Arc<Mutex<Vec<Bytes>>>;

/// Collects the pages of one row group by column.
#[derive(Default)]
struct Captured(Mutex<Vec<Pages>>);

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Captured")
    }
}

impl PageStoreFactory for Captured {
    fn create(&self, _: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>, ParquetError> {
        let pages = Pages::default();
        self.0.lock().push(pages.clone());
        Ok(Box::new(PageCapture(pages)))
    }
}

struct PageCapture(Pages);

impl PageStore for PageCapture {
    fn put(&mut self, value: Bytes) -> Result<PageKey, ParquetError> {
        let mut pages = self.0.lock();
        pages.push(value);
        Ok(PageKey::new(pages.len() as u64 - 1))
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes, ParquetError> {
        let pages = self.0.lock();
        let page = pages.get(key.get() as usize).cloned();
        page.ok_or_else(|| ParquetError::General("no such page".into()))
    }
}
