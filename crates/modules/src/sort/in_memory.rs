//! Sorts records that fit the memory, in one step.

use std::sync::Arc;

use euphrates_flow::{Batches, Result};

use super::memory_runs::MemoryRuns;
use super::ranges::SortedRuns;
use super::record_layout::RecordLayout;
use super::sort_keys::KeyEncoder;

/// The sorted records, as batches of the layout's output.
pub(crate) fn sorted(
    records: Batches,
    layout: Arc<RecordLayout>,
    encoder: Arc<KeyEncoder>,
) -> Result<Batches> {
    let mut held = MemoryRuns::new(encoder.clone());
    for batch in records {
        held.push(layout.pack(batch?)?)?;
    }
    held.close();
    let ranges = SortedRuns::uncut(encoder, layout.held().clone(), vec![held], vec![]);
    let merged = ranges.merge(0)?.into_batches();
    Ok(Box::new(merged.map(move |batch| layout.unpack(batch?))))
}
