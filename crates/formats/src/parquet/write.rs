//! Encodes row groups independently, and writes the footer that lists them.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};
use parquet::arrow::arrow_writer::compute_leaves;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::Compression as Codec;
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnDescriptor, SchemaDescPtr};

use self::crate_columns::CrateColumn;
use self::file_footer::{EncodedGroup, file_footer};
use self::record_shredding::LeafPath;
use self::sorting::sorting_columns;
use super::column_encoder::ColumnChunk;
use super::dictionary::DictionaryTrials;
use super::errors::failed;
use super::footer::MAGIC;
use super::page_codec::{PageCodec, codec_of};
use super::stored_types::{stored_column, stored_schema};
use super::values::PhysicalLayout;
use crate::format::{ChunkMetadata, EncodedChunk, Encoder, Writer};
use crate::options::WriteOptions;

mod crate_columns;
pub mod file_footer;
pub mod levels;
pub mod page_index;
pub mod record_shredding;
mod sorting;

/// Writes files of one schema.
#[derive(Clone)]
pub struct ParquetWriter {
    /// The schema in the types that Parquet stores.
    schema: SchemaRef,
    descr: SchemaDescPtr,
    properties: Arc<WriterProperties>,
    codec: Codec,
    /// The order of the rows in each row group, if it is known.
    sorting: Option<Vec<SortingColumn>>,
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
            .set_created_by(concat!("euphrates ", env!("CARGO_PKG_VERSION")).into())
            .build();
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let sorting = sorting_columns(&options.sorted_by, &schema, &descr);
        let writer = ParquetWriter {
            schema,
            descr: Arc::new(descr),
            properties: Arc::new(properties),
            codec,
            sorting,
        };
        writer
            .columns(&writer.trials())
            .map_err(|error| unfit(ParquetError::General(error.message().into())))?;
        Ok(writer)
    }

    /// Trials of each leaf before its first chunk.
    fn trials(&self) -> Vec<DictionaryTrials> {
        vec![DictionaryTrials::default(); self.descr.num_columns()]
    }

    /// Empty columns of a row group, one per leaf of the schema, with the trials of each.
    fn columns(&self, trials: &[DictionaryTrials]) -> Result<Vec<ColumnWriter>> {
        let fields = self.schema.fields();
        let mut leaf = 0;
        let mut own = vec![];
        for field in fields {
            let paths = LeafPath::all(field);
            let leaves = leaf..leaf + paths.len();
            leaf += paths.len();
            own.push(
                paths
                    .into_iter()
                    .zip(leaves)
                    .map(|(path, leaf)| {
                        let descr = self.descr.column(leaf);
                        let layout = own_layout(&path, &descr)?;
                        let tries = trials[leaf].tries();
                        Some(ColumnChunk::new(descr, path, layout, self.codec, tries))
                    })
                    .collect::<Option<Vec<ColumnChunk>>>(),
            );
        }
        let others: Vec<usize> = (0..fields.len()).filter(|root| own[*root].is_none()).collect();
        let others = Arc::new(self.schema.project(&others)?);
        let others = CrateColumn::all(others, self.properties.clone())?;
        let mut others = others.into_iter().map(ColumnWriter::Other);
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
}

/// The layout of a leaf to encode here; `None` if the crate encodes it, and with it all leaves of
/// the field.
fn own_layout(path: &LeafPath, descr: &ColumnDescriptor) -> Option<PhysicalLayout> {
    let (definition, repetition) = path.levels_max();
    let is_as_stored = definition == descr.max_def_level() as usize
        && repetition == descr.max_rep_level() as usize;
    // Levels are computed in bytes.
    let is_shallow = definition < u8::MAX as usize;
    (is_as_stored && is_shallow)
        .then(|| PhysicalLayout::of(&path.kind, descr.physical_type(), descr.type_length()))?
}

impl Writer for ParquetWriter {
    fn header(&self) -> Result<Vec<Buffer>> {
        Ok(vec![Buffer::from(MAGIC)])
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let codec = PageCodec::new(self.codec)?;
        let (writer, trials) = (self.clone(), self.trials());
        Ok(Box::new(RowGroupEncoder { writer, codec, columns: vec![], trials, rows: 0 }))
    }

    fn footer(&self, chunks: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        let groups = chunks.into_iter().filter_map(|(offset, note)| {
            let group = note.downcast::<Option<EncodedGroup>>().expect("a note of this encoder");
            group.map(|group| (offset, group))
        });
        let bytes = file_footer(groups.collect(), &self.descr, &self.properties, &self.sorting)?;
        Ok(vec![Buffer::from_vec(bytes)])
    }
}

struct RowGroupEncoder {
    writer: ParquetWriter,
    codec: PageCodec,
    /// One per leaf; empty before the first row.
    columns: Vec<ColumnWriter>,
    /// One per leaf.
    trials: Vec<DictionaryTrials>,
    rows: usize,
}

/// A leaf column that is being encoded.
enum ColumnWriter {
    /// A column encoded here.
    Own(Box<ColumnChunk>),
    /// A column encoded by the crate.
    Other(CrateColumn),
}

impl RowGroupEncoder {
    fn sum(&self, bytes: fn(&ColumnChunk) -> usize) -> usize {
        let each = self.columns.iter().map(|column| match column {
            ColumnWriter::Own(column) => bytes(column),
            ColumnWriter::Other(column) => column.bytes(),
        });
        each.sum()
    }
}

impl Encoder for RowGroupEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = self.writer.columns(&self.trials)?;
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
                    ColumnWriter::Other(column) => {
                        let others = match &mut others {
                            Some(others) => others,
                            None => others
                                .insert(compute_leaves(field, array).map_err(failed)?.into_iter()),
                        };
                        let levels =
                            others.next().ok_or_else(|| Error::failed("a leaf has no levels"))?;
                        column.push(&levels)?;
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
        for (column, trials) in columns.into_iter().zip(&mut self.trials) {
            let column = match column {
                ColumnWriter::Own(column) => {
                    column.finish(offset, &mut parts, &mut self.codec, trials)?
                }
                ColumnWriter::Other(column) => column.finish(offset, &mut parts)?,
            };
            offset += column.metadata.compressed_size();
            encoded.push(column);
        }
        let note = Some(EncodedGroup { columns: encoded, rows });
        Ok(EncodedChunk { parts, note: Box::new(note) })
    }
}
