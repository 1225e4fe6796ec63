//! Encodes rows into files of a bounded size, one after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, Setup, batch_bytes};
use euphrates_formats::{ChunkMetadata, EncodedChunk, Encoder, Writer};
use euphrates_policy::memory::{RowGroupSize, chunk_bytes_max};
use euphrates_policy::unit_ledger::{UnitRecorder, ends_early};
use euphrates_store::dataset::{DataFile, StagedPart};

use super::file_names::FileNames;
use crate::batches::long_rows::lock_if_long;

/// A file with less room than this part of its size is full: a small row group would cost more than
/// it fills.
const FULL_SHARE: u64 = 32;

/// Batches are encoded in parts of at most this share of the room that is left, so that no file
/// becomes much larger than it may.
const PART_SHARE: usize = 32;

/// What the footer of a file takes for each column of a chunk, and for each column.
const FOOTER_BYTES: u64 = 384;

/// What the files of a dataset have in common.
pub(crate) struct FileLayout {
    pub(crate) writer: Arc<dyn Writer>,
    pub(crate) names: FileNames,
    /// The size of a file.
    pub(crate) file_bytes: u64,
    /// The number of columns of a file.
    pub(crate) columns: u64,
    /// The size of a row group.
    pub(crate) size: RowGroupSize,
    /// The number of the first file.
    pub(crate) first_file: u64,
}

/// Writes files of one instance, of which at most one is open.
pub(crate) struct FileWriter {
    layout: Arc<FileLayout>,
    part: Arc<StagedPart>,
    encoder: Box<dyn Encoder>,
    size: RowGroupSize,
    /// Maximum bytes held by the encoder before its chunk is finished.
    held_bytes_max: usize,
    folder: PathBuf,
    open: Option<UnfinishedFile>,
    /// Rows in the encoder.
    rows: usize,
    /// Which rows of which units the open file holds, if another attempt may adopt it.
    units: Option<UnitRecorder>,
    began: Instant,
}

struct UnfinishedFile {
    data: DataFile,
    number: u64,
    began: Instant,
    /// The offset of each chunk, and its metadata for the footer.
    notes: Vec<(u64, ChunkMetadata)>,
}

/// Rows and bytes that have been written to files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl FileWriter {
    pub(crate) fn new(
        layout: Arc<FileLayout>,
        part: Arc<StagedPart>,
        setup: &Setup,
    ) -> Result<FileWriter> {
        let affordable = chunk_bytes_max(setup.budget_bytes, setup.instances_here);
        let (encoder, size) = (layout.writer.encoder()?, layout.size.within(affordable));
        let (folder, open) = (PathBuf::new(), None);
        let (held_bytes_max, units) = (2 * affordable, None);
        let (rows, began) = (0, Instant::now());
        Ok(FileWriter {
            layout,
            part,
            encoder,
            size,
            held_bytes_max,
            folder,
            open,
            rows,
            units,
            began,
        })
    }

    /// Begins a unit, of which some rows are in files of earlier attempts. The rows that follow
    /// belong to it.
    pub(crate) fn begin_unit(&mut self, unit: u64, durable_rows: u64) {
        self.units.get_or_insert_default().begin(unit, durable_rows);
    }

    /// The unit that has begun and not ended.
    pub(crate) fn unit(&self) -> Option<u64> {
        self.units.as_ref()?.current()
    }

    /// Ends a unit, and perhaps the open file, so that another attempt need not compute what it
    /// holds.
    pub(crate) fn end_unit(&mut self) -> Result<Written> {
        self.units.iter_mut().for_each(UnitRecorder::end);
        let since = |open: &UnfinishedFile| open.began.elapsed();
        match self.open.as_ref().map(since) {
            Some(file) if ends_early(file, self.began.elapsed()) => self.finish(),
            _ => Ok(Written::default()),
        }
    }

    /// The folder to which rows go, relative to the dataset.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the open file; the next rows go to a file in this folder.
    pub(crate) fn enter(&mut self, folder: PathBuf) -> Result<Written> {
        let written = self.finish()?;
        self.folder = folder;
        Ok(written)
    }

    /// Writes rows behind those before, in a new file where one is full.
    pub(crate) fn push(&mut self, batch: &RecordBatch, setup: &Setup) -> Result<Written> {
        let mut written = Written::default();
        let mut row = 0;
        while row < batch.num_rows() {
            let rows = self.rows_at_once(batch).min(batch.num_rows() - row);
            written += self.push_part(batch.slice(row, rows), setup)?;
            row += rows;
        }
        Ok(written)
    }

    fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let row_bytes = batch_bytes(batch).div_ceil(batch.num_rows().max(1)).max(1);
        (self.chunk_bytes() / PART_SHARE / row_bytes).max(1)
    }

    /// The bytes of the chunk in the encoder when it is full.
    fn chunk_bytes(&self) -> usize {
        let room = self.layout.file_bytes.saturating_sub(self.file_bytes());
        self.size.bytes_max.min(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// The bytes of the open file, if it ended here with the chunk in the encoder.
    fn file_bytes(&self) -> u64 {
        let (bytes, chunks) =
            self.open.as_ref().map_or((0, 0), |open| (open.data.bytes(), open.notes.len() as u64));
        bytes + FOOTER_BYTES * self.layout.columns * (chunks + 2)
    }

    fn push_part(&mut self, batch: RecordBatch, setup: &Setup) -> Result<Written> {
        if self.open.is_none() {
            let (number, name) = self.layout.names.next(setup, self.layout.first_file)?;
            let data = self.part.file(&self.folder, &name)?;
            data.append(&self.layout.writer.header()?)?;
            let (notes, began) = (vec![], Instant::now());
            self.open = Some(UnfinishedFile { data, number, began, notes });
        }
        // An encoder holds a long row several times until its chunk is finished.
        let turn = lock_if_long(&batch, self.size.bytes_max);
        self.rows += batch.num_rows();
        self.units.iter_mut().for_each(|units| units.push(batch.num_rows() as u64));
        self.encoder.push(&batch)?;
        drop(batch);
        let bytes = self.encoder.bytes();
        let is_full = self.size.is_reached(bytes, self.rows) || bytes >= self.chunk_bytes();
        // With very many columns, each holds some memory even without values.
        let is_enough =
            || bytes >= self.size.bytes_max / 4 && self.encoder.held_bytes() >= self.held_bytes_max;
        if turn.is_none() && !is_full && !is_enough() {
            return Ok(Written::default());
        }
        let mut written = self.flush()?;
        if self.file_bytes() + self.layout.file_bytes / FULL_SHARE >= self.layout.file_bytes {
            written += self.finish()?;
        }
        Ok(written)
    }

    /// Writes the chunk in the encoder.
    fn flush(&mut self) -> Result<Written> {
        let Some(open) = self.open.as_mut().filter(|_| self.rows > 0) else {
            return Ok(Written::default());
        };
        let EncodedChunk { parts, note } = self.encoder.finish()?;
        let offset = open.data.append(&parts)?;
        open.notes.push((offset, note));
        let bytes = parts.iter().map(|part| part.len()).sum();
        Ok(Written { rows: std::mem::take(&mut self.rows), bytes })
    }

    /// Ends the open file, if there is one.
    pub(crate) fn finish(&mut self) -> Result<Written> {
        let written = self.flush()?;
        if let Some(UnfinishedFile { data, number, notes, .. }) = self.open.take() {
            data.append(&self.layout.writer.footer(notes)?)?;
            match &mut self.units {
                Some(units) => self.part.add_units(Some(data), number, units.end_file())?,
                None => self.part.add(data)?,
            }
        }
        Ok(written)
    }

    /// Ends the open file, and units without rows behind it.
    pub(crate) fn finish_units(&mut self) -> Result<Written> {
        let written = self.finish()?;
        let left = self.units.as_mut().map(UnitRecorder::end_file).unwrap_or_default();
        if !left.is_empty() {
            self.part.add_units(None, 0, left)?;
        }
        Ok(written)
    }
}

impl std::ops::AddAssign for Written {
    fn add_assign(&mut self, other: Written) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}
