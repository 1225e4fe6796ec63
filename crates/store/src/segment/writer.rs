//! Segment writer, for one thread or several at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Cancel, Result};

use super::block::Block;
use super::encode::{BLOCK_ALIGN_BYTES, footer, pad_message};
use super::file_copy::FileCopy;
use super::statistics::StatisticsBuilder;
use super::toc::{Toc, message_of_schema, schema_of_message};
use super::{BlockCompression, BlockEncoder, EncodedBlock, Segment};
use crate::append::{AppendTurn, Appender, StagedOutput};
use crate::mirroring::{RemoteCopy, RemoteTarget};
use euphrates_device::disk::{Disk, Load, at_once};

/// The beginning of a file: the magic, padded to 64 bytes.
const HEAD: [u8; 64] = {
    let mut head = [0; 64];
    let magic = b"ARROW1";
    let mut at = 0;
    while at < magic.len() {
        head[at] = magic[at];
        at += 1;
    }
    head
};

/// How to write a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// The compression of blocks, if they are compressed.
    pub compression: Option<BlockCompression>,
    /// Whether it is only for this process: nothing is synced, the table of contents stays in
    /// memory, and the file is removed when the segment is dropped.
    pub scratch: bool,
}

/// The size of an appended block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Rows of the block.
    pub rows: u64,
    /// Its bytes in the file.
    pub bytes: u64,
}

/// The target of a copy of a segment, and the load that counts its bytes in flight.
#[derive(Clone, Debug)]
pub enum CopyTarget {
    /// A file that does not exist yet, on a disk.
    Here(Disk, PathBuf, Option<Load>),
    /// A disk of another process, which cannot hold the first copy.
    There(RemoteTarget, Option<Load>),
}

/// A staged segment to which several threads append, with all its copies: files of the same bytes.
/// Dropped unfinished, they are removed.
pub struct SharedSegment {
    schema: SchemaRef,
    schema_message: Vec<u8>,
    options: SegmentOptions,
    staged: Arc<Staged>,
    appender: Appender,
    written: Mutex<WrittenBlocks>,
    finished: bool,
}

#[derive(Default)]
struct WrittenBlocks {
    blocks: Vec<Block>,
    dictionaries: Vec<(u64, u32, u64)>,
    statistics: StatisticsBuilder,
}

impl SharedSegment {
    /// Creates the file; fails if there is one of this name.
    pub fn create(
        disk: &Disk,
        path: &Path,
        schema: &SchemaRef,
        options: SegmentOptions,
    ) -> Result<SharedSegment> {
        let target = CopyTarget::Here(disk.clone(), path.to_path_buf(), None);
        SharedSegment::create_copies(vec![target], schema, options)
    }

    /// Creates a file at each target, the first of which is the primary; fails if a name is taken.
    /// Panics if the first target is not on a disk of this process.
    pub fn create_copies(
        targets: Vec<CopyTarget>,
        schema: &SchemaRef,
        options: SegmentOptions,
    ) -> Result<SharedSegment> {
        assert!(matches!(targets.first(), Some(CopyTarget::Here(..))), "a segment has a copy here");
        let schema_message = message_of_schema(schema)?;
        let schema = schema_of_message(&schema_message)?;
        let copies = targets.into_iter().map(StagedCopy::create).collect::<Result<_>>()?;
        let staged = Arc::new(Staged { copies });
        let appender = Appender::new(Box::new(staged.clone()));
        let segment = SharedSegment {
            schema,
            schema_message,
            options,
            staged,
            appender,
            written: Mutex::default(),
            finished: false,
        };
        segment.appender.append(None, &[segment.head()], &Cancel::default())?;
        Ok(segment)
    }

    /// The bytes before the first block, which begins at a page boundary.
    fn head(&self) -> Buffer {
        let (prefix, metadata) = self.schema_message.split_at(8);
        let bytes = HEAD.len() + self.schema_message.len();
        let padding = bytes.next_multiple_of(BLOCK_ALIGN_BYTES) - bytes;
        let message = pad_message(vec![prefix.into(), metadata.into()], 0, padding);
        let parts = message.iter().map(Buffer::as_slice);
        Buffer::from_vec([&HEAD[..]].into_iter().chain(parts).collect::<Vec<_>>().concat())
    }

    /// A block encoder for one thread.
    pub fn encoder(&self) -> Result<BlockEncoder> {
        let encoder = BlockEncoder::new(self.schema.clone(), self.options.compression)?;
        Ok(if self.options.scratch { encoder } else { encoder.with_bounds() })
    }

    /// Writes a block; with a turn, after all blocks of the runs before it (see [`Appender`]).
    pub fn append(
        &self,
        turn: Option<AppendTurn>,
        encoded: &EncodedBlock,
        cancel: &Cancel,
    ) -> Result<BlockInfo> {
        let offset = self.appender.reserve_range(turn, encoded.block.bytes, cancel)?;
        self.write(offset, 0, encoded)
    }

    /// Reserves an offset for a block, after all others, for [`SharedSegment::write`].
    pub fn reserve_range(&self, encoded: &EncodedBlock) -> Result<u64> {
        self.appender.reserve_range(None, encoded.block.bytes, &Cancel::default())
    }

    /// Writes a block at its offset; `number` is the block's in a stream over several segments.
    pub fn write(&self, offset: u64, number: u32, encoded: &EncodedBlock) -> Result<BlockInfo> {
        self.appender.write(offset, &encoded.parts)?;
        let block = Block { offset, number, ..encoded.block };
        let mut written = self.written.lock();
        written.blocks.push(block);
        let dictionaries = encoded.dictionaries.iter();
        written
            .dictionaries
            .extend(dictionaries.map(|(at, meta, body)| (offset + at, *meta, *body)));
        written.statistics.add(&self.schema, offset, &encoded.bounds)?;
        Ok(BlockInfo { rows: block.rows, bytes: block.bytes })
    }

    /// Maps the number of every block to another.
    pub fn renumber(&self, number: impl Fn(u32) -> u32) {
        self.written.lock().blocks.iter_mut().for_each(|block| block.number = number(block.number));
    }

    /// Marks a run as complete.
    pub fn end_run(&self, run: u64, cancel: &Cancel) -> Result<()> {
        self.appender.append(Some(AppendTurn { run, last: true }), &[], cancel).map(drop)
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.appender.bytes()
    }

    /// Writes the footer and the table of contents of each copy, and returns when the devices have
    /// them (without that wait for scratch). The returned segment is the primary.
    pub fn finish(self) -> Result<Segment> {
        self.finish_copies().map(|(segment, _)| segment)
    }

    /// As `finish`, with the location of each mirror that another process keeps, relative to its
    /// disk's folder.
    pub fn finish_copies(mut self) -> Result<(Segment, Vec<Option<String>>)> {
        let WrittenBlocks { mut blocks, mut dictionaries, statistics } =
            std::mem::take(&mut *self.written.lock());
        blocks.sort_unstable_by_key(|block| block.offset);
        dictionaries.sort_unstable();
        let footer = Buffer::from_vec(footer(&self.schema, &blocks, &dictionaries));
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        [self.head(), footer.clone()].iter().for_each(|part| digest.update(part));
        self.appender.append(None, &[footer], &Cancel::default())?;
        let toc = Toc {
            statistics: statistics.finish(&self.schema, blocks.len())?,
            left: None,
            schema: self.schema.clone(),
            schema_message: std::mem::take(&mut self.schema_message),
            blocks,
            segment_bytes: self.appender.bytes(),
            rest_crc: digest.finalize() as u32,
        };
        let staged = self.staged.clone();
        let encoded = (!self.options.scratch).then(|| toc.encode());
        staged.finish(toc.segment_bytes, encoded.as_deref())?;
        self.finished = true;
        let StagedCopy::Here(FileCopy { disk, path, .. }) = &staged.copies[0] else {
            unreachable!("checked when it was made")
        };
        let scratch = self.options.scratch;
        let segment = Segment::new(disk.clone(), path.clone(), Arc::new(toc), scratch);
        Ok((segment, staged.copies[1..].iter().map(StagedCopy::remote_path).collect()))
    }
}

impl Drop for SharedSegment {
    fn drop(&mut self) {
        if !self.finished {
            self.staged.abandon();
        }
    }
}

/// A staged segment with one writer.
pub struct SegmentWriter {
    segment: SharedSegment,
    encoder: BlockEncoder,
    cancel: Cancel,
}

impl SegmentWriter {
    /// Creates the file; fails if there is one of this name.
    pub fn create(
        disk: &Disk,
        path: &Path,
        schema: &SchemaRef,
        options: SegmentOptions,
    ) -> Result<SegmentWriter> {
        let segment = SharedSegment::create(disk, path, schema, options)?;
        let encoder = segment.encoder()?;
        Ok(SegmentWriter { segment, encoder, cancel: Cancel::default() })
    }

    /// Writes a batch as one block.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<BlockInfo> {
        let encoded = self.encoder.encode(batch)?;
        self.segment.append(None, &encoded, &self.cancel)
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.segment.bytes()
    }

    /// Finishes as [`SharedSegment::finish`] does.
    pub fn finish(self) -> Result<Segment> {
        self.segment.finish()
    }
}

/// The files of a staged segment, invisible until a manifest lists them.
struct Staged {
    copies: Vec<StagedCopy>,
}

enum StagedCopy {
    Here(FileCopy),
    There(Arc<RemoteCopy>),
}

impl StagedCopy {
    fn create(target: CopyTarget) -> Result<StagedCopy> {
        Ok(match target {
            CopyTarget::Here(disk, path, load) => {
                StagedCopy::Here(FileCopy::create(&disk, path, load)?)
            }
            CopyTarget::There(far, load) => StagedCopy::There(far.create(load)),
        })
    }

    /// Its location, relative to its disk's folder, if another process keeps it.
    fn remote_path(&self) -> Option<String> {
        match self {
            StagedCopy::Here(_) => None,
            StagedCopy::There(far) => far.path(),
        }
    }
}

impl Staged {
    fn finish(&self, bytes: u64, toc: Option<&[u8]>) -> Result<()> {
        at_once(&self.copies, |copy| match copy {
            StagedCopy::Here(file) => file.finish(bytes, toc),
            StagedCopy::There(far) => far.finish(bytes, toc.unwrap_or_default()),
        })
    }
}

impl StagedOutput for Arc<Staged> {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        self.copies.iter().try_for_each(|copy| match copy {
            StagedCopy::Here(file) => file.write(offset, parts),
            StagedCopy::There(far) => far.write(offset, parts),
        })
    }

    fn sync_contents(&self, _: u64) -> Result<()> {
        // `finish` does it, with the table of contents.
        Ok(())
    }

    fn abandon(&self) {
        for copy in &self.copies {
            if let StagedCopy::Here(file) = copy {
                file.abandon();
            }
        }
    }
}
