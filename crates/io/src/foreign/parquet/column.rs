//! The bytes of one column chunk: read in windows, page headers checked, checksums verified.

use std::io::Read;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::thrift::PageHeader;
use crate::blob::Blob;

/// What is read at a time where pages are smaller.
const WINDOW_LOCAL_BYTES: u64 = 1 << 20;
const WINDOW_REMOTE_BYTES: u64 = 8 << 20;

/// Room for the header of the next page behind a page.
const HEADER_BYTES: u64 = 256;

/// Headers with long statistics are larger, but not this large.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A column chunk.
pub struct Column {
    blob: Arc<Blob>,
    begin: u64,
    end: u64,
    /// The most bytes a byte of a page can stand for.
    expansion: u64,
    window_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    window: Window,
    /// Where the page begins whose header was read last, and that header.
    page: Option<(u64, PageHeader)>,
}

/// Bytes of the file.
#[derive(Clone, Default)]
struct Window {
    offset: u64,
    bytes: Bytes,
}

impl Window {
    fn slice(&self, offset: u64, bytes: u64) -> Option<Bytes> {
        let from = offset.checked_sub(self.offset)?;
        let to = from.checked_add(bytes)?;
        (to <= self.bytes.len() as u64).then(|| self.bytes.slice(from as usize..to as usize))
    }
}

impl Column {
    /// A chunk, which lies within the file.
    pub fn new(blob: Arc<Blob>, metadata: &ColumnChunkMetaData) -> Column {
        let (begin, length) = metadata.byte_range();
        let expansion = match metadata.compression() {
            Compression::UNCOMPRESSED => 1,
            Compression::SNAPPY => 64,
            Compression::LZ4 | Compression::LZ4_RAW => 256,
            // Zstandard and Brotli: a block of 128 KiB takes a few bytes.
            _ => 32 << 10,
        };
        let window_bytes = if blob.is_remote() { WINDOW_REMOTE_BYTES } else { WINDOW_LOCAL_BYTES };
        let state = Mutex::default();
        Column { blob, begin, end: begin + length, expansion, window_bytes, state }
    }

    /// The same as `header`, for who wants no more than that: little is read.
    pub fn header_alone(mut self, offset: u64) -> Result<PageHeader> {
        self.window_bytes = HEADER_BYTES;
        self.header(offset)
    }

    /// The header of the page at an offset; its length and the page's are sound.
    pub fn header(&self, offset: u64) -> Result<PageHeader> {
        let mut state = self.lock();
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
        let mut state = self.lock();
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
    fn fetch(&self, window: &mut Window, offset: u64, bytes: u64) -> Result<Bytes> {
        if let Some(there) = window.slice(offset, bytes) {
            return Ok(there);
        }
        // A large page is read by itself, so that none is read twice in part.
        let ask = if bytes >= self.window_bytes / 4 { bytes } else { self.window_bytes };
        let ask = (ask + HEADER_BYTES).min(self.left(offset)?);
        if bytes > ask {
            return Err(self.damaged(offset, "a page lies outside its column"));
        }
        *window = Window { offset, bytes: self.blob.read_at(offset, ask as usize)? };
        Ok(window.bytes.slice(..bytes as usize))
    }

    /// The bytes from an offset to the end of the chunk.
    fn left(&self, offset: u64) -> Result<u64> {
        let is_within = self.begin <= offset && offset <= self.end;
        let left = is_within.then(|| self.end - offset);
        left.ok_or_else(|| self.damaged(offset, "a page lies outside its column"))
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(what).at(format!("byte {offset}")).at(self.blob.name())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Length for Column {
    fn len(&self) -> u64 {
        self.end
    }
}

/// The crate reads a header through `get_read` and the page behind it through `get_bytes`.
impl ChunkReader for Column {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let header = self.header(start).map_err(carried)?;
        let mut state = self.lock();
        let bytes = self.fetch(&mut state.window, start, header.header_bytes as u64);
        Ok(Box::new(std::io::Cursor::new(bytes.map_err(carried)?)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let is_page = self
            .lock()
            .page
            .is_some_and(|(offset, header)| offset == start && header.bytes as usize == length);
        if is_page {
            return self.page().map_err(carried);
        }
        let mut state = self.lock();
        self.fetch(&mut state.window, start, length as u64).map_err(carried)
    }
}

fn carried(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
