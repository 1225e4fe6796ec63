//! Encodes batches as blocks of about a megabyte, and appends them to the segments of a collection.

use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::{
    BATCH_BYTES_TARGET, Cancel, Ports, Result, RunIndex, batch_bytes, split_batch,
};
use euphrates_store::append::AppendTurn;
use euphrates_store::catalog::Statistics;
use euphrates_store::collection::NewSegments;
use euphrates_store::segment::BlockEncoder;

/// Smaller batches are concatenated.
const SMALL_BYTES: usize = BATCH_BYTES_TARGET / 4;

/// Encodes blocks, and appends them in the order of their runs.
pub(crate) struct BlockWriter<'a> {
    segments: &'a NewSegments,
    schema: &'a SchemaRef,
    encoder: BlockEncoder,
    is_part: bool,
    small: Vec<RecordBatch>,
    small_bytes: usize,
    statistics: Statistics,
    cancel: &'a Cancel,
}

impl<'a> BlockWriter<'a> {
    /// A writer of blocks to these segments. `is_part` if the blocks are part of a stream, of which
    /// other processes write other runs.
    pub(crate) fn new(
        segments: &'a NewSegments,
        schema: &'a SchemaRef,
        is_part: bool,
        cancel: &'a Cancel,
    ) -> Result<BlockWriter<'a>> {
        Ok(BlockWriter {
            segments,
            schema,
            encoder: segments.encoder()?,
            is_part,
            small: vec![],
            small_bytes: 0,
            statistics: Statistics::default(),
            cancel,
        })
    }

    /// Statistics of the batches appended so far.
    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Appends a batch of a run, together with small batches before it.
    pub(crate) fn push(
        &mut self,
        batch: RecordBatch,
        run: Option<RunIndex>,
        ports: &Ports,
    ) -> Result<()> {
        for part in split_batch(batch) {
            let bytes = batch_bytes(&part);
            if bytes >= SMALL_BYTES {
                self.flush(run, ports)?;
                self.append(&part, run, ports)?;
                continue;
            }
            self.small_bytes += bytes;
            self.small.push(part);
            if self.small_bytes >= BATCH_BYTES_TARGET {
                self.flush(run, ports)?;
            }
        }
        Ok(())
    }

    /// Appends the small batches as one block.
    pub(crate) fn flush(&mut self, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        let small = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        match small.as_slice() {
            [] => Ok(()),
            [one] => self.append(one, run, ports),
            several => self.append(&concat_batches(self.schema, several)?, run, ports),
        }
    }

    fn append(&mut self, batch: &RecordBatch, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        let block = self.encoder.encode(batch)?;
        self.statistics.add_block(batch, &block);
        let written = match run {
            Some(run) if self.is_part => {
                self.segments.append_unnumbered(run, &block, self.cancel)?
            }
            run => {
                self.await_turn(run, ports)?;
                let turn = run.map(|run| AppendTurn { run, last: false });
                self.segments.append(turn, &block, self.cancel)?
            }
        };
        ports.metrics().put(written.rows as usize, written.bytes as usize);
        Ok(())
    }

    /// Waits until all runs before this one have been written.
    pub(crate) fn await_turn(&self, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        self.segments.await_turn(run, self.cancel, || ports.metrics().enter(InstanceState::Blocked))
    }
}
