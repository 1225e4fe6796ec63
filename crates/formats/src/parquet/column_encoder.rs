//! Encodes the column chunks of common flat types: dictionary or plain pages, statistics and
//! checksums.
//!
//! The crate examines every value several times, through objects where values are bytes; encoding
//! took longer than sorting. Here a value is looked up once in a dictionary that fits a cache, and
//! where a dictionary does not pay, the Arrow buffer itself is written.

use arrow::array::{ArrayRef, NullBufferBuilder};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use euphrates_flow::{BATCH_BYTES_TARGET, Result};
use parquet::basic::{Compression, Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::schema::types::ColumnDescPtr;

use super::dictionary::{Dictionary, GLIMPSE_VALUES, SAMPLE_VALUES, pays, will_likely_not_pay};
use super::errors::failed;
use super::page_codec::PageCodec;
use super::plain::{plain, shorter_runs};
use super::rle_bit_packing::{bit_width, encode, levels};
use super::statistics::ValueRange;
use super::thrift::PageHeader;
use super::values::{ColumnPiece, PhysicalLayout};

/// Bytes of values, in plain encoding, at which a page is complete.
const PAGE_BYTES: usize = BATCH_BYTES_TARGET;

/// Row limit of a page: a reader must start at the first of its rows.
const PAGE_ROWS_MAX: usize = 64 << 10;

/// A column chunk under construction.
pub struct ColumnChunk {
    descr: ColumnDescPtr,
    layout: PhysicalLayout,
    compression: Compression,
    coding: Coding,
    page: Page,
    /// Complete data pages with their headers, compressed.
    parts: Vec<Buffer>,
    bytes: usize,
    /// Bytes of these pages before compression.
    unpacked_bytes: usize,
    coded_pages: i32,
    plain_pages: i32,
    /// Pages of truth values as runs.
    run_pages: i32,
    rows: usize,
    nulls: usize,
    string_bytes: usize,
    range: ValueRange,
}

/// The encoding of the current page.
enum Coding {
    /// Undecided: values are kept both as codes and plain.
    Sampled(Dictionary),
    /// Dictionary codes, until the dictionary is full.
    Coded(Dictionary),
    /// Plain; earlier pages may have codes of this dictionary.
    Plain(Option<Dictionary>),
}

/// The current, incomplete page.
struct Page {
    rows: usize,
    nulls: NullBufferBuilder,
    /// Dictionary codes; empty if the page is plain.
    codes: Vec<u32>,
    /// Plain values; empty if the page is coded.
    pieces: Vec<ColumnPiece>,
    /// Bytes of the plain values.
    plain_bytes: usize,
}

impl Page {
    fn new() -> Page {
        let nulls = NullBufferBuilder::new(0);
        Page { rows: 0, nulls, codes: vec![], pieces: vec![], plain_bytes: 0 }
    }
}

impl ColumnChunk {
    /// An empty chunk of a column of this type.
    pub fn new(
        descr: ColumnDescPtr,
        kind: &DataType,
        layout: PhysicalLayout,
        compression: Compression,
    ) -> ColumnChunk {
        let coding = match Dictionary::new(layout) {
            Some(dictionary) => Coding::Sampled(dictionary),
            None => Coding::Plain(None),
        };
        ColumnChunk {
            descr,
            layout,
            compression,
            coding,
            page: Page::new(),
            parts: vec![],
            bytes: 0,
            unpacked_bytes: 0,
            coded_pages: 0,
            plain_pages: 0,
            run_pages: 0,
            rows: 0,
            nulls: 0,
            string_bytes: 0,
            range: ValueRange::new(kind),
        }
    }

    /// Approximate bytes of the chunk so far.
    pub fn bytes(&self) -> usize {
        let coded = |dictionary: &Dictionary| {
            let bits = self.page.codes.len() * bit_width(dictionary.len()) as usize;
            dictionary.bytes() + bits / 8
        };
        let plain = self.page.plain_bytes;
        let more = match &self.coding {
            Coding::Sampled(dictionary) => plain.min(coded(dictionary)),
            Coding::Coded(dictionary) => coded(dictionary),
            Coding::Plain(dictionary) => plain + dictionary.as_ref().map_or(0, Dictionary::bytes),
        };
        self.bytes + more
    }

    /// Approximate memory in bytes, including the second form of a sample and the hash table of the
    /// dictionary.
    pub fn held_bytes(&self) -> usize {
        let (Coding::Sampled(dictionary) | Coding::Coded(dictionary)) = &self.coding else {
            return self.bytes();
        };
        let codes = self.page.codes.capacity() * size_of::<u32>();
        self.bytes + self.page.plain_bytes + codes + dictionary.held_bytes()
    }

    /// Appends the rows of an array, which must have the column's type.
    pub fn push(&mut self, array: &ArrayRef, codec: &mut PageCodec) -> Result<()> {
        let mut rest = ColumnPiece::of(array, self.layout)?;
        self.rows += rest.rows;
        self.nulls += rest.rows - rest.values.len();
        self.string_bytes += rest.values.string_bytes();
        while rest.rows > 0 {
            let page_rows = PAGE_ROWS_MAX - self.page.rows;
            let rows = match self.coding {
                // In steps, so that few values are looked up if a dictionary does not pay.
                Coding::Sampled(_) => page_rows.min(GLIMPSE_VALUES),
                _ => page_rows,
            };
            let (first, others) = rest.cut(rows, PAGE_BYTES);
            self.add(first, codec)?;
            rest = others;
        }
        Ok(())
    }

    /// Moves the pages to `parts`; `offset` is where the first will begin in the row group.
    pub fn finish(
        mut self,
        offset: i64,
        parts: &mut Vec<Buffer>,
        codec: &mut PageCodec,
    ) -> Result<ColumnChunkMetaData> {
        self.decide(codec)?;
        self.end_page(codec)?;
        let mut encodings = vec![Encoding::RLE];
        let mut data_offset = offset;
        if let Coding::Coded(dictionary) | Coding::Plain(Some(dictionary)) = self.coding {
            dictionary.widen(&mut self.range);
            let values = dictionary.len();
            let page = codec.pack(vec![dictionary.into_page()])?;
            let header = PageHeader::dictionary(values, &page);
            data_offset += (header.len() + page.bytes) as i64;
            self.unpacked_bytes += header.len() + page.unpacked_bytes;
            parts.push(Buffer::from_vec(header));
            parts.extend(page.parts);
            encodings.extend([Encoding::PLAIN, Encoding::RLE_DICTIONARY]);
        }
        parts.append(&mut self.parts);
        if self.plain_pages > 0 && !encodings.contains(&Encoding::PLAIN) {
            encodings.push(Encoding::PLAIN);
        }
        let has_dictionary = data_offset > offset;
        let bytes = self.bytes as i64 + data_offset - offset;
        let pages = [
            (PageType::DICTIONARY_PAGE, Encoding::PLAIN, has_dictionary.into()),
            (PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, self.coded_pages),
            (PageType::DATA_PAGE, Encoding::PLAIN, self.plain_pages),
            (PageType::DATA_PAGE, Encoding::RLE, self.run_pages),
        ];
        let pages = pages.into_iter().filter(|(.., count)| *count > 0);
        let pages = pages.map(|(page_type, encoding, count)| PageEncodingStats {
            page_type,
            encoding,
            count,
        });
        let is_string = self.layout == PhysicalLayout::Bytes;
        let metadata = ColumnChunkMetaData::builder(self.descr.clone())
            .set_encodings(encodings)
            .set_page_encoding_stats(pages.collect())
            .set_compression(self.compression)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(bytes)
            .set_total_uncompressed_size(self.unpacked_bytes as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(offset))
            .set_data_page_offset(data_offset)
            .set_unencoded_byte_array_data_bytes(is_string.then_some(self.string_bytes as i64))
            .set_statistics(self.range.statistics(&self.descr, self.nulls));
        metadata.build().map_err(failed)
    }

    /// Appends rows, which must fit the current page.
    fn add(&mut self, piece: ColumnPiece, codec: &mut PageCodec) -> Result<()> {
        let (Coding::Sampled(dictionary) | Coding::Coded(dictionary)) = &mut self.coding else {
            self.append(piece);
            return self.end_page_if_full(codec);
        };
        let known = dictionary.intern(&piece.values, &mut self.page.codes);
        if known == piece.values.len() {
            self.append(piece);
            return self.end_page_if_full(codec);
        }
        // The dictionary is full, so the remaining rows are plain.
        let (first, rest) = piece.before(known);
        self.append(first);
        self.decide(codec)?;
        self.end_page(codec)?;
        self.coding = match std::mem::replace(&mut self.coding, Coding::Plain(None)) {
            Coding::Coded(dictionary) => Coding::Plain(Some(dictionary)),
            plain => plain,
        };
        self.add(rest, codec)
    }

    fn append(&mut self, piece: ColumnPiece) {
        let page = &mut self.page;
        page.rows += piece.rows;
        match &piece.nulls {
            None => page.nulls.append_n_non_nulls(piece.rows),
            Some(nulls) => page.nulls.append_buffer(nulls),
        }
        if !matches!(self.coding, Coding::Coded(_)) {
            page.plain_bytes += piece.values.plain_bytes();
            page.pieces.push(piece);
        }
    }

    fn end_page_if_full(&mut self, codec: &mut PageCodec) -> Result<()> {
        let is_full = self.page.rows >= PAGE_ROWS_MAX || self.page.plain_bytes >= PAGE_BYTES;
        let values = self.page.codes.len();
        let is_seen = match &self.coding {
            Coding::Sampled(dictionary) => will_likely_not_pay(values, dictionary.len()),
            _ => false,
        };
        if is_full || is_seen || values >= SAMPLE_VALUES {
            self.decide(codec)?;
        }
        match self.coding {
            Coding::Coded(_) if self.page.rows < PAGE_ROWS_MAX => Ok(()),
            _ if is_full => self.end_page(codec),
            _ => Ok(()),
        }
    }

    /// Ends the sample: from here on pages use the dictionary, or it is dropped.
    fn decide(&mut self, codec: &mut PageCodec) -> Result<()> {
        let dictionary = match std::mem::replace(&mut self.coding, Coding::Plain(None)) {
            Coding::Sampled(dictionary) => dictionary,
            decided => {
                self.coding = decided;
                return Ok(());
            }
        };
        if pays(self.page.codes.len(), dictionary.len()) {
            self.coding = Coding::Coded(dictionary);
            self.page.pieces.clear();
            self.page.plain_bytes = 0;
            return Ok(());
        }
        let sampled = std::mem::replace(&mut self.page, Page::new());
        sampled.pieces.into_iter().try_for_each(|piece| self.add(piece, codec))
    }

    fn end_page(&mut self, codec: &mut PageCodec) -> Result<()> {
        let mut page = std::mem::replace(&mut self.page, Page::new());
        if page.rows == 0 {
            return Ok(());
        }
        let mut head = vec![];
        if self.descr.max_def_level() > 0 {
            let nulls = page.nulls.finish().filter(|nulls| nulls.null_count() > 0);
            head = levels(page.rows, nulls.as_ref());
        }
        let (values, encoding) = match &self.coding {
            Coding::Coded(dictionary) => {
                let width = bit_width(dictionary.len());
                head.push(width as u8);
                encode(&page.codes, width, &mut head);
                self.coded_pages += 1;
                page.codes.clear();
                self.page.codes = page.codes;
                (vec![], Encoding::RLE_DICTIONARY)
            }
            _ => {
                let values = page.pieces.into_iter().map(|piece| piece.values);
                let values: Vec<_> = values.inspect(|values| self.range.note(values)).collect();
                let values = plain(values)?;
                let is_bits = self.layout == PhysicalLayout::Bits;
                match values.first().filter(|_| is_bits).and_then(shorter_runs) {
                    Some(runs) => {
                        self.run_pages += 1;
                        (vec![runs], Encoding::RLE)
                    }
                    None => {
                        self.plain_pages += 1;
                        (values, Encoding::PLAIN)
                    }
                }
            }
        };
        let head = (!head.is_empty()).then(|| Buffer::from_vec(head));
        let packed = codec.pack(head.into_iter().chain(values).collect())?;
        let header = PageHeader::data(page.rows, encoding, &packed);
        self.bytes += header.len() + packed.bytes;
        self.unpacked_bytes += header.len() + packed.unpacked_bytes;
        self.parts.push(Buffer::from_vec(header));
        self.parts.extend(packed.parts);
        Ok(())
    }
}
