//! Segments: the part of a collection on one disk, or a run of a sort on scratch.
//!
//! A segment is a plain Arrow IPC file, which every Arrow tool reads, with its table of contents in
//! a second file (`toc.rs`), which also has the bounds of the columns in each block (`bounds.rs`,
//! `statistics.rs`). The writer takes blocks from the batch's own buffers (`encode.rs`,
//! `writer.rs`); the reader checks them before Arrow decodes them in place (`reader.rs`,
//! `decode.rs`).

mod block;
mod bounds;
mod decode;
mod encode;
mod file_copy;
mod reader;
mod statistics;
mod toc;
mod verify;
mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};

pub use block::Block;
pub(crate) use bounds::{BoundValue, ColumnBounds, bounds_of};
pub use decode::BlockDecoder;
pub(crate) use decode::expect_crc;
pub(crate) use encode::has_dictionary;
pub use encode::{BlockCompression, BlockEncoder, EncodedBlock};
use euphrates_device::disk::{Disk, DiskFile};
pub(crate) use file_copy::{FileCopy, write_synced};
pub use reader::{BlockClaim, BlockReadOptions, BlockReader, ReadBlock};
pub use statistics::{BlockBounds, BlockStatistics};
pub use toc::Toc;
pub use toc::{message_of_schema, schema_of_message};
pub use verify::Damage;
pub use writer::{BlockInfo, CopyTarget, SegmentOptions, SegmentWriter, SharedSegment};

/// A finished segment. A scratch segment's file is removed when this is dropped.
#[derive(Debug)]
pub struct Segment {
    disk: Disk,
    path: PathBuf,
    toc: Arc<Toc>,
    scratch: bool,
    /// Open as long as a reader uses it.
    file: Mutex<Weak<DiskFile>>,
}

impl Segment {
    fn new(disk: Disk, path: PathBuf, toc: Arc<Toc>, scratch: bool) -> Segment {
        Segment { disk, path, toc, scratch, file: Mutex::default() }
    }

    /// Opens a segment by its table of contents. Fails with `Corrupt` if the table or the length of
    /// the file differs from what was written.
    pub fn open(disk: &Disk, path: &Path) -> Result<Segment> {
        let beside = toc_path(path);
        let toc = std::fs::read(&beside).map_err(|error| Error::os("read", &beside, &error))?;
        let toc = Toc::decode(&toc)
            .map_err(|error| error.remedy("run `euphrates verify`").at(beside.display()))?;
        let facts = std::fs::metadata(path).map_err(|error| Error::os("look at", path, &error))?;
        let segment = Segment::copy_of(&Arc::new(toc), disk, path);
        segment.expect_length(Ok(facts.len())).map(|()| segment)
    }

    /// Fails unless the file has the length that was written.
    pub(crate) fn expect_length(&self, bytes: std::io::Result<u64>) -> Result<()> {
        let bytes = bytes.map_err(|error| Error::os("look at", &self.path, &error))?;
        if bytes == self.toc.segment_bytes {
            return Ok(());
        }
        let lengths = format!("{bytes} bytes, but {} were written", self.toc.segment_bytes);
        let error = Error::corrupt(format!("the segment has {lengths}"));
        Err(error.remedy("run `euphrates verify`").at(self.path.display()))
    }

    /// A copy of a segment, whose bytes should be those that the table of contents describes.
    /// Checks nothing yet.
    pub(crate) fn copy_of(toc: &Arc<Toc>, disk: &Disk, path: &Path) -> Segment {
        Segment::new(disk.clone(), path.to_path_buf(), toc.clone(), false)
    }

    /// The same file with another table of its blocks.
    pub(crate) fn with_toc(&self, toc: &Arc<Toc>) -> Segment {
        let (disk, path, file) = (self.disk.clone(), self.path.clone(), self.file.lock().clone());
        Segment { disk, path, toc: toc.clone(), scratch: false, file: Mutex::new(file) }
    }

    /// The schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.toc.schema
    }

    /// The blocks, in the order of writing.
    pub fn blocks(&self) -> &[Block] {
        &self.toc.blocks
    }

    /// Rows of all blocks.
    pub fn rows(&self) -> u64 {
        self.toc.rows()
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.toc.segment_bytes
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk that holds its file.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The table of contents.
    pub fn toc(&self) -> &Arc<Toc> {
        &self.toc
    }

    /// The file, opened unless a reader has it open.
    pub(crate) fn file(&self) -> Result<Arc<DiskFile>> {
        let mut known = self.file.lock();
        if let Some(file) = known.upgrade() {
            return Ok(file);
        }
        let file = self.disk.open(&self.path)?;
        *known = Arc::downgrade(&file);
        Ok(file)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.scratch {
            // What cannot be removed now is removed with the scratch folder.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// The path of a segment's table of contents.
///
/// ```
/// use euphrates_store::segment::toc_path;
/// use std::path::Path;
///
/// let segment = Path::new("/data/sales/0.arrow");
/// assert_eq!(toc_path(segment).parent(), segment.parent());
/// assert_ne!(toc_path(segment), segment);
/// ```
pub fn toc_path(segment: &Path) -> PathBuf {
    let mut path = OsString::from(segment);
    path.push(".toc");
    path.into()
}
