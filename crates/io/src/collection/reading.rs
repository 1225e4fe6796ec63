//! A collection being read by any number of readers: piece by piece where it lies on one disk, and
//! by graduated declustering where it has mirrors, or several disks to keep busy at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use euphrates_flow::{Cancel, Result};

use super::{Claims, Collection};
use crate::declustering::{self, Declustered, Mirrors, Sequence};
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
}

impl Default for ReadAs {
    fn default() -> ReadAs {
        ReadAs {
            is_stream: false,
            mirrors: Mirrors::default(),
            window_bytes_max: WINDOW_BYTES_MAX,
            options: ReadOptions::default(),
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
        if manifest.disks().len() <= 1 {
            return Ok(Reading::Plain(collection.claims(how.is_stream), how.options));
        }
        let sequence = match (how.is_stream, manifest.interleaved) {
            (false, _) => None,
            (true, true) => Some(Sequence::interleaved(collection.copies())?),
            (true, false) => Some(Sequence::consecutive(collection.copies())),
        };
        let (copies, schema) = (collection.copies(), collection.schema());
        Ok(Reading::Declustered(Declustered::new(copies, schema, sequence, how)?))
    }

    /// A reader, for one thread, whose waiting ends with the flow.
    pub fn reader(&self, cancel: &Arc<Cancel>) -> CollectionReader {
        match self {
            Reading::Plain(claims, options) => {
                CollectionReader::Plain(claims.reader(options.clone()))
            }
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader(cancel))
            }
        }
    }

    /// One of so many readers, for which the segments of several disks are divided in advance.
    pub fn reader_of(
        &self,
        cancel: &Arc<Cancel>,
        number: usize,
        readers: usize,
    ) -> CollectionReader {
        match self {
            Reading::Plain(..) => self.reader(cancel),
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader_of(cancel, number, readers))
            }
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
