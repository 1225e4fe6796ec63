//! Opens the text of a file or a stream, whatever its storage: plain, compressed as a whole, or in
//! another encoding than UTF-8.
//!
//! Plain text in a file is read in splits. Other storage can be read only from front to back, so
//! such a file is one split, which is decompressed and transcoded piecewise.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use euphrates_flow::{Error, Kind, Result};

use crate::csv::quotes::Quoting;
use crate::format::{Format, OpenFile, OpenedFile, open_again};
use crate::options::ReadOptions;
use crate::stream::SplitBatches;
use crate::stream::{self, ByteInput, READ_BYTES};
use crate::text::charset::{Charset, TranscodedInput};
use crate::text::compression::{Decompressor, FileCodec};
use crate::text::contents::check_text;
use crate::text::limits::{ReadLimits, RecordLimit, longer_sample};
use crate::text::row_format::RowFormat;
use crate::text::rows::Rows;
use crate::text::salvage::Tolerance;
use crate::text::splits::{SAMPLE_BYTES, Text, check_uncompressed};
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

/// Bytes per read of a remote object, where every read costs a round trip.
const REMOTE_BYTES: usize = 8 << 20;

/// The longest signature of a compression or an encoding in bytes.
const SIGN_BYTES: usize = 8;

/// Converts an input to plain UTF-8, without byte order mark and skipped lines.
pub fn plain(
    mut input: ByteInput,
    format: &dyn Format,
    options: &ReadOptions,
) -> Result<ByteInput> {
    let begin = stream::up_to(&mut input, SIGN_BYTES as u64)?;
    let packing = packing_of(&begin, options);
    input = stream::prepend(begin, input);
    decoded_input(input, packing, format, options)
}

/// The compression to undo; `None` if options declare the file uncompressed.
fn packing_of(begin: &[u8], options: &ReadOptions) -> Option<FileCodec> {
    FileCodec::of_bytes(begin).filter(|_| !options.is_uncompressed)
}

/// Replaces the error of a text by that of its compressed file if this is damaged: a flipped bit
/// may still decompress, and only the checksum at the end detects it.
pub fn compression_error_or(error: Error, file: &FileRef) -> Error {
    let unpack = || -> Result<()> {
        let blob = file.open()?;
        let begin = blob.read_at(0, blob.bytes().min(SIGN_BYTES as u64) as usize)?;
        let Some(packing) = FileCodec::of_bytes(&begin) else { return Ok(()) };
        let input = BufReader::with_capacity(READ_BYTES, BlobReader { blob, offset: 0 });
        let copied = io::copy(&mut Decompressor::new(packing, Box::new(input)), &mut io::sink());
        copied.map(drop).map_err(|error| stream::failed("read", &error))
    };
    if error.kind() != Kind::Corrupt {
        return error;
    }
    unpack().err().filter(|damage| damage.kind() == Kind::Corrupt).unwrap_or(error)
}

/// Decompresses and transcodes an input with a known compression, or none.
fn decoded_input(
    mut input: ByteInput,
    packing: Option<FileCodec>,
    format: &dyn Format,
    options: &ReadOptions,
) -> Result<ByteInput> {
    if let Some(packing) = packing {
        input = Box::new(BufReader::with_capacity(READ_BYTES, Decompressor::new(packing, input)));
    }
    let begin = stream::up_to(&mut input, SIGN_BYTES as u64)?;
    if !options.is_uncompressed {
        check_uncompressed(&begin)?;
    }
    if format.about().infers_types {
        check_text(&begin)?;
    }
    let charset = charset_of(&begin, format, options)?;
    let is_marked = charset.is_utf8() && begin.starts_with(UTF8_MARK) && has_mark(format, options);
    let begin = if is_marked { begin[UTF8_MARK.len()..].to_vec() } else { begin };
    input = stream::prepend(begin, input);
    if !charset.is_utf8() {
        input = Box::new(TranscodedInput::new(charset, input)?);
    }
    for _ in 0..options.skip_rows.unwrap_or(0) {
        skip_line(&mut input).map_err(|error| stream::failed("read", &error))?;
    }
    Ok(input)
}

/// The byte order mark that some programs write before UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a byte order mark is dropped as a declaration of the encoding. The format `lines` keeps
/// it unless options set an encoding, because its lines are bytes.
fn has_mark(format: &dyn Format, options: &ReadOptions) -> bool {
    format.about().infers_types || options.encoding.is_some()
}

fn charset_of(begin: &[u8], format: &dyn Format, options: &ReadOptions) -> Result<Charset> {
    match &options.encoding {
        Some(name) => Charset::named(name),
        None if !format.about().infers_types => Ok(Charset::Utf8),
        None => Ok(Charset::of_mark(begin).unwrap_or(Charset::Utf8)),
    }
}

/// Skips a line, which ends with `\n`, `\r` or both.
fn skip_line(input: &mut ByteInput) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (taken, end) = match memchr::memchr2(b'\n', b'\r', bytes) {
            None => (bytes.len(), None),
            Some(at) => (at + 1, Some(bytes[at])),
        };
        input.consume(taken);
        match end {
            None => {}
            Some(b'\n') => return Ok(()),
            Some(_) => {
                let follows = input.fill_buf()?.first() == Some(&b'\n');
                input.consume(usize::from(follows));
                return Ok(());
            }
        }
    }
}

/// The source of a text file that is read from front to back.
#[derive(Clone)]
pub struct TextSource {
    file: FileRef,
    bytes: u64,
    packing: Option<FileCodec>,
    format: &'static dyn Format,
    options: ReadOptions,
}

impl TextSource {
    /// Opens the text at its beginning; each call reads anew.
    pub fn input(&self) -> Result<ByteInput> {
        let blob = open_again(&self.file, self.bytes)?;
        let step = if blob.is_remote() { REMOTE_BYTES } else { READ_BYTES };
        let reader = BufReader::with_capacity(step, BlobReader { blob, offset: 0 });
        if self.bytes == 0 {
            return Ok(Box::new(reader));
        }
        decoded_input(Box::new(reader), self.packing, self.format, &self.options)
    }

    /// Whether the file must be decompressed or transcoded.
    fn is_coded(&self, begin: &[u8]) -> Result<bool> {
        let charset = charset_of(begin, self.format, &self.options)?;
        Ok(self.packing.is_some() || !charset.is_utf8())
    }

    /// Number of lines before the first record.
    pub fn lines_skipped(&self) -> usize {
        self.options.skip_rows.unwrap_or(0)
    }
}

/// Reads a file from front to back.
struct BlobReader {
    blob: Blob,
    offset: u64,
}

impl Read for BlobReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = (self.blob.bytes() - self.offset).min(into.len() as u64) as usize;
        let bytes = self.blob.read_at(self.offset, count).map_err(stream::carried)?;
        into[..count].copy_from_slice(&bytes);
        self.offset += count as u64;
        Ok(count)
    }
}

/// An open text file.
pub struct TextFile {
    source: TextSource,
    /// The text in splits; `None` if the file is read from front to back.
    text: Option<Arc<Text>>,
}

impl TextFile {
    /// Detects the storage of a file. With `quoting`, line ends within quotes do not end a record.
    pub fn open(
        file: &FileRef,
        blob: &Blob,
        format: &'static dyn Format,
        options: &ReadOptions,
        quoting: Option<Quoting>,
    ) -> Result<TextFile> {
        let begin = blob.read_at(0, blob.bytes().min(SIGN_BYTES as u64) as usize)?;
        let packing = packing_of(&begin, options);
        let is_open = packing.is_none() && !begin.is_empty() && !options.is_uncompressed;
        if let Some(named) = FileCodec::of_path(&file.name).filter(|_| is_open) {
            let message = format!("the name says that it is compressed with {}", named.name());
            return Err(Error::corrupt(format!("{message}, and it is not"))
                .remedy("rename it, or see what has become of it"));
        }
        if is_open {
            check_uncompressed(&begin)?;
        }
        if format.about().infers_types {
            check_text(&begin)?;
        }
        let (file, bytes, options) = (file.clone(), blob.bytes(), options.clone());
        let source = TextSource { file, bytes, packing, format, options };
        if source.is_coded(&begin)? {
            return Ok(TextFile { source, text: None });
        }
        let is_marked = begin.starts_with(UTF8_MARK) && has_mark(format, &source.options);
        let mark = if is_marked { UTF8_MARK.len() as u64 } else { 0 };
        let begin = match source.lines_skipped() {
            0 => mark,
            lines => behind_lines(blob, mark, lines)?,
        };
        let text = Some(Arc::new(Text::new(&source.file, blob, begin, quoting)));
        Ok(TextFile { source, text })
    }

    /// The same file as one split.
    pub fn whole(self) -> TextFile {
        TextFile { text: None, ..self }
    }

    /// Number of splits; an empty file has none.
    pub fn splits(&self) -> usize {
        match &self.text {
            Some(text) => text.splits(),
            None => usize::from(self.source.bytes > 0),
        }
    }

    /// The head of the text up to the end of a sample, with whether it is the whole text. `end`
    /// finds the sample's end in a head, given whether that is the whole text.
    pub fn head(
        &self,
        blob: &Blob,
        end: impl Fn(&[u8], bool) -> Option<usize>,
    ) -> Result<(Bytes, bool)> {
        let Some(text) = &self.text else {
            let end = |head: &[u8]| end(head, false);
            let (head, end, all) = sample(&mut self.source.input()?, end)?;
            return Ok((Bytes::from(head).slice(..end), all));
        };
        let mut wanted = SAMPLE_BYTES;
        loop {
            let head = text.head(blob, wanted)?;
            let all = (head.len() as u64) < wanted;
            match end(&head, all) {
                Some(end) => return Ok((head.slice(..end), all)),
                None => wanted = longer_sample(wanted)?,
            }
        }
    }

    /// The file with these columns, or those of `bare` if all files lack any; `read` decodes the
    /// batches of a split.
    pub fn opened<R>(
        self,
        schema: SchemaRef,
        bare: Option<SchemaRef>,
        read: R,
    ) -> Arc<dyn OpenedFile>
    where
        R: Fn(&TextFile, usize, &SchemaRef, &ReadLimits) -> Result<SplitBatches>
            + Send
            + Sync
            + 'static,
    {
        let bytes = Some(self.source.bytes);
        let begin = |split| self.text.as_ref().map_or(0, |text| text.begin_of(split));
        let splits = (0..self.splits()).map(begin).collect();
        let read = move |split: usize, schema: &SchemaRef, limits: &ReadLimits| {
            read(&self, split, schema, limits)
        };
        Arc::new(OpenFile { schema, bare, splits, bytes, read })
    }

    /// How malformed records are passed over, unless they are errors.
    pub fn tolerance(&self) -> Option<Tolerance> {
        let policy = self.source.options.on_error.clone()?;
        Some(Tolerance { policy, file: self.source.file.name.clone() })
    }

    /// The text from its beginning.
    pub fn input(&self) -> Result<ByteInput> {
        self.source.input()
    }

    /// The text in splits; `None` if the file is read from front to back.
    pub fn text(&self) -> Option<&Arc<Text>> {
        self.text.as_ref()
    }

    /// The batches of a split, with a row limit.
    pub fn rows<F: RowFormat + 'static>(
        &self,
        split: usize,
        format: F,
        schema: &SchemaRef,
        rows: usize,
        limits: &ReadLimits,
    ) -> Result<SplitBatches> {
        let (schema, limit) = (schema.clone(), RecordLimit::of_file(limits));
        let tolerance = self.tolerance();
        Ok(match &self.text {
            Some(text) => {
                let range = text.range(split, limit.is_short())?;
                let rows = Rows::of_split(format, text.clone(), range, schema, rows, limit)?;
                Box::new(rows.tolerating(tolerance))
            }
            None => {
                let (input, before) = (self.source.input()?, self.source.lines_skipped());
                let rows = Rows::of_stream(format, input, before, schema, rows, limit)?;
                Box::new(rows.tolerating(tolerance))
            }
        })
    }
}

/// Reads the head of an input until `last_end` finds the end of a record in it. Returns the head,
/// that end, and whether the head is the whole input.
pub fn sample(
    input: &mut ByteInput,
    last_end: impl Fn(&[u8]) -> Option<usize>,
) -> Result<(Vec<u8>, usize, bool)> {
    let mut bytes = vec![];
    let mut wanted = SAMPLE_BYTES as usize;
    loop {
        bytes.append(&mut stream::up_to(input, (wanted - bytes.len()) as u64)?);
        if bytes.len() < wanted {
            let end = bytes.len();
            return Ok((bytes, end, true));
        }
        if let Some(end) = last_end(&bytes) {
            return Ok((bytes, end, false));
        }
        wanted = longer_sample(wanted as u64)? as usize;
    }
}

/// The offset after this many lines that follow the byte order mark.
fn behind_lines(blob: &Blob, mark: u64, lines: usize) -> Result<u64> {
    let (mut at, mut left, mut returned) = (mark, lines, false);
    while at < blob.bytes() {
        let bytes = blob.read_at(at, (blob.bytes() - at).min(SAMPLE_BYTES) as usize)?;
        for (index, &byte) in bytes.iter().enumerate() {
            let follows = std::mem::take(&mut returned) && byte == b'\n';
            if left == 0 {
                return Ok(at + index as u64 + u64::from(follows));
            }
            left -= usize::from(matches!(byte, b'\n' | b'\r') && !follows);
            returned = byte == b'\r';
        }
        at += bytes.len() as u64;
    }
    Ok(at)
}
