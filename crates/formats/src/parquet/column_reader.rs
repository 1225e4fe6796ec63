//! Reads the pages of a column chunk in windows, checks page headers and verifies checksums.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use parking_lot::Mutex;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::memory_budget::{Allowance, ColumnMemory};
use super::thrift::PageHeader;
use euphrates_device::blob::Blob;

/// Window size for local files in bytes; less if many columns are read together.
const WINDOW_LOCAL_BYTES: u64 = 1 << 20;
const WINDOW_REMOTE_BYTES: u64 = 8 << 20;
const WINDOW_BYTES_MIN: u64 = 64 << 10;
/// Window size with which nothing is read but the pages asked for, each with the next header.
pub const PAGE_BY_PAGE: u64 = 0;

/// The window in bytes for each of `columns` columns.
pub fn window_bytes(blob: &Blob, columns: usize, allowance: &Allowance) -> u64 {
    let most = if blob.is_remote() { WINDOW_REMOTE_BYTES } else { WINDOW_LOCAL_BYTES };
    let share = allowance.bytes_max() / 8 / columns.max(1) as u64;
    share.clamp(WINDOW_BYTES_MIN, most)
}

/// Bytes read beyond a page for the header of the next page.
const HEADER_BYTES: u64 = 256;

/// The largest accepted header: long statistics make headers large, but not this large.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A column chunk; clones share the window and the page state.
#[derive(Clone)]
pub struct ColumnReader {
    blob: Arc<Blob>,
    begin: u64,
    end: u64,
    /// The most bytes that one compressed byte can stand for.
    expansion: u64,
    window_bytes: u64,
    allowance: Arc<Allowance>,
    state: Arc<Mutex<ColumnState>>,
}

#[derive(Default)]
struct ColumnState {
    window: FileWindow,
    /// Offset and header of the page whose header was read last.
    page: Option<(u64, PageHeader)>,
    held: ColumnMemory,
}

/// A contiguous range of the file that is in memory.
#[derive(Clone, Default)]
struct FileWindow {
    offset: u64,
    bytes: Bytes,
}

impl FileWindow {
    fn slice(&self, offset: u64, bytes: u64) -> Option<Bytes> {
        let from = offset.checked_sub(self.offset)?;
        let to = from.checked_add(bytes)?;
        (to <= self.bytes.len() as u64).then(|| self.bytes.slice(from as usize..to as usize))
    }
}

impl ColumnReader {
    /// A chunk, which must lie within the file, read in windows of at most `window_bytes`.
    pub fn new(
        blob: Arc<Blob>,
        metadata: &ColumnChunkMetaData,
        window_bytes: u64,
        allowance: Arc<Allowance>,
    ) -> ColumnReader {
        let (begin, length) = metadata.byte_range();
        let expansion = match metadata.compression() {
            Compression::UNCOMPRESSED => 1,
            Compression::SNAPPY => 64,
            Compression::LZ4 | Compression::LZ4_RAW => 256,
            // Deflate: a match of 258 bytes takes two bits.
            Compression::GZIP(_) => 1032,
            // Brotli: a block of 16 MiB takes a few bytes.
            Compression::BROTLI(_) => 4 << 20,
            // Zstandard: a block of 128 KiB takes a few bytes.
            _ => 32 << 10,
        };
        let state = Arc::default();
        let end = begin + length;
        ColumnReader { blob, begin, end, expansion, window_bytes, allowance, state }
    }

    /// The header of one page, read in a small window because nothing else is needed.
    pub fn header_alone(
        blob: &Arc<Blob>,
        metadata: &ColumnChunkMetaData,
        offset: u64,
    ) -> Result<PageHeader> {
        let allowance = Arc::new(Allowance::new(usize::MAX));
        ColumnReader::new(blob.clone(), metadata, HEADER_BYTES, allowance).header(offset)
    }

    /// The header of the page at an offset, with its own length and the page's validated.
    pub fn header(&self, offset: u64) -> Result<PageHeader> {
        let mut state = self.state.lock();
        let mut bytes = HEADER_BYTES;
        let header = loop {
            let there = self.fetch(&mut state.window, offset, bytes.min(self.left(offset)?))?;
            match PageHeader::parse(&there) {
                Some(header) => break header,
                None if there.len() as u64 == self.left(offset)? || bytes >= HEADER_BYTES_MAX => {
                    return Err(self.damaged(offset, "a page header is not readable"));
                }
                None => bytes *= 16,
            }
        };
        let page = offset + header.header_bytes as u64;
        let most = (header.bytes as u64).saturating_mul(self.expansion).saturating_add(1 << 10);
        if header.bytes as u64 > self.left(page)? || header.unpacked_bytes as u64 > most {
            return Err(self.damaged(offset, "a page has an impossible length"));
        }
        state.page = Some((page, header));
        Ok(header)
    }

    /// The bytes of the page whose header was read last; its checksum is verified, if it has one.
    pub fn page(&self) -> Result<Bytes> {
        let mut state = self.state.lock();
        let Some((offset, header)) = state.page else {
            return Err(self.damaged(self.begin, "a page without a header"));
        };
        let bytes = self.fetch(&mut state.window, offset, header.bytes as u64)?;
        if header.crc.is_some_and(|crc| crc != crc32fast::hash(&bytes)) {
            return Err(self.damaged(offset, "the checksum of a page is wrong"));
        }
        Ok(bytes)
    }

    /// The bytes at an offset, from the window or a new one.
    fn fetch(&self, window: &mut FileWindow, offset: u64, bytes: u64) -> Result<Bytes> {
        if let Some(there) = window.slice(offset, bytes) {
            return Ok(there);
        }
        let left = self.left(offset)?;
        let is_first = window.bytes.is_empty() && !self.blob.is_remote();
        let ask = match bytes {
            _ if left <= 2 * self.window_bytes => left,
            // A large page is read by itself, so that no page is partly read twice.
            bytes if is_first || bytes >= self.window_bytes / 4 => left.min(bytes + HEADER_BYTES),
            _ => self.window_bytes,
        };
        if bytes > ask {
            return Err(self.damaged(offset, "a page lies outside its column"));
        }
        *window = FileWindow { offset, bytes: self.blob.read_briefly(offset, ask as usize)? };
        Ok(window.bytes.slice(..bytes as usize))
    }

    /// Number of bytes from an offset to the end of the chunk.
    fn left(&self, offset: u64) -> Result<u64> {
        let is_within = self.begin <= offset && offset <= self.end;
        let left = is_within.then(|| self.end - offset);
        left.ok_or_else(|| self.damaged(offset, "a page lies outside its column"))
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        self.place(Error::corrupt(what), offset)
    }

    fn place(&self, error: Error, offset: u64) -> Error {
        error.at(format!("byte {offset}")).at(self.blob.name())
    }

    /// Keeps an error in the allowance, because the crate would convert it to text.
    fn noted(&self, error: Error) -> Error {
        self.allowance.keep_error(&error);
        error
    }

    fn carried(&self, error: Error) -> ParquetError {
        ParquetError::External(Box::new(self.noted(error)))
    }
}

impl Length for ColumnReader {
    fn len(&self) -> u64 {
        self.end
    }
}

/// The crate reads a header through `get_read` and the page after it through `get_bytes`. It also
/// calls `get_read` at the body of a page after peeking at its header, and reads nothing there; so
/// a header is parsed at the first read, not on creation.
impl ChunkReader for ColumnReader {
    type T = HeaderRead;

    fn get_read(&self, start: u64) -> Result<HeaderRead, ParquetError> {
        Ok(HeaderRead { column: self.clone(), start, header: None })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let is_page = self
            .state
            .lock()
            .page
            .is_some_and(|(offset, header)| offset == start && header.bytes as usize == length);
        if is_page {
            return self.page().map_err(|error| self.carried(error));
        }
        let mut state = self.state.lock();
        let bytes = self.fetch(&mut state.window, start, length as u64);
        bytes.map_err(|error| self.carried(error))
    }
}

/// Reads the bytes of one page header.
pub struct HeaderRead {
    column: ColumnReader,
    start: u64,
    /// The header bytes; `None` until the first read.
    header: Option<Cursor<Bytes>>,
}

impl HeaderRead {
    fn fetch(&self) -> Result<Bytes> {
        let header = self.column.header(self.start)?;
        let mut state = self.column.state.lock();
        let taken = self.column.allowance.take(&mut state.held, &header);
        taken.map_err(|error| self.column.place(error, self.start))?;
        self.column.fetch(&mut state.window, self.start, header.header_bytes as u64)
    }
}

impl Read for HeaderRead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.header.is_none() {
            let bytes =
                self.fetch().map_err(|error| std::io::Error::other(self.column.noted(error)));
            self.header = Some(Cursor::new(bytes?));
        }
        self.header.as_mut().map_or(Ok(0), |header| header.read(into))
    }
}
