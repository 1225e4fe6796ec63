//! Encodes the column chunks of common types: dictionary or plain pages, statistics and
//! checksums.
//!
//! The crate examines every value several times, through objects where values are bytes; encoding
//! took longer than sorting. Here a value is looked up once in a dictionary that fits a cache, and
//! where a dictionary does not pay, the Arrow buffer itself is written.

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result};
use parquet::basic::{Compression, Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::schema::types::ColumnDescPtr;

use super::dictionary::{
    Dictionary, DictionaryTrials, GLIMPSE_VALUES, SAMPLE_VALUES, numbers_pay_uncompressed, pays,
    will_likely_not_pay,
};
use super::errors::failed;
use super::page_codec::PageCodec;
use super::plain::{plain, shorter_runs};
use super::rle_bit_packing::{bit_width, encode};
use super::statistics::ValueRange;
use super::thrift::PageHeader;
use super::values::{ColumnPiece, PhysicalLayout};
use super::write::file_footer::EncodedColumn;
use super::write::levels::PageLevels;
use super::write::page_index::{PageBounds, PageIndexBuilder};
use super::write::record_shredding::LeafPath;

/// Bytes of values, in plain encoding, at which a page is complete.
const PAGE_BYTES: usize = BATCH_BYTES_TARGET;

/// Limit of a page's entries, which are its rows in a flat column: a reader must start at the
/// first. One record may have more.
const PAGE_ENTRIES_MAX: usize = 64 << 10;

/// A column chunk under construction.
pub struct ColumnChunk {
    descr: ColumnDescPtr,
    path: LeafPath,
    layout: PhysicalLayout,
    compression: Compression,
    coding: Coding,
    /// Distinct values in the first half of the sample.
    half_distinct: usize,
    page: Page,
    /// Complete data pages with their headers, compressed.
    parts: Vec<Buffer>,
    bytes: usize,
    /// Bytes of these pages before compression.
    unpacked_bytes: usize,
    coded_pages: i32,
    /// Values in pages with codes.
    coded_values: usize,
    plain_pages: i32,
    /// Pages of truth values as runs.
    run_pages: i32,
    entries: usize,
    /// Entries without a value.
    nulls: usize,
    string_bytes: usize,
    range: ValueRange,
    index: PageIndexBuilder,
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
    levels: PageLevels,
    /// Dictionary codes; empty if the page is plain.
    codes: Vec<u32>,
    /// Plain values; empty if the page is coded.
    pieces: Vec<ColumnPiece>,
    /// Bytes of the plain values.
    plain_bytes: usize,
}

impl Page {
    fn new() -> Page {
        let levels = PageLevels::new();
        Page { levels, codes: vec![], pieces: vec![], plain_bytes: 0 }
    }
}

impl ColumnChunk {
    /// An empty chunk of a leaf with this path and layout, plain from the beginning unless it
    /// `tries` a dictionary.
    pub fn new(
        descr: ColumnDescPtr,
        path: LeafPath,
        layout: PhysicalLayout,
        compression: Compression,
        tries: bool,
    ) -> ColumnChunk {
        let coding = match Dictionary::new(layout).filter(|_| tries) {
            Some(dictionary) => Coding::Sampled(dictionary),
            None => Coding::Plain(None),
        };
        ColumnChunk {
            descr,
            range: ValueRange::new(&path.kind),
            index: PageIndexBuilder::new(),
            path,
            layout,
            compression,
            coding,
            half_distinct: 0,
            page: Page::new(),
            parts: vec![],
            bytes: 0,
            unpacked_bytes: 0,
            coded_pages: 0,
            coded_values: 0,
            plain_pages: 0,
            run_pages: 0,
            entries: 0,
            nulls: 0,
            string_bytes: 0,
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
            return self.bytes() + self.page.levels.held_bytes();
        };
        let codes = self.page.codes.capacity() * size_of::<u32>();
        let page = self.page.plain_bytes + codes + self.page.levels.held_bytes();
        self.bytes + page + dictionary.held_bytes()
    }

    /// Appends the records of an array, which must have the type of the path's field.
    pub fn push(&mut self, array: &ArrayRef, codec: &mut PageCodec) -> Result<()> {
        if self.path.is_flat() {
            return self.push_piece(ColumnPiece::of(array, self.layout)?, codec);
        }
        let mut begin = 0;
        while begin < array.len() {
            let end = begin + self.path.fitting(array, begin);
            let (levels, values) = self.path.shred(array, begin..end)?;
            self.push_piece(ColumnPiece::nested(levels, &values, self.layout)?, codec)?;
            begin = end;
        }
        Ok(())
    }

    fn push_piece(&mut self, mut rest: ColumnPiece, codec: &mut PageCodec) -> Result<()> {
        self.entries += rest.entries;
        self.nulls += rest.entries - rest.values.len();
        self.string_bytes += rest.values.string_bytes();
        while rest.entries > 0 {
            let room = PAGE_ENTRIES_MAX - self.page.levels.entries();
            let entries = match self.coding {
                // In steps, so that few values are looked up if a dictionary does not pay.
                Coding::Sampled(_) => room.min(GLIMPSE_VALUES),
                _ => room,
            };
            let (first, others) = rest.cut(entries, PAGE_BYTES);
            self.add(first, codec)?;
            rest = others;
        }
        Ok(())
    }

    /// Moves the pages to `parts`; `offset` is where the first will begin in the row group. Notes
    /// how it went with a dictionary.
    pub fn finish(
        mut self,
        offset: i64,
        parts: &mut Vec<Buffer>,
        codec: &mut PageCodec,
        trials: &mut DictionaryTrials,
    ) -> Result<EncodedColumn> {
        self.decide(codec)?;
        self.end_page(codec)?;
        let distinct = match &self.coding {
            Coding::Coded(dictionary) | Coding::Plain(Some(dictionary)) => dictionary.len(),
            _ => 0,
        };
        trials.note(self.entries - self.nulls, self.coded_values, distinct);
        let mut encodings = vec![Encoding::RLE];
        let mut data_offset = offset;
        if let Coding::Coded(dictionary) | Coding::Plain(Some(dictionary)) = self.coding {
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
            .set_num_values(self.entries as i64)
            .set_total_compressed_size(bytes)
            .set_total_uncompressed_size(self.unpacked_bytes as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(offset))
            .set_data_page_offset(data_offset)
            .set_unencoded_byte_array_data_bytes(is_string.then_some(self.string_bytes as i64))
            .set_statistics(self.range.statistics(&self.descr, self.nulls));
        let metadata = metadata.build().map_err(failed)?;
        Ok(EncodedColumn { metadata, pages: self.index.finish() })
    }

    /// Appends records, which must fit the current page.
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
        let unused = known - first.values.len();
        self.page.codes.truncate(self.page.codes.len() - unused);
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
        page.levels.append(&piece.levels, piece.entries);
        if !matches!(self.coding, Coding::Coded(_)) {
            page.plain_bytes += piece.values.plain_bytes();
            page.pieces.push(piece);
        }
    }

    fn end_page_if_full(&mut self, codec: &mut PageCodec) -> Result<()> {
        let has_room = self.page.levels.entries() < PAGE_ENTRIES_MAX;
        let is_full = !has_room || self.page.plain_bytes >= PAGE_BYTES;
        let values = self.page.codes.len();
        let is_seen = match &self.coding {
            Coding::Sampled(dictionary) => {
                if values <= SAMPLE_VALUES / 2 {
                    self.half_distinct = dictionary.len();
                }
                will_likely_not_pay(values, dictionary.len())
            }
            _ => false,
        };
        if is_full || is_seen || values >= SAMPLE_VALUES {
            self.decide(codec)?;
        }
        match self.coding {
            Coding::Coded(_) if has_room => Ok(()),
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
        if pays(self.page.codes.len(), dictionary.len()) && self.recurs_enough(&dictionary) {
            self.coding = Coding::Coded(dictionary);
            self.page.pieces.clear();
            self.page.plain_bytes = 0;
            return Ok(());
        }
        let sampled = std::mem::replace(&mut self.page, Page::new());
        sampled.pieces.into_iter().try_for_each(|piece| self.add(piece, codec))
    }

    /// Whether the second half of a whole sample recurs so much that look-ups pay.
    fn recurs_enough(&self, dictionary: &Dictionary) -> bool {
        let is_text = self.layout == PhysicalLayout::Bytes;
        let is_whole = self.page.codes.len() >= SAMPLE_VALUES;
        if is_text || !is_whole || self.compression != Compression::UNCOMPRESSED {
            return true;
        }
        numbers_pay_uncompressed(SAMPLE_VALUES / 2, dictionary.len() - self.half_distinct)
    }

    fn end_page(&mut self, codec: &mut PageCodec) -> Result<()> {
        let mut page = std::mem::replace(&mut self.page, Page::new());
        let entries = page.levels.entries();
        if entries == 0 {
            return Ok(());
        }
        if i32::try_from(entries).is_err() {
            let error = Error::failed("a record has more elements than Parquet can count");
            return Err(error.remedy("cut it, or save as arrow"));
        }
        let rows = page.levels.rows();
        let mut head = page.levels.encode(&self.descr);
        let mut range = ValueRange::new(&self.path.kind);
        let mut count = page.codes.len();
        let (values, encoding) = match &self.coding {
            Coding::Coded(dictionary) => {
                let width = bit_width(dictionary.len());
                head.push(width as u8);
                encode(&page.codes, width, &mut head);
                dictionary.widen(&page.codes, &mut range);
                self.coded_pages += 1;
                self.coded_values += count;
                page.codes.clear();
                self.page.codes = page.codes;
                (vec![], Encoding::RLE_DICTIONARY)
            }
            _ => {
                let values = page.pieces.into_iter().map(|piece| piece.values);
                let values = values.inspect(|values| {
                    count += values.len();
                    range.note(values);
                });
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
        let header = PageHeader::data(entries, encoding, &packed);
        let bytes = header.len() + packed.bytes;
        self.bytes += bytes;
        self.range.merge(&range);
        let bounds = match count {
            0 => PageBounds::Null,
            _ => range.page_bounds(&self.descr),
        };
        self.index.append(bytes, rows, entries - count, bounds);
        self.unpacked_bytes += header.len() + packed.unpacked_bytes;
        self.parts.push(Buffer::from_vec(header));
        self.parts.extend(packed.parts);
        Ok(())
    }
}
