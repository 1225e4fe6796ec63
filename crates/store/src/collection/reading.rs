//! Shared reading of a collection by any number of readers.
//!
//! Readers claim a collection on one disk piece by piece; graduated declustering reads one with
//! mirrors, or with several disks to keep busy at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Result};

use super::read_as::ReadAs;
use super::{Claims, Collection, Numbers};
use crate::declustering::{self, Among, Declustered, Sequence};
use crate::segment::{ReadBlock, ReadOptions, Reader};

/// A whole collection, shared by any number of readers.
pub enum Reading {
    /// A collection on one disk.
    OneDisk(Arc<Claims>, ReadOptions),
    /// A collection on several disks.
    Declustered(Arc<Declustered>),
}

/// One of the readers. The caller must not use it after an error.
pub enum CollectionReader {
    /// Reads a collection on one disk.
    OneDisk(Reader),
    /// Reads a collection on several disks.
    Declustered(declustering::Reader),
}

impl Collection {
    /// Reads the whole collection on one thread, in the order of writing.
    pub fn read(&self, options: ReadOptions) -> Result<CollectionReader> {
        let how = ReadAs { is_stream: true, options, ..ReadAs::default() };
        let reading = self.reading(how)?;
        Ok(reading.reader(&Arc::new(Cancel::default()), reading.numbers()))
    }

    /// Shares the reading of the whole collection among any number of readers.
    pub fn reading(&self, how: ReadAs) -> Result<Arc<Reading>> {
        Reading::new(self, how).map(Arc::new)
    }
}

impl Reading {
    fn new(collection: &Collection, how: ReadAs) -> Result<Reading> {
        let manifest = collection.manifest();
        if collection.is_in_pieces(how.is_stream) {
            return Ok(Reading::OneDisk(collection.claims(how.is_stream)?, how.options));
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

    /// A counter for readers that share this object; they claim the pieces of a collection on one
    /// disk by it.
    pub fn numbers(&self) -> Numbers {
        match self {
            Reading::OneDisk(claims, _) => claims.numbers(),
            Reading::Declustered(_) => Box::new(|| Ok(0)),
        }
    }

    /// A reader for one thread, whose waits end with the flow.
    pub fn reader(&self, cancel: &Arc<Cancel>, numbers: Numbers) -> CollectionReader {
        match self {
            Reading::OneDisk(claims, options) => {
                CollectionReader::OneDisk(claims.reader(options.clone(), numbers))
            }
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader(cancel))
            }
        }
    }

    /// The next of `readers` readers of this process, among which the segments of several disks are
    /// divided in advance.
    pub fn reader_of(
        &self,
        cancel: &Arc<Cancel>,
        readers: usize,
        numbers: Numbers,
    ) -> CollectionReader {
        match self {
            Reading::OneDisk(..) => self.reader(cancel, numbers),
            Reading::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader_of(cancel, readers))
            }
        }
    }

    /// Handles a message of another process that reads the collection. A malformed one is an error.
    pub fn on_message(&self, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        match self {
            Reading::OneDisk(..) => {
                Err(Error::corrupt("a message about a collection on one disk, which has none"))
            }
            Reading::Declustered(declustered) => declustered.on_message(process, bytes, body),
        }
    }

    /// A remark for the report: the bytes from each disk, and the damages.
    pub fn remark(&self) -> Option<String> {
        match self {
            Reading::OneDisk(..) => None,
            Reading::Declustered(declustered) => declustered.remark(),
        }
    }

    /// The bytes from each disk, if there are several.
    pub fn bytes_by_disk(&self) -> Vec<(String, u64)> {
        match self {
            Reading::OneDisk(..) => vec![],
            Reading::Declustered(declustered) => declustered.bytes_by_disk(),
        }
    }
}

impl CollectionReader {
    /// The next block, `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<ReadBlock>> {
        match self {
            CollectionReader::OneDisk(reader) => reader.next_block(),
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
