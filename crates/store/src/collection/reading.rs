//! A collection being read by any number of readers: piece by piece where it lies on one disk, and
//! by graduated declustering where it has mirrors, or several disks to keep busy at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Exchange, Result};

use super::{Claims, Collection, Numbers};
use crate::declustering::{self, Among, Declustered, Mirrors, Sequence};
use crate::segment::{ReadBlock, ReadOptions, Reader};

/// Read ahead and kept at most of a collection on several disks, unless that is said.
const WINDOW_BYTES_MAX: usize = 256 << 20;

/// How a collection is read.
#[derive(Clone, Debug)]
pub struct ReadAs {
    /// As numbered runs in the order written; else in any order.
    pub is_stream: bool,
    /// How the copies share the reading.
    pub mirrors: Mirrors,
    /// Of one on several disks: bytes claimed, read ahead and kept at most, but for a few blocks
    /// of each segment.
    pub window_bytes_max: usize,
    /// Columns, and the requests to one disk.
    pub options: ReadOptions,
    /// Of one on several disks: the other processes that read it, and the workers that own disks.
    pub exchange: Option<(Arc<dyn Exchange>, BTreeMap<String, String>)>,
}

impl Default for ReadAs {
    fn default() -> ReadAs {
        ReadAs {
            is_stream: false,
            mirrors: Mirrors::default(),
            window_bytes_max: WINDOW_BYTES_MAX,
            options: ReadOptions::default(),
            exchange: None,
        }
    }
}

/// All of a collection, for any number of readers.
pub enum Reading {
    /// On one disk.
    Plain(Arc<Claims>, ReadOptions),
    /// On several.
    Declustered(Arc<Declustered>),
}

/// One of the readers. After an error it ends.
pub enum CollectionReader {
    /// Of a collection on one disk.
    Plain(Reader),
    /// Of one on several.
    Declustered(declustering::Reader),
}

impl Reading {
    pub(super) fn new(collection: &Collection, how: ReadAs) -> Result<Reading> {
        let manifest = collection.manifest();
        if collection.is_in_pieces(how.is_stream) {
            return Ok(Reading::Plain(collection.claims(how.is_stream)?, how.options));
        }
        let sequence = match (how.is_stream, manifest.interleaved) {
            (false, _) => None,
            (true, true) => Some(Sequence::interleaved(collection.copies())?),
            (true, false) => Some(Sequence::consecutive(collection.copies())),
        };
        let (copies, schema) = (collection.copies(), collection.schema());
        let among = match &how.exchange {
            Some((exchange, workers)) if !how.is_stream => {
                Among::new(exchange.clone(), copies, workers)
            }
            _ => Among::alone(copies.len()),
        };
        Ok(Reading::Declustered(Declustered::new(copies, schema, sequence, (how, among))?))
    }

    /// Numbers for readers that share this object; what is on one disk is claimed by them.
    pub fn numbers(&self) -> Numbers {
        match self {
            Reading::Plain(claims, _) => claims.numbers(),
            Reading::Declustered(_) => Box::new(|| Ok(0)),
        }
    }

    /// A reader, for one thread, whose waiting ends with the flow.
    pub fn reader(&self, cancel: &Arc<Cancel>, numbers: Numbers) -> CollectionReader {
        match self {
            Reading::Plain(claims, options) => {
                CollectionReader::Plain(claims.reader(options.clone(), numbers))
            }
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader(cancel))
            }
        }
    }

    /// The next of so many readers of this process, for which the segments of several disks are
    /// divided in advance.
    pub fn reader_of(
        &self,
        cancel: &Arc<Cancel>,
        readers: usize,
        numbers: Numbers,
    ) -> CollectionReader {
        match self {
            Reading::Plain(..) => self.reader(cancel, numbers),
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader_of(cancel, readers))
            }
        }
    }

    /// Another process that reads it, too, tells something.
    pub fn on_told(&self, process: usize, letter: &[u8], body: &Buffer) -> Result<()> {
        match self {
            Reading::Plain(..) => Err(Error::corrupt("a letter for a collection on one disk")),
            Reading::Declustered(declustered) => declustered.on_told(process, letter, body),
        }
    }

    /// What there is to say of it, for people: how much came from each disk, what was damaged.
    pub fn remark(&self) -> Option<String> {
        match self {
            Reading::Plain(..) => None,
            Reading::Declustered(declustered) => declustered.remark(),
        }
    }

    /// The bytes that came from each disk, where there are several.
    pub fn bytes_by_disk(&self) -> Vec<(String, u64)> {
        match self {
            Reading::Plain(..) => vec![],
            Reading::Declustered(declustered) => declustered.bytes_by_disk(),
        }
    }
}

impl CollectionReader {
    /// The next block, `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<ReadBlock>> {
        match self {
            CollectionReader::Plain(reader) => reader.next_block(),
            CollectionReader::Declustered(reader) => reader.next_block(),
        }
    }
}

impl Iterator for CollectionReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.next_block().map(|read| read.map(|block| block.batch)).transpose()
    }
}
