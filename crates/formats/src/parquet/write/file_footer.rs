//! Writes the end of a file: the page indexes of all column chunks, then the footer that lists the
//! row groups.

use euphrates_flow::{Error, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
    RowGroupMetaDataBuilder, SortingColumn,
};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescPtr;

use super::super::errors::failed;
use super::super::footer::MAGIC;
use super::page_index::PageIndex;

/// Readers number row groups with 16 bits.
const ROW_GROUPS_MAX: usize = i16::MAX as usize;

/// An encoded row group; offsets count from its first byte.
pub struct EncodedGroup {
    /// The column chunks in the order of the file.
    pub columns: Vec<EncodedColumn>,
    /// Number of rows.
    pub rows: usize,
}

/// An encoded column chunk; offsets count from the first byte of its row group.
pub struct EncodedColumn {
    /// The metadata for the footer.
    pub metadata: ColumnChunkMetaData,
    /// The places of its pages, and the bounds of their values.
    pub pages: PageIndex,
}

/// Where the indexes of a column chunk are: offset in the file and length.
#[derive(Clone, Copy, Default)]
struct IndexPlaces {
    column_index: Option<(i64, i32)>,
    offset_index: Option<(i64, i32)>,
}

/// The bytes after the last row group, given the row groups with their offsets in the file, and the
/// order of the rows in each. Fails if they are too many.
pub fn file_footer(
    groups: Vec<(u64, EncodedGroup)>,
    descr: &SchemaDescPtr,
    properties: &WriterProperties,
    sorting: &Option<Vec<SortingColumn>>,
) -> Result<Vec<u8>> {
    if groups.len() > ROW_GROUPS_MAX {
        let message = format!("{} row groups are more than Parquet can number", groups.len());
        return Err(Error::failed(message).remedy("give a larger row_group_bytes"));
    }
    let mut bytes = vec![];
    let places = put_indexes(&groups, &mut bytes);
    let mut places = places.into_iter();
    let groups: Vec<RowGroupMetaData> = groups
        .into_iter()
        .enumerate()
        .map(|(ordinal, (offset, group))| {
            let group = group.placed(descr, ordinal, offset, &mut places)?;
            group.set_sorting_columns(sorting.clone()).build().map_err(failed)
        })
        .collect::<Result<_>>()?;
    let file = FileMetaData::new(
        1,
        groups.iter().map(RowGroupMetaData::num_rows).sum(),
        Some(properties.created_by().to_string()),
        properties.key_value_metadata().cloned(),
        descr.clone(),
        None,
    );
    let metadata = ParquetMetaData::new(file, groups);
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().map_err(failed)?;
    Ok(bytes)
}

/// Appends the column indexes of all chunks, then their offset indexes, as readers fetch all of a
/// kind together; returns the places in the order of the chunks.
fn put_indexes(groups: &[(u64, EncodedGroup)], bytes: &mut Vec<u8>) -> Vec<IndexPlaces> {
    let ends = groups.iter().map(|(offset, group)| *offset as i64 + group.bytes());
    let begin = ends.max().unwrap_or(MAGIC.len() as i64);
    let chunks = || {
        let groups = groups.iter();
        groups.flat_map(|(offset, group)| group.columns.iter().map(move |column| (offset, column)))
    };
    let place = |from: usize, to: usize| (begin + from as i64, (to - from) as i32);
    let mut places = vec![IndexPlaces::default(); chunks().count()];
    for (places, (_, column)) in places.iter_mut().zip(chunks()) {
        let Some(index) = &column.pages.column_index else { continue };
        let from = bytes.len();
        bytes.extend_from_slice(index);
        places.column_index = Some(place(from, bytes.len()));
    }
    for (places, (offset, column)) in places.iter_mut().zip(chunks()) {
        let from = bytes.len();
        let first_page = *offset as i64 + column.metadata.data_page_offset();
        column.pages.put_offset_index(first_page, bytes);
        places.offset_index = Some(place(from, bytes.len()));
    }
    places
}

impl EncodedGroup {
    fn bytes(&self) -> i64 {
        self.columns.iter().map(|column| column.metadata.compressed_size()).sum()
    }

    /// Its metadata for the footer of a file in which it begins at `offset`; takes the places of
    /// its columns' indexes from `places`.
    fn placed(
        self,
        descr: &SchemaDescPtr,
        ordinal: usize,
        offset: u64,
        places: &mut impl Iterator<Item = IndexPlaces>,
    ) -> Result<RowGroupMetaDataBuilder> {
        let offset = offset as i64;
        let columns = self.columns.into_iter().zip(places);
        let columns: Vec<ColumnChunkMetaData> = columns
            .map(|(column, places)| placed(column.metadata, offset, places))
            .collect::<Result<_>>()?;
        Ok(RowGroupMetaData::builder(descr.clone())
            .set_total_byte_size(columns.iter().map(ColumnChunkMetaData::uncompressed_size).sum())
            .set_column_metadata(columns)
            .set_num_rows(self.rows as i64)
            .set_ordinal(ordinal as i16)
            .set_file_offset(offset))
    }
}

/// The metadata of a column chunk whose row group begins at `offset`.
fn placed(
    column: ColumnChunkMetaData,
    offset: i64,
    places: IndexPlaces,
) -> Result<ColumnChunkMetaData> {
    let (data, dictionary) = (column.data_page_offset(), column.dictionary_page_offset());
    let (column_index, offset_index) = (places.column_index.unzip(), places.offset_index.unzip());
    let placed = column
        .into_builder()
        .set_data_page_offset(data + offset)
        .set_dictionary_page_offset(dictionary.map(|page| page + offset))
        .set_column_index_offset(column_index.0)
        .set_column_index_length(column_index.1)
        .set_offset_index_offset(offset_index.0)
        .set_offset_index_length(offset_index.1);
    placed.build().map_err(failed)
}
