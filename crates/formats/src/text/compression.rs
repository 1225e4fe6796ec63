//! Compression of whole files (`data.csv.gz`): detection, decompression and compression.
//!
//! Compressed data is a sequence of self-contained members (gzip), streams (bzip2) or frames
//! (zstd); their concatenation decompresses to the concatenation of their contents. So chunks can
//! be compressed independently, and a reader must not stop at the end of the first member.

use std::io::{self, BufRead, Read, Write};

use arrow::buffer::Buffer;
use bzip2::bufread::BzDecoder;
use euphrates_device::location::{extension_of, without_query};
use euphrates_flow::Error;
use flate2::bufread::GzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::stream::{ByteInput, carried};

/// The largest zstd window that is accepted, as a power of two, equal to that of the `zstd`
/// program. Decompression takes memory for the window and the decoder only, however large the
/// content is.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The default level of the `zstd` program.
const ZSTD_LEVEL: i32 = 3;

/// The compression codec of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCodec {
    /// Gzip, one or more members.
    Gzip,
    /// Bzip2, one or more streams.
    Bzip2,
    /// Zstandard, one or more frames.
    Zstd,
}

impl FileCodec {
    /// All codecs, in the order in which names are tried.
    pub const ALL: [FileCodec; 3] = [FileCodec::Gzip, FileCodec::Bzip2, FileCodec::Zstd];

    /// The codec's name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            FileCodec::Gzip => "gzip",
            FileCodec::Bzip2 => "bzip2",
            FileCodec::Zstd => "zstd",
        }
    }

    /// The last extension of file names, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            FileCodec::Gzip => "gz",
            FileCodec::Bzip2 => "bz2",
            FileCodec::Zstd => "zst",
        }
    }

    /// The codec of a path by its last extension.
    pub fn of_path(path: &str) -> Option<FileCodec> {
        let extension = extension_of(path)?;
        FileCodec::ALL.into_iter().find(|packing| packing.extension() == extension)
    }

    /// The codec of content by its magic bytes.
    pub fn of_bytes(begin: &[u8]) -> Option<FileCodec> {
        match begin {
            [0x1f, 0x8b, ..] => Some(FileCodec::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', b'1' | 0x17, ..] => Some(FileCodec::Bzip2),
            // A frame, or a skippable frame, with which some programs begin.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(FileCodec::Zstd)
            }
            _ => None,
        }
    }

    pub(super) fn compress(self, parts: &[Buffer]) -> io::Result<Vec<u8>> {
        fn all<W: Write>(mut to: W, parts: &[Buffer]) -> io::Result<W> {
            parts.iter().try_for_each(|part| to.write_all(part))?;
            Ok(to)
        }
        match self {
            FileCodec::Gzip => {
                let to = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
                all(to, parts)?.finish()
            }
            FileCodec::Bzip2 => {
                let to = bzip2::write::BzEncoder::new(vec![], bzip2::Compression::default());
                all(to, parts)?.finish()
            }
            FileCodec::Zstd => {
                let mut to = zstd::stream::write::Encoder::new(vec![], ZSTD_LEVEL)?;
                to.include_checksum(true)?;
                all(to, parts)?.finish()
            }
        }
    }
}

/// The path without the extension of its compression.
pub fn unpacked_name(path: &str) -> &str {
    let path = without_query(path);
    match FileCodec::of_path(path) {
        Some(packing) => &path[..path.len() - packing.extension().len() - 1],
        None => path,
    }
}

/// The decompressed content of an input.
pub struct Decompressor {
    packing: FileCodec,
    /// The input at the next member; `None` within a member.
    next: Option<Counted>,
    member: Option<GzipMember>,
    /// Whether a member has been read.
    begun: bool,
}

/// The decoder of the current member.
enum GzipMember {
    Gzip(Box<GzDecoder<Counted>>),
    Bzip2(Box<BzDecoder<Counted>>),
    Zstd(ZstdDecoder<'static, Counted>),
}

impl Decompressor {
    /// Wraps an input that is at its beginning.
    pub fn new(packing: FileCodec, input: ByteInput) -> Decompressor {
        let next = Some(Counted { input, offset: 0 });
        Decompressor { packing, next, member: None, begun: false }
    }

    /// Opens the next member; returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        let Some(mut input) = self.next.take() else { return Ok(false) };
        if self.begun && self.packing == FileCodec::Gzip {
            // Tapes and some programs pad the last block with zeros.
            input.skip_zeros()?;
        }
        let ended = input.fill_buf()?.is_empty();
        if ended && self.begun {
            return Ok(false);
        }
        self.begun = true;
        self.member = Some(match self.packing {
            FileCodec::Gzip => GzipMember::Gzip(Box::new(GzDecoder::new(input))),
            FileCodec::Bzip2 => GzipMember::Bzip2(Box::new(BzDecoder::new(input))),
            FileCodec::Zstd => {
                let mut decoder = ZstdDecoder::with_buffer(input)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                GzipMember::Zstd(decoder)
            }
        });
        Ok(true)
    }

    fn damaged(&self, error: &io::Error) -> io::Error {
        let name = self.packing.name();
        let message = match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("the {name} data ends too early"),
            _ => format!("the {name} data is damaged: {error}"),
        };
        let place = match self.member.as_ref().map(GzipMember::input) {
            Some(input) => format!("byte {} of the compressed data", input.offset),
            None => "the compressed data".into(),
        };
        let error = Error::corrupt(message).at(place);
        carried(error.remedy("transfer or compress it again"))
    }
}

impl Read for Decompressor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if self.member.is_none() && !self.begin()? {
                return Ok(0);
            }
            let Some(member) = &mut self.member else { return Ok(0) };
            match member.read(into) {
                Ok(0) => self.next = self.member.take().map(GzipMember::into_input),
                Ok(bytes) => return Ok(bytes),
                // An error of the underlying input is passed on unchanged.
                Err(error) if error.get_ref().is_some_and(crate::stream::is_known) => {
                    return Err(error);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => return Err(self.damaged(&error)),
            }
        }
    }
}

impl GzipMember {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            GzipMember::Gzip(decoder) => decoder.read(into),
            GzipMember::Bzip2(decoder) => decoder.read(into),
            GzipMember::Zstd(decoder) => decoder.read(into),
        }
    }

    fn input(&self) -> &Counted {
        match self {
            GzipMember::Gzip(decoder) => decoder.get_ref(),
            GzipMember::Bzip2(decoder) => decoder.get_ref(),
            GzipMember::Zstd(decoder) => decoder.get_ref(),
        }
    }

    fn into_input(self) -> Counted {
        match self {
            GzipMember::Gzip(decoder) => decoder.into_inner(),
            GzipMember::Bzip2(decoder) => decoder.into_inner(),
            GzipMember::Zstd(decoder) => decoder.finish(),
        }
    }
}

/// An input that counts the bytes read, for the offset in errors.
struct Counted {
    input: ByteInput,
    offset: u64,
}

impl Counted {
    fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.fill_buf()?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let more = zeros > 0 && zeros == bytes.len();
            self.consume(zeros);
            if !more {
                return Ok(());
            }
        }
    }
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(into)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        self.input.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn compressed(packing: FileCodec, text: &[u8]) -> Vec<u8> {
        packing.compress(&[Buffer::from(text)]).unwrap()
    }

    fn unpacked(packing: FileCodec, bytes: Vec<u8>, buffer: usize) -> io::Result<Vec<u8>> {
        let input = BufReader::with_capacity(buffer, Cursor::new(bytes));
        let mut all = vec![];
        Decompressor::new(packing, Box::new(input)).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn concatenated_members_decompress_to_concatenated_contents() {
        for packing in FileCodec::ALL {
            let mut bytes = compressed(packing, b"one\n");
            assert_eq!(FileCodec::of_bytes(&bytes), Some(packing));
            bytes.extend(compressed(packing, b""));
            bytes.extend(compressed(packing, &b"two\n".repeat(10_000)));
            let expected = [b"one\n".to_vec(), b"two\n".repeat(10_000)].concat();
            for buffer in [1, 7, 1 << 16] {
                assert!(unpacked(packing, bytes.clone(), buffer).unwrap() == expected);
            }
        }
        let mut padded = compressed(FileCodec::Gzip, b"one\n");
        padded.extend([0; 100]);
        assert_eq!(unpacked(FileCodec::Gzip, padded, 64).unwrap(), b"one\n");
    }

    #[test]
    fn truncated_and_damaged_data_is_corrupt_and_names_the_byte() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|at| (at * at).to_le_bytes()).collect();
        for packing in FileCodec::ALL {
            let whole = compressed(packing, &text);
            let mut cases: Vec<Vec<u8>> =
                (0..whole.len()).step_by(997).map(|at| whole[..at].to_vec()).collect();
            cases.push(whole[..whole.len() - 1].to_vec());
            cases.push([whole.clone(), b"garbage behind it".to_vec()].concat());
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 4;
            cases.push(flipped);
            for bytes in cases {
                let error = unpacked(packing, bytes, 1 << 12).unwrap_err();
                let error = crate::stream::failed("read", &error);
                assert_eq!(error.kind(), euphrates_flow::Kind::Corrupt, "{error}");
                assert!(error.to_string().contains("of the compressed data"), "{error}");
            }
        }
    }
}
