//! Opens the column chunks of a row group as pages for the decoder of the `parquet` crate.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_device::blob::Blob;
use euphrates_flow::Result;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::column_reader::ColumnReader;
use super::memory_budget::Allowance;
use super::thrift::PageHeader;

/// A row group of an open file.
#[derive(Clone)]
pub struct RowGroup {
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) index: usize,
    pub(super) blob: Arc<Blob>,
    /// The Arrow columns of the whole file, in the types to decode to.
    pub(super) file: SchemaRef,
    pub(super) allowance: Arc<Allowance>,
    /// Window size per column in bytes.
    pub(super) window_bytes: u64,
    /// The rows that are read.
    rows: Range<usize>,
}

impl RowGroup {
    /// The row group with this index.
    pub fn new(
        metadata: Arc<ParquetMetaData>,
        file: SchemaRef,
        index: usize,
        blob: Arc<Blob>,
        allowance: Arc<Allowance>,
    ) -> RowGroup {
        let rows = 0..metadata.row_group(index).num_rows().max(0) as usize;
        RowGroup { metadata, index, blob, file, allowance, window_bytes: 0, rows }
    }

    /// The same row group, of which only these rows are read.
    pub fn of_rows(self, rows: Range<usize>) -> RowGroup {
        RowGroup { rows, ..self }
    }

    /// The rows that are read.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Whether rows follow those that are read.
    pub fn has_rows_behind(&self) -> bool {
        (self.rows.end as i64) < self.group().num_rows()
    }

    /// Whether all rows are read.
    pub fn is_whole(&self) -> bool {
        self.rows.start == 0 && !self.has_rows_behind()
    }

    /// The row group's metadata in the footer.
    pub fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }

    /// The pages of a leaf column, counted against an allowance.
    pub fn pages(
        &self,
        leaf: usize,
        allowance: &Arc<Allowance>,
    ) -> Result<SerializedPageReader<ColumnReader>, ParquetError> {
        let metadata = self.group().column(leaf);
        let (blob, window) = (self.blob.clone(), self.window_bytes);
        let column = Arc::new(ColumnReader::new(blob, metadata, window, allowance.clone()));
        SerializedPageReader::new(column, metadata, self.group().num_rows() as usize, None)
    }

    /// The header of the page at an offset of a leaf column; reads little.
    pub fn header(&self, leaf: usize, offset: u64) -> Result<PageHeader> {
        ColumnReader::header_alone(&self.blob, self.group().column(leaf), offset)
    }

    /// The most bytes that pages, or one row, may take in memory.
    pub fn bytes_max(&self) -> u64 {
        self.allowance.bytes_max()
    }
}

impl RowGroups for RowGroup {
    fn num_rows(&self) -> usize {
        self.group().num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let pages = self.pages(leaf, &self.allowance);
        Ok(Box::new(OneChunk(Some(pages.map(|pages| Box::new(pages) as Box<dyn PageReader>)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// Yields the pages of one column chunk, once.
struct OneChunk(Option<Result<Box<dyn PageReader>, ParquetError>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for OneChunk {}
