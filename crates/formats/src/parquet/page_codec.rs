//! Compresses Parquet pages with one compressor per row group encoder.
//!
//! The crate creates a compressor for every column, of some hundred kilobytes each for zstd: with a
//! thousand columns these took a whole budget of 128 MiB.

use std::io::Write;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use flate2::write::GzEncoder;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use crate::Compression as Wanted;

/// The compressor of pages, with its reusable state.
pub enum PageCodec {
    /// Pages are stored uncompressed.
    None,
    /// Snappy, in one block without a frame.
    Snappy(Box<snap::raw::Encoder>),
    /// LZ4, in one block without a frame.
    Lz4,
    /// Zstandard; the context is reused for all pages.
    Zstd(zstd::bulk::Compressor<'static>),
    /// Gzip at this level.
    Gzip(u32),
    /// Brotli at this level.
    Brotli(u32),
}

/// Bytes of the buffer of a Brotli encoder, and the logarithm of its window, as in the crate.
const BROTLI_BUFFER_BYTES: usize = 4096;
const BROTLI_WINDOW_BITS: u32 = 22;

/// A page after compression, as it is stored in the file.
pub struct Packed {
    /// Its bytes, to be concatenated.
    pub parts: Vec<Buffer>,
    /// Number of bytes in `parts`.
    pub bytes: usize,
    /// Number of bytes before compression.
    pub unpacked_bytes: usize,
}

/// The codec as the footer names it, zstd at level 1 if none is `wanted`; a usage error if Parquet
/// lacks it.
pub fn codec_of(wanted: Option<Wanted>) -> Result<Compression> {
    match wanted.unwrap_or(Wanted::Zstd) {
        Wanted::None => Ok(Compression::UNCOMPRESSED),
        Wanted::Lz4 => Ok(Compression::LZ4_RAW),
        Wanted::Zstd => Ok(Compression::ZSTD(ZstdLevel::default())),
        Wanted::Snappy => Ok(Compression::SNAPPY),
        Wanted::Gzip => Ok(Compression::GZIP(GzipLevel::default())),
        Wanted::Brotli => Ok(Compression::BROTLI(BrotliLevel::default())),
        Wanted::Bzip2 => {
            let error = Error::usage("Parquet is written with zstd, snappy, lz4, gzip or brotli");
            Err(error.remedy("use one of them, or none"))
        }
    }
}

impl PageCodec {
    /// Creates a compressor for this codec.
    pub fn new(compression: Compression) -> Result<PageCodec> {
        Ok(match compression {
            Compression::SNAPPY => PageCodec::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::LZ4_RAW => PageCodec::Lz4,
            Compression::ZSTD(level) => {
                let made = zstd::bulk::Compressor::new(level.compression_level());
                PageCodec::Zstd(made.map_err(Error::failed)?)
            }
            Compression::GZIP(level) => PageCodec::Gzip(level.compression_level()),
            Compression::BROTLI(level) => PageCodec::Brotli(level.compression_level()),
            _ => PageCodec::None,
        })
    }

    /// Compresses the concatenation of `parts` into a page.
    pub fn pack(&mut self, parts: Vec<Buffer>) -> Result<Packed> {
        let unpacked_bytes = parts.iter().map(Buffer::len).sum::<usize>();
        if i32::try_from(unpacked_bytes).is_err() {
            let error = Error::failed("a value is longer than Parquet can hold, 2 GiB");
            return Err(error.remedy("cut it, or save as arrow"));
        }
        let packed = match self {
            PageCodec::None => return Ok(Packed { parts, bytes: unpacked_bytes, unpacked_bytes }),
            PageCodec::Snappy(encoder) => encoder.compress_vec(&joined(parts)),
            PageCodec::Lz4 => Ok(lz4_flex::block::compress(&joined(parts))),
            PageCodec::Zstd(compressor) => {
                let packed = compressor.compress(&joined(parts));
                return Ok(Packed::of(packed.map_err(Error::failed)?, unpacked_bytes));
            }
            PageCodec::Gzip(level) => {
                let mut encoder = GzEncoder::new(vec![], flate2::Compression::new(*level));
                let written = encoder.write_all(&joined(parts)).and_then(|()| encoder.finish());
                return Ok(Packed::of(written.map_err(Error::failed)?, unpacked_bytes));
            }
            PageCodec::Brotli(level) => {
                let (bytes, window) = (BROTLI_BUFFER_BYTES, BROTLI_WINDOW_BITS);
                let mut encoder = brotli::CompressorWriter::new(vec![], bytes, *level, window);
                encoder.write_all(&joined(parts)).map_err(Error::failed)?;
                return Ok(Packed::of(encoder.into_inner(), unpacked_bytes));
            }
        };
        Ok(Packed::of(packed.map_err(Error::failed)?, unpacked_bytes))
    }
}

impl Packed {
    fn of(mut packed: Vec<u8>, unpacked_bytes: usize) -> Packed {
        // A compressor reserves the worst case; the unused capacity is returned.
        packed.shrink_to_fit();
        let bytes = packed.len();
        Packed { parts: vec![Buffer::from_vec(packed)], bytes, unpacked_bytes }
    }
}

/// Concatenates parts; a single part is returned without a copy.
fn joined(mut parts: Vec<Buffer>) -> Buffer {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut all = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Buffer::from_vec(all)
}
