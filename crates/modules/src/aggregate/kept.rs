//! States that the instances of a module keep by parts of their hashes, for whoever takes a part.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use euphrates_flow::{Batches, Exchange, Result};
use euphrates_policy::aggregate::takes;

use crate::store::Pieces;

/// What the instances of a process have, and what can be taken of that of all.
#[derive(Default)]
pub struct Kept(Mutex<Known>);

#[derive(Default)]
struct Known {
    pieces: Vec<Arc<Pieces>>,
    /// Once all have told how much they have.
    takes: Option<Arc<Vec<Range<usize>>>>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds what an instance has.
    pub fn add(&self, pieces: Pieces) {
        self.lock().pieces.push(Arc::new(pieces));
    }

    /// What can be taken at once, in this order, given the bytes each instance has of each part.
    /// With `is_one` something can be, whatever there is.
    pub fn takes(
        &self,
        is_one: bool,
        sizes: impl FnOnce() -> Result<Vec<Vec<usize>>>,
    ) -> Result<Arc<Vec<Range<usize>>>> {
        if let Some(takes) = &self.lock().takes {
            return Ok(takes.clone());
        }
        let sizes = sizes()?;
        let parts = sizes.iter().map(Vec::len).max().unwrap_or(0);
        let part = |part| sizes.iter().filter_map(|one| one.get(part)).sum();
        let mut takes = takes(&(0..parts).map(part).collect::<Vec<usize>>());
        if takes.is_empty() && is_one {
            takes.push(0..parts);
        }
        Ok(self.lock().takes.insert(Arc::new(takes)).clone())
    }

    /// The states of these parts that all processes have.
    pub fn of_all(&self, parts: Range<usize>, exchange: &dyn Exchange) -> Result<Batches> {
        let request = (parts.end as u64) << 32 | parts.start as u64;
        let others = exchange.fetch(request)?;
        Ok(Box::new(self.here(parts).chain(others.into_iter().flatten())))
    }

    /// Those that are here, for another process that asks so.
    pub fn asked(&self, request: u64) -> Batches {
        self.here(request as u32 as usize..(request >> 32) as usize)
    }

    fn here(&self, parts: Range<usize>) -> Batches {
        let pieces = self.lock().pieces.clone();
        Box::new(pieces.into_iter().flat_map(move |pieces| pieces.read_all(parts.clone())))
    }
}
