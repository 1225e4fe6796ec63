//! Text files in splits: ranges of bytes, cut where records end.
//!
//! A split owns the records that begin in it: from the first record that begins at or behind its
//! first byte to the first that begins at or behind the first byte of the next split.

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use memchr::{memchr, memrchr};

use super::csv_quotes::{Cuts, Quoting, State};
use super::packing::Packing;
use crate::blob::Blob;
use crate::location::FileRef;

/// The size of a split: large beside what opening it costs, small beside a file worth splitting.
pub const SPLIT_BYTES: u64 = 16 << 20;

/// The most bytes of a file that are looked at to infer its schema.
pub const SAMPLE_BYTES: u64 = 256 << 10;

/// What is read at a time behind a split, in search of the end of its last record.
const BEYOND_BYTES: u64 = 64 << 10;

/// A record longer than this is taken for a file that is not text.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// A text file.
pub struct Text {
    file: FileRef,
    /// Where its first record begins.
    begin: u64,
    bytes: u64,
    split_bytes: u64,
    /// Where line ends within quotes do not count.
    cuts: Option<Cuts>,
}

/// The records of a split.
#[derive(Debug)]
pub struct Range {
    /// Their bytes; a record may lie across two parts.
    pub parts: Vec<Bytes>,
    /// Where they begin in the file.
    pub offset: u64,
    /// They are the first of the file.
    pub is_first: bool,
}

impl Text {
    /// A file whose records begin at an offset. With quotes, line ends within quoted fields do not
    /// end a record; else every line is one.
    pub fn new(file: &FileRef, blob: &Blob, begin: u64, quoting: Option<Quoting>) -> Text {
        let (file, bytes, split_bytes) = (file.clone(), blob.bytes(), SPLIT_BYTES);
        let text = Text { file, begin, bytes, split_bytes, cuts: None };
        let cuts = quoting.map(|quoting| Cuts::new(quoting, text.splits()));
        Text { cuts, ..text }
    }

    /// The number of splits; an empty file has none.
    pub fn splits(&self) -> usize {
        self.bytes.saturating_sub(self.begin).div_ceil(self.split_bytes) as usize
    }

    /// The first bytes of the records, as many as there are.
    pub fn head(&self, blob: &Blob, bytes: u64) -> Result<Bytes> {
        let all = self.bytes.saturating_sub(self.begin);
        blob.read_at(self.begin.min(self.bytes), bytes.min(all) as usize)
    }

    /// The first records of the file, whole unless it ends within one.
    pub fn sample(&self, blob: &Blob) -> Result<Bytes> {
        let mut bytes = SAMPLE_BYTES;
        let all = self.bytes.saturating_sub(self.begin);
        loop {
            let sample = self.head(blob, bytes)?;
            if sample.len() as u64 == all {
                return Ok(sample);
            }
            if let Some(end) = self.last_record_end(&sample) {
                return Ok(sample.slice(..end));
            }
            bytes = longer(bytes)?;
        }
    }

    /// The records of a split.
    pub fn range(&self, split: usize) -> Result<Range> {
        let blob = self.reopen()?;
        let read = |split: usize| self.read_split(&blob, split);
        let (before, own) = match &self.cuts {
            Some(cuts) => cuts.note(split, &read)?,
            None => read(split)?,
        };
        let (enters, leaves) = match &self.cuts {
            Some(cuts) => (cuts.state_before(split, &read)?, cuts.state_before(split + 1, &read)?),
            None => (State::Out, State::Out),
        };
        let begin = self.begin + split as u64 * self.split_bytes;
        let is_first = split == 0;
        let Ok(first) = self.record_begin(enters, before, &own) else {
            return Ok(Range { parts: vec![], offset: begin, is_first });
        };
        let end = begin + own.len() as u64;
        let last = own.last().copied().unwrap_or(b'\n');
        let beyond = self.read_beyond(&blob, leaves, last, end)?;
        let offset = begin + first as u64;
        let parts = [own.slice(first..), beyond].into_iter().filter(|part| !part.is_empty());
        Ok(Range { parts: parts.collect(), offset, is_first })
    }

    /// The number of the line (from 1) that begins at an offset; reads all that is before it.
    pub fn line(&self, offset: u64) -> Result<u64> {
        let blob = self.reopen()?;
        let mut line = 1;
        let mut at = 0;
        while at < offset {
            let bytes = blob.read_at(at, (offset - at).min(1 << 20) as usize)?;
            line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
            at += bytes.len() as u64;
        }
        Ok(line)
    }

    fn reopen(&self) -> Result<Blob> {
        let blob = self.file.open()?;
        if blob.bytes() == self.bytes {
            return Ok(blob);
        }
        let message = "the file changed between being opened and being read";
        Err(Error::corrupt(message).at(blob.name()).remedy("run again"))
    }

    /// The byte before a split (a line end before the file), and the split.
    fn read_split(&self, blob: &Blob, split: usize) -> Result<(u8, Bytes)> {
        let begin = self.begin + split as u64 * self.split_bytes;
        let end = (begin + self.split_bytes).min(self.bytes);
        if split > 0 {
            let bytes = blob.read_at(begin - 1, (end - begin + 1) as usize)?;
            return Ok((bytes[0], bytes.slice(1..)));
        }
        Ok((b'\n', blob.read_at(begin, (end - begin) as usize)?))
    }

    /// The rest of the last record of a split that ends at `end` with the byte `last`.
    fn read_beyond(&self, blob: &Blob, state: State, last: u8, end: u64) -> Result<Bytes> {
        let mut bytes = BEYOND_BYTES;
        loop {
            let beyond = blob.read_at(end, bytes.min(self.bytes - end) as usize)?;
            match self.record_begin(state, last, &beyond) {
                Ok(begin) => return Ok(beyond.slice(..begin)),
                Err(_) if end + beyond.len() as u64 == self.bytes => return Ok(beyond),
                Err(_) => bytes = longer(bytes)?,
            }
        }
    }

    /// The index of the first record that begins in `bytes` (or right behind them), which are
    /// entered in `state` behind the byte `before`.
    fn record_begin(&self, state: State, before: u8, bytes: &[u8]) -> Result<usize, State> {
        if state != State::Quoted && before == b'\n' {
            return Ok(0);
        }
        match &self.cuts {
            Some(cuts) => cuts.quoting().record_end(state, before, bytes),
            None => memchr(b'\n', bytes).map(|at| at + 1).ok_or(state),
        }
    }

    fn last_record_end(&self, bytes: &[u8]) -> Option<usize> {
        last_record_end(self.cuts.as_ref().map(Cuts::quoting), bytes)
    }
}

/// The index behind the last whole record of a text.
pub fn last_record_end(quoting: Option<Quoting>, bytes: &[u8]) -> Option<usize> {
    let Some(quoting) = quoting else { return memrchr(b'\n', bytes).map(|at| at + 1) };
    let mut end = 0;
    while let Ok(more) = quoting.record_end(State::Out, b'\n', &bytes[end..]) {
        end += more;
    }
    (end > 0).then_some(end)
}

/// The text without the mark that some programs put before UTF-8.
pub fn without_mark(begin: &[u8]) -> &[u8] {
    begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin)
}

/// Fails if this is the beginning of a compressed file, as far as it is not undone here.
pub fn uncompressed(begin: &[u8]) -> Result<()> {
    let with = match (Packing::of_bytes(begin), begin) {
        (Some(packing), _) => packing.name(),
        (None, [0xfd, b'7', b'z', b'X', b'Z', ..]) => "xz",
        _ => return Ok(()),
    };
    Err(Error::corrupt(format!("it is compressed with {with}"))
        .remedy(format!("decompress it first: `{with} -dc FILE | euphrates copy-in …`")))
}

/// The average length of the lines of a sample in bytes.
pub fn line_bytes(sample: &[u8]) -> usize {
    sample.len() / memchr::memchr_iter(b'\n', sample).count().max(1)
}

fn longer(bytes: u64) -> Result<u64> {
    match bytes < RECORD_BYTES_MAX {
        true => Ok(bytes * 4),
        false => Err(Error::corrupt("no line end within a gigabyte: this is no text file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(folder: &tempfile::TempDir, content: &[u8], split_bytes: u64, quotes: bool) -> Text {
        let path = folder.path().join("text");
        std::fs::write(&path, content).unwrap();
        let file = FileRef::local(path);
        let blob = file.open().unwrap();
        let mut text = Text { split_bytes, ..Text::new(&file, &blob, 0, None) };
        if quotes {
            text.cuts = Some(Cuts::new(Quoting::usual(b','), text.splits()));
        }
        text
    }

    fn record_ends(content: &[u8], quotes: bool) -> Vec<usize> {
        let quoting = Quoting::usual(b',');
        let mut ends = vec![0];
        loop {
            let at = *ends.last().unwrap();
            let more = match quotes {
                true => quoting.record_end(State::Out, b'\n', &content[at..]).ok(),
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
        ) {
            let folder = tempfile::tempdir().unwrap();
            let text = text(&folder, &content, split_bytes, quotes);
            let ends = record_ends(&content, quotes);
            let mut joined = vec![];
            for split in 0..text.splits() {
                let range = text.range(split).unwrap();
                if range.parts.is_empty() {
                    continue;
                }
                prop_assert_eq!(range.offset, joined.len() as u64);
                prop_assert!(ends.contains(&joined.len()));
                prop_assert!(range.offset >= split as u64 * split_bytes);
                prop_assert!(range.offset < (split as u64 + 1) * split_bytes);
                range.parts.iter().for_each(|part| joined.extend_from_slice(part));
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
