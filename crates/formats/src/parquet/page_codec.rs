//! Compresses Parquet pages with one compressor per row group encoder.
//!
//! The crate creates a compressor for every column, of some hundred kilobytes each for zstd: with a
//! thousand columns these took a whole budget of 128 MiB.

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use parquet::basic::{Compression, ZstdLevel};

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
}

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
        Wanted::Gzip | Wanted::Bzip2 => {
            let error = Error::usage("Parquet is written with snappy, lz4 or zstd");
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
