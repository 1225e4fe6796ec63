//! Divides text files into splits: byte ranges that are adjusted to record ends.
//!
//! A split owns the records that begin in it: from the first record that begins at or after its
//! first byte, up to the first that begins at or after the first byte of the next split.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use memchr::memchr;
use parking_lot::Mutex;

use crate::csv::quotes::{QuoteState, Quoting, SplitQuoteStates};
use crate::format::open_again;
use crate::text::compression::FileCodec;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

/// Bytes of a split, at most: large compared with the cost to open it.
const SPLIT_BYTES: u64 = 16 << 20;
/// Bytes of the splits of a small local file.
const SPLIT_BYTES_MIN: u64 = 1 << 20;
/// A local file of several splits has at least this number, so that the cores which read them end
/// at about the same time.
const SPLITS_MIN: u64 = 16;

/// Bytes of the first sample for schema inference; the sample doubles while it holds no complete
/// record (`longer_sample`).
pub const SAMPLE_BYTES: u64 = 256 << 10;

/// Bytes of the first read after a split, in search of the end of its last record; and of the
/// largest read.
const BEYOND_BYTES: u64 = 64 << 10;
const BEYOND_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a split that are held at a time where memory is short.
const PIECE_BYTES: u64 = if cfg!(test) { 3 } else { 1 << 20 };

/// A plain text file in splits.
pub struct Text {
    file: FileRef,
    /// Offset of the first record.
    begin: u64,
    bytes: u64,
    split_bytes: u64,
    /// Quoting states at split boundaries, if quoted line ends do not count.
    cuts: Option<SplitQuoteStates>,
    /// The lines that begin at some offsets.
    lines: Mutex<BTreeMap<u64, u64>>,
}

/// Reads the records of a split in parts; a record may span parts.
pub struct SplitParts {
    text: Arc<Text>,
    blob: Blob,
    /// Offset of the first record in the file.
    pub offset: u64,
    /// Whether this is the first split of the file.
    pub is_first: bool,
    /// The next part, if it has been read.
    part: Bytes,
    /// Offset of the part after it, and of the end of the split.
    at: u64,
    end: u64,
    /// Bytes of the split per read.
    piece_bytes: u64,
    /// The last byte that has been read.
    last: u8,
    /// The quoting state at the end of the split, later at the end of the bytes read; `None` when
    /// the last record has ended.
    state: Option<QuoteState>,
    /// Bytes per read after the split.
    step: u64,
}

impl SplitParts {
    /// The next part; `None` after the last record.
    pub fn next_part(&mut self) -> Result<Option<Bytes>> {
        if !self.part.is_empty() {
            return Ok(Some(std::mem::take(&mut self.part)));
        }
        if self.at < self.end {
            return self.next_piece().map(Some);
        }
        let Some(state) = self.state.take() else { return Ok(None) };
        let count = self.step.min(self.text.bytes - self.at);
        let bytes = self.blob.read_at(self.at, count as usize)?;
        let Some(&last) = bytes.last() else { return Ok(None) };
        let part = match self.text.record_begin(state, self.last, &bytes) {
            Ok(begin) => bytes.slice(..begin),
            Err(state) => {
                (self.state, self.last) = (Some(state), last);
                self.step = (self.step * 2).min(BEYOND_BYTES_MAX);
                bytes
            }
        };
        self.at += part.len() as u64;
        Ok(Some(part).filter(|part| !part.is_empty()))
    }

    /// Reads the next piece of the split itself.
    fn next_piece(&mut self) -> Result<Bytes> {
        let count = self.piece_bytes.min(self.end - self.at);
        let piece = self.blob.read_at(self.at, count as usize)?;
        self.at += count;
        self.last = piece.last().copied().unwrap_or(self.last);
        Ok(piece)
    }

    /// Advances to the first record that begins in the split, or to the split's end, given the
    /// state before it. The `whole` split may have been read already.
    fn find_first(&mut self, mut state: QuoteState, mut whole: Bytes) -> Result<()> {
        while self.at < self.end {
            let before = self.last;
            let piece = match std::mem::take(&mut whole) {
                none if none.is_empty() => self.next_piece()?,
                whole => {
                    (self.at, self.last) = (self.end, whole[whole.len() - 1]);
                    whole
                }
            };
            match self.text.record_begin(state, before, &piece) {
                Ok(begin) => {
                    self.offset += begin as u64;
                    self.part = piece.slice(begin..);
                    return Ok(());
                }
                Err(after) => state = after,
            }
            self.offset += piece.len() as u64;
        }
        self.state = None;
        Ok(())
    }
}

/// Bytes of the splits of a file. Each split of a remote file costs a request, so these are large.
pub fn split_bytes(blob: &Blob) -> u64 {
    match blob.is_remote() {
        true => SPLIT_BYTES,
        false => blob.bytes().div_ceil(SPLITS_MIN).clamp(SPLIT_BYTES_MIN, SPLIT_BYTES),
    }
}

impl Text {
    /// A file whose records begin at an offset. With `quoting`, line ends within quoted fields do
    /// not end a record; otherwise every line is a record.
    pub fn new(file: &FileRef, blob: &Blob, begin: u64, quoting: Option<Quoting>) -> Text {
        let (file, bytes, split_bytes) = (file.clone(), blob.bytes(), split_bytes(blob));
        let text = Text { file, begin, bytes, split_bytes, cuts: None, lines: Mutex::default() };
        let cuts = quoting.map(|quoting| SplitQuoteStates::new(quoting, text.splits()));
        Text { cuts, ..text }
    }

    /// Number of splits; an empty file has none.
    pub fn splits(&self) -> usize {
        self.bytes.saturating_sub(self.begin).div_ceil(self.split_bytes) as usize
    }

    /// Offset of a split in the file.
    pub fn begin_of(&self, split: usize) -> u64 {
        self.begin + split as u64 * self.split_bytes
    }

    /// The first `bytes` bytes of the records, or fewer if the file ends.
    pub fn head(&self, blob: &Blob, bytes: u64) -> Result<Bytes> {
        let all = self.bytes.saturating_sub(self.begin);
        blob.read_at(self.begin.min(self.bytes), bytes.min(all) as usize)
    }

    /// The records of a split. With `in_pieces`, one piece is held at a time, and with quoting the
    /// split is read twice: first for its transition of quoting states.
    pub fn range(self: &Arc<Self>, split: usize, in_pieces: bool) -> Result<SplitParts> {
        let blob = open_again(&self.file, self.bytes)?;
        let in_pieces = in_pieces && !blob.is_remote();
        let piece_bytes = if in_pieces { PIECE_BYTES } else { self.split_bytes };
        let whole = RefCell::default();
        let (enters, leaves) = match &self.cuts {
            Some(cuts) => {
                let read = |other: usize, see: &mut dyn FnMut(u8, &[u8])| {
                    let last = self.show(&blob, other, piece_bytes, see)?;
                    if other == split && !in_pieces {
                        whole.replace(last);
                    }
                    Ok(())
                };
                cuts.compute_transition(split, &read)?;
                (cuts.state_before(split, &read)?, cuts.state_before(split + 1, &read)?)
            }
            None => (QuoteState::Out, QuoteState::Out),
        };
        let (begin, end) = self.bounds(split);
        let mut range = SplitParts {
            text: self.clone(),
            blob,
            offset: begin,
            is_first: split == 0,
            part: Bytes::new(),
            at: begin,
            end,
            piece_bytes,
            last: b'\n',
            state: Some(leaves),
            step: BEYOND_BYTES,
        };
        if split > 0 {
            range.last = range.blob.read_at(begin - 1, 1)?[0];
        }
        range.find_first(enters, whole.into_inner())?;
        Ok(range)
    }

    /// Offsets of the begin and the end of a split in the file.
    fn bounds(&self, split: usize) -> (u64, u64) {
        let begin = self.begin_of(split);
        (begin, (begin + self.split_bytes).min(self.bytes))
    }

    /// Passes a split on piece by piece, each with the byte before it; returns the last piece.
    fn show(
        &self,
        blob: &Blob,
        split: usize,
        piece_bytes: u64,
        see: &mut dyn FnMut(u8, &[u8]),
    ) -> Result<Bytes> {
        let (mut at, end) = self.bounds(split);
        let mut before = if split > 0 { blob.read_at(at - 1, 1)?[0] } else { b'\n' };
        let mut piece = Bytes::new();
        while at < end {
            piece = blob.read_at(at, piece_bytes.min(end - at) as usize)?;
            see(before, &piece);
            at += piece.len() as u64;
            before = piece.last().copied().unwrap_or(before);
        }
        Ok(piece)
    }

    /// Reads bytes of the file again, to explain an error in them.
    pub fn bytes_between(&self, begin: u64, end: u64) -> Result<Bytes> {
        open_again(&self.file, self.bytes)?.read_at(begin, (end - begin) as usize)
    }

    /// The number of the line (from 1) that begins at an offset; reads the bytes
    /// between it and the last known line before it.
    pub fn line(&self, offset: u64) -> Result<u64> {
        let blob = open_again(&self.file, self.bytes)?;
        let known = self.lines.lock().range(..=offset).next_back().map(|(at, line)| (*at, *line));
        let (mut at, mut line) = known.unwrap_or((0, 1));
        while at < offset {
            let bytes = blob.read_at(at, (offset - at).min(1 << 20) as usize)?;
            line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
            at += bytes.len() as u64;
        }
        self.lines.lock().insert(offset, line);
        Ok(line)
    }

    /// The index of the first record that begins in `bytes` or right after them, given the quoting
    /// `state` and the byte `before` them; otherwise the state after them.
    fn record_begin(
        &self,
        state: QuoteState,
        before: u8,
        bytes: &[u8],
    ) -> Result<usize, QuoteState> {
        if state != QuoteState::Quoted && before == b'\n' {
            return Ok(0);
        }
        match &self.cuts {
            Some(cuts) => cuts.quoting().record_end(state, before, bytes),
            None => memchr(b'\n', bytes).map(|at| at + 1).ok_or(state),
        }
    }
}

/// The end of a sample: the end of its last complete record; `None` if it has fewer than `records`.
pub fn sample_end(quoting: Quoting, bytes: &[u8], records: usize) -> Option<usize> {
    let (mut end, mut count) = (0, 0);
    while let Ok(more) = quoting.record_end(QuoteState::Out, b'\n', &bytes[end..]) {
        end += more;
        count += 1;
    }
    (count >= records).then_some(end)
}

/// The text without the byte order mark that some programs write before UTF-8.
pub fn without_mark(begin: &[u8]) -> &[u8] {
    begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin)
}

/// Fails if the bytes begin a compressed file that is not decompressed here.
pub fn check_uncompressed(begin: &[u8]) -> Result<()> {
    let with = match (FileCodec::of_bytes(begin), begin) {
        (Some(packing), _) => packing.name(),
        (None, [0xfd, b'7', b'z', b'X', b'Z', ..]) => "xz",
        _ => return Ok(()),
    };
    Err(Error::corrupt(format!("it is compressed with {with}"))
        .remedy(format!("decompress it first: `{with} -dc FILE | euphrates copy-in …`")))
}

/// Average bytes of a line in a sample.
pub fn line_bytes(sample: &[u8]) -> usize {
    sample.len() / memchr::memchr_iter(b'\n', sample).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(
        folder: &tempfile::TempDir,
        content: &[u8],
        split_bytes: u64,
        quotes: bool,
    ) -> Arc<Text> {
        let path = folder.path().join("text");
        std::fs::write(&path, content).unwrap();
        let file = FileRef::local(path);
        let blob = file.open().unwrap();
        let mut text = Text { split_bytes, ..Text::new(&file, &blob, 0, None) };
        if quotes {
            text.cuts = Some(SplitQuoteStates::new(Quoting::usual(b','), text.splits()));
        }
        Arc::new(text)
    }

    fn record_ends(content: &[u8], quotes: bool) -> Vec<usize> {
        let quoting = Quoting::usual(b',');
        let mut ends = vec![0];
        loop {
            let at = *ends.last().unwrap();
            let more = match quotes {
                true => quoting.record_end(QuoteState::Out, b'\n', &content[at..]).ok(),
                false => memchr(b'\n', &content[at..]).map(|end| end + 1),
            };
            match more {
                Some(more) => ends.push(at + more),
                None => return ends,
            }
        }
    }

    proptest! {
        #[test]
        fn splits_are_the_file_cut_at_record_ends(
            content in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'),
                Just(b'a')], 0..80),
            split_bytes in 1u64..20,
            quotes: bool,
            in_pieces: bool,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let text = text(&folder, &content, split_bytes, quotes);
            let ends = record_ends(&content, quotes);
            let mut joined = vec![];
            for split in 0..text.splits() {
                let mut range = text.range(split, in_pieces).unwrap();
                let Some(first) = range.next_part().unwrap() else { continue };
                prop_assert_eq!(range.offset, joined.len() as u64);
                prop_assert!(ends.contains(&joined.len()));
                prop_assert!(range.offset >= split as u64 * split_bytes);
                prop_assert!(range.offset < (split as u64 + 1) * split_bytes);
                joined.extend_from_slice(&first);
                while let Some(part) = range.next_part().unwrap() {
                    joined.extend_from_slice(&part);
                }
            }
            prop_assert_eq!(joined, content);
        }
    }

    #[test]
    fn lines_are_numbered_from_one() {
        let folder = tempfile::tempdir().unwrap();
        let text = text(&folder, b"a\nb\nc", 2, false);
        assert_eq!((text.line(0).unwrap(), text.line(4).unwrap()), (1, 3));
    }
}
