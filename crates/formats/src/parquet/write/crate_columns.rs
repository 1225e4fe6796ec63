//! Columns of rare types, which the `parquet` crate encodes; their pages get checksums here.

use std::fmt;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use euphrates_flow::{Error, Result};
use parking_lot::Mutex;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowLeafColumn, ArrowRowGroupWriterFactory,
};
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::super::errors::failed;
use super::super::thrift::{DICTIONARY_PAGE, PageHeader, with_crc};
use super::file_footer::EncodedColumn;
use super::page_index::PageIndex;

/// A column that is encoded by the crate, with the pages it has produced.
pub struct CrateColumn {
    writer: Box<ArrowColumnWriter>,
    pages: Pages,
}

impl CrateColumn {
    /// Empty columns for all leaves of a schema. A writer takes 74 kB before its first value, so
    /// columns that are encoded here should have none.
    pub fn all(schema: SchemaRef, properties: Arc<WriterProperties>) -> Result<Vec<CrateColumn>> {
        if schema.fields().is_empty() {
            return Ok(vec![]);
        }
        let descr = ArrowSchemaConverter::new().convert(&schema).map_err(failed)?;
        let nowhere =
            SerializedFileWriter::new(std::io::sink(), descr.root_schema_ptr(), properties);
        let captured = Arc::new(Captured::default());
        let factory = ArrowRowGroupWriterFactory::new(&nowhere.map_err(failed)?, schema)
            .with_page_store_factory(captured.clone());
        let writers = factory.create_column_writers(0).map_err(failed)?;
        let pages = captured.0.lock().clone();
        let column = |(writer, pages)| CrateColumn { writer: Box::new(writer), pages };
        Ok(writers.into_iter().zip(pages).map(column).collect())
    }

    /// Approximate bytes so far.
    pub fn bytes(&self) -> usize {
        self.writer.get_estimated_total_bytes()
    }

    /// Appends the values of a batch.
    pub fn push(&mut self, leaf: &ArrowLeafColumn) -> Result<()> {
        self.writer.write(leaf).map_err(failed)
    }

    /// Moves the pages to `parts`, each with a checksum, the dictionary page first; `offset` is
    /// where the first will begin in the row group.
    pub fn finish(self, offset: i64, parts: &mut Vec<Buffer>) -> Result<EncodedColumn> {
        let closed = self.writer.close().map_err(failed)?;
        let closed = closed.close();
        let SignedPages { dictionary, data, grown } = SignedPages::of(&self.pages)?;
        let bytes =
            |pages: &[[Buffer; 2]]| pages.iter().flatten().map(|part| part.len() as i64).sum();
        let (dictionary_bytes, data_bytes): (i64, i64) = (bytes(&dictionary), bytes(&data));
        let rows = closed.offset_index.iter().flat_map(|index| index.page_locations());
        let rows: Vec<i64> = rows.map(|page| page.first_row_index).collect();
        if rows.len() != data.len() {
            return Err(Error::failed("the page writer changed: it does not list all pages"));
        }
        let places = data.iter().zip(rows);
        let pages = PageIndex::of_places(
            places.map(|([header, page], row)| ((header.len() + page.len()) as i64, row)),
        );
        parts.extend(dictionary.into_iter().chain(data).flatten());
        let metadata = closed.metadata.clone();
        let unpacked = metadata.uncompressed_size() + grown;
        let metadata = metadata
            .into_builder()
            .set_total_compressed_size(dictionary_bytes + data_bytes)
            .set_total_uncompressed_size(unpacked)
            .set_dictionary_page_offset((dictionary_bytes > 0).then_some(offset))
            .set_data_page_offset(offset + dictionary_bytes);
        Ok(EncodedColumn { metadata: metadata.build().map_err(failed)?, pages })
    }
}

/// Pages as headers with checksums, and data.
#[derive(Default)]
struct SignedPages {
    dictionary: Vec<[Buffer; 2]>,
    data: Vec<[Buffer; 2]>,
    /// By how many bytes the headers have grown.
    grown: i64,
}

impl SignedPages {
    fn of(pages: &Pages) -> Result<SignedPages> {
        let broken = || Error::failed("the page writer changed: header and data are not in turn");
        let pages = std::mem::take(&mut *pages.lock());
        let mut signed = SignedPages::default();
        for pair in pages.chunks(2) {
            let [header, page] = pair else { return Err(broken()) };
            let parsed = PageHeader::parse(header);
            let parsed = parsed.filter(|parsed| parsed.bytes as usize == page.len());
            let parsed = parsed.ok_or_else(broken)?;
            let with_crc = with_crc(header, crc32fast::hash(page)).ok_or_else(broken)?;
            signed.grown += (with_crc.len() - header.len()) as i64;
            let target = match parsed.kind == DICTIONARY_PAGE {
                true => &mut signed.dictionary,
                false => &mut signed.data,
            };
            target.push([Buffer::from_vec(with_crc), Buffer::from(page.clone())]);
        }
        Ok(signed)
    }
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
