//! Sorts what fits the memory, at once.

use std::sync::Arc;

use euphrates_flow::{Batches, Result};

use super::keys::KeyEncoder;
use super::layout::Layout;
use super::ranges::Ranges;
use super::runs::MemoryRuns;

/// The records in order, as batches of the layout's output.
pub fn sorted(records: Batches, layout: Arc<Layout>, encoder: Arc<KeyEncoder>) -> Result<Batches> {
    let mut held = MemoryRuns::new(encoder.clone());
    for batch in records {
        held.push(layout.pack(batch?)?)?;
    }
    held.close();
    let ranges = Ranges::uncut(encoder, layout.held().clone(), vec![held], vec![]);
    let merged = ranges.merge(0)?.into_batches();
    Ok(Box::new(merged.map(move |batch| layout.unpack(batch?))))
}
