//! Aggregation states exchanged between processes, by hash part.

use std::ops::Range;
use std::sync::Arc;

use euphrates_flow::{Batches, Exchange, Result};
use euphrates_policy::aggregate::claim_units;
use parking_lot::Mutex;

use super::state_store::StoredStates;

/// The states of this process's instances, and the ranges of parts that can be taken.
#[derive(Default)]
pub(crate) struct ExchangedStates(Mutex<LocalStates>);

#[derive(Default)]
struct LocalStates {
    pieces: Vec<Arc<StoredStates>>,
    /// Known once the sizes of all instances have been gathered.
    claims: Option<Arc<Vec<Range<usize>>>>,
}

impl ExchangedStates {
    /// Adds the states of an instance.
    pub(crate) fn add(&self, pieces: StoredStates) {
        self.0.lock().pieces.push(Arc::new(pieces));
    }

    /// Drops all states.
    pub(crate) fn release(&self) {
        self.0.lock().pieces.clear();
    }

    /// The ranges of parts that are claimed at once, in this order, given the bytes of each part at
    /// each instance. With `is_one` there is at least one range, also without any data.
    pub(crate) fn claims(
        &self,
        is_one: bool,
        sizes: impl FnOnce() -> Result<Vec<Vec<usize>>>,
    ) -> Result<Arc<Vec<Range<usize>>>> {
        if let Some(claims) = &self.0.lock().claims {
            return Ok(claims.clone());
        }
        let sizes = sizes()?;
        let parts = sizes.iter().map(Vec::len).max().unwrap_or(0);
        let part = |part| sizes.iter().filter_map(|one| one.get(part)).sum();
        let mut claims = claim_units(&(0..parts).map(part).collect::<Vec<usize>>());
        if claims.is_empty() && is_one {
            claims.push(0..parts);
        }
        Ok(self.0.lock().claims.insert(Arc::new(claims)).clone())
    }

    /// The states of these parts from all processes.
    pub(crate) fn fetch(&self, parts: Range<usize>, exchange: &dyn Exchange) -> Result<Batches> {
        let request = (parts.end as u64) << 32 | parts.start as u64;
        let others = exchange.fetch(request)?;
        Ok(Box::new(self.here(parts).chain(others.into_iter().flatten())))
    }

    /// The states of this process, for the fetch request of another.
    pub(crate) fn serve_parts(&self, request: u64) -> Batches {
        self.here(request as u32 as usize..(request >> 32) as usize)
    }

    fn here(&self, parts: Range<usize>) -> Batches {
        let pieces = self.0.lock().pieces.clone();
        Box::new(pieces.into_iter().flat_map(move |pieces| pieces.read_all(parts.clone())))
    }
}
