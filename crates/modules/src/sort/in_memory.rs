//! Sorts records that fit the memory, in one step.

use std::sync::Arc;

use euphrates_flow::{Batches, Result};

use super::keys::key_encoder::KeyEncoder;
use super::memory_runs::MemoryRuns;
use super::ranges::SortedRuns;
use super::record_layout::RecordLayout;

/// The sorted records, as batches of the layout's output.
pub(crate) fn sorted(records: Batches, layout: Arc<RecordLayout>) -> Result<Batches> {
    let encoder = Arc::new(KeyEncoder::adaptive(layout.held(), layout.keys().to_vec())?);
    let mut held = MemoryRuns::new(encoder.clone());
    for batch in records {
        let batch = layout.pack(batch?)?;
        if encoder.is_open() {
            encoder.settle(&encoder.propose(&batch)?)?;
        }
        held.push(batch)?;
    }
    held.close();
    let ranges = SortedRuns::uncut(encoder, layout.held().clone(), vec![held], vec![]);
    let merged = ranges.merge(0)?.into_batches();
    Ok(Box::new(merged.map(move |batch| layout.unpack(batch?))))
}
