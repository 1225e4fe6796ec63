//! Shared reading of a collection by any number of readers.
//!
//! Readers claim a collection on one disk piece by piece; graduated declustering reads one with
//! mirrors, or with several disks to keep busy at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Result};

use super::read_options::CollectionReadOptions;
use super::{ClaimCounter, Collection, CollectionUnits};
use crate::declustering::{self, Declustered, ReaderAssignment, Sequence};
use crate::segment::{BlockReadOptions, BlockReader, ReadBlock};

/// A whole collection, shared by any number of readers.
pub enum CollectionScan {
    /// A collection on one disk.
    OneDisk(Arc<CollectionUnits>, BlockReadOptions),
    /// A collection on several disks.
    Declustered(Arc<Declustered>),
}

/// One of the readers. The caller must not use it after an error.
pub enum CollectionReader {
    /// Reads a collection on one disk.
    OneDisk(BlockReader),
    /// Reads a collection on several disks.
    Declustered(declustering::MirrorReader),
}

impl Collection {
    /// Reads the whole collection on one thread, in the order of writing.
    pub fn read(&self, options: BlockReadOptions) -> Result<CollectionReader> {
        let how =
            CollectionReadOptions { is_stream: true, options, ..CollectionReadOptions::default() };
        let reading = self.reading(how)?;
        Ok(reading.reader(&Arc::new(Cancel::default()), reading.numbers()))
    }

    /// Shares the reading of the whole collection among any number of readers.
    pub fn reading(&self, how: CollectionReadOptions) -> Result<Arc<CollectionScan>> {
        CollectionScan::new(self, how).map(Arc::new)
    }
}

impl CollectionScan {
    fn new(collection: &Collection, how: CollectionReadOptions) -> Result<CollectionScan> {
        let manifest = collection.manifest();
        if collection.has_work_units(how.is_stream) {
            return Ok(CollectionScan::OneDisk(collection.claims(how.is_stream)?, how.options));
        }
        let sequence = match (how.is_stream, manifest.interleaved) {
            (false, _) => None,
            (true, true) => Some(Sequence::interleaved(collection.copies())?),
            (true, false) => Some(Sequence::consecutive(collection.copies())),
        };
        let (copies, schema) = (collection.copies(), collection.schema());
        let among = match &how.exchange {
            Some((exchange, workers)) if !how.is_stream => {
                ReaderAssignment::new(exchange.clone(), copies, workers)
            }
            _ => ReaderAssignment::alone(copies.len()),
        };
        Ok(CollectionScan::Declustered(Declustered::new(copies, schema, sequence, (how, among))?))
    }

    /// A counter for readers that share this object; they claim the pieces of a collection on one
    /// disk by it.
    pub fn numbers(&self) -> ClaimCounter {
        match self {
            CollectionScan::OneDisk(claims, _) => claims.numbers(),
            CollectionScan::Declustered(_) => Box::new(|| Ok(0)),
        }
    }

    /// A reader for one thread. `cancel` ends the waits of a reader of several disks; a reader of
    /// one disk does not use it.
    pub fn reader(&self, cancel: &Arc<Cancel>, numbers: ClaimCounter) -> CollectionReader {
        match self {
            CollectionScan::OneDisk(claims, options) => {
                CollectionReader::OneDisk(claims.reader(options.clone(), numbers))
            }
            CollectionScan::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader(cancel))
            }
        }
    }

    /// One of `readers` readers of this process; each call returns the next one. Each has its own
    /// share of the segments of several disks, fixed here; a stream or a collection on one disk is
    /// not divided.
    pub fn divided_reader(
        &self,
        cancel: &Arc<Cancel>,
        readers: usize,
        numbers: ClaimCounter,
    ) -> CollectionReader {
        match self {
            CollectionScan::OneDisk(..) => self.reader(cancel, numbers),
            CollectionScan::Declustered(declustered) => {
                CollectionReader::Declustered(declustered.reader_of(cancel, readers))
            }
        }
    }

    /// Handles a message of another process that reads the collection. A malformed one is an error.
    pub fn on_message(&self, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        match self {
            CollectionScan::OneDisk(..) => {
                Err(Error::corrupt("a message about a collection on one disk, which has none"))
            }
            CollectionScan::Declustered(declustered) => {
                declustered.on_message(process, bytes, body)
            }
        }
    }

    /// A remark for the report: the bytes from each disk, and the damages.
    pub fn remark(&self) -> Option<String> {
        match self {
            CollectionScan::OneDisk(..) => None,
            CollectionScan::Declustered(declustered) => declustered.remark(),
        }
    }

    /// The bytes from each disk, if there are several.
    pub fn bytes_by_disk(&self) -> Vec<(String, u64)> {
        match self {
            CollectionScan::OneDisk(..) => vec![],
            CollectionScan::Declustered(declustered) => declustered.bytes_by_disk(),
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
