//! What the instances of a process make together: one table of what all of them hold, and the parts
//! that wait for their turn.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Ports, Result};
use euphrates_policy::join::table_bits;

use super::parts::Ready;
use super::plan::Side;
use super::request::Request;
use super::table::{Dealt, Part, Table};
use crate::meeting::meet;
use crate::store::{Pieces, Slice};

/// What instances bring together.
#[derive(Default)]
pub struct Together {
    shared: Mutex<Shared>,
    /// The next batch of the table whose rows come out.
    next_batch: AtomicUsize,
    /// The next share of what all processes hold that is brought here.
    next_share: AtomicUsize,
    /// Bytes of the side that becomes a table, in memory.
    pub held_bytes: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    batches: Vec<RecordBatch>,
    dealt: Vec<Dealt>,
    building: Option<Arc<Building>>,
    table: Option<Arc<Table>>,
    /// Of each side, left first.
    pieces: [Vec<Arc<Pieces>>; 2],
}

/// A table whose parts are being built.
struct Building {
    dealt: Vec<Dealt>,
    next: AtomicUsize,
    parts: Vec<OnceLock<Part>>,
}

impl Together {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Builds a table of these batches and those of all others in the process, together with all.
    /// So many processes build the same one.
    pub fn build(
        &self,
        ready: &Ready,
        held: Vec<RecordBatch>,
        copies: usize,
        ports: &Ports,
    ) -> Result<Arc<Table>> {
        let rows: usize = held.iter().map(RecordBatch::num_rows).sum();
        let first = {
            let mut shared = self.lock();
            shared.batches.extend_from_slice(&held);
            shared.batches.len() - held.len()
        };
        let rows: usize = meet(ports, "held", &[rows])?.into_iter().flatten().sum();
        let bits = table_bits(rows / copies);
        let dealt = Dealt::new(&held, first, bits);
        drop(held);
        self.lock().dealt.push(dealt);
        meet(ports, "dealt", &[])?;
        let building = {
            let mut shared = self.lock();
            let dealt = std::mem::take(&mut shared.dealt);
            let fresh = || Building {
                dealt,
                next: AtomicUsize::new(0),
                parts: (0..1 << bits).map(|_| OnceLock::new()).collect(),
            };
            shared.building.get_or_insert_with(|| Arc::new(fresh())).clone()
        };
        loop {
            let part = building.next.fetch_add(1, Relaxed);
            let Some(place) = building.parts.get(part) else { break };
            ports.check()?;
            place.get_or_init(|| Part::new(&building.dealt, part));
        }
        drop(building);
        meet(ports, "built", &[])?;
        let mut shared = self.lock();
        if let Some(building) = shared.building.take().and_then(Arc::into_inner) {
            let parts = building.parts.into_iter().filter_map(OnceLock::into_inner).collect();
            let batches = std::mem::take(&mut shared.batches);
            shared.table = Some(Arc::new(ready.table_of(batches, parts)));
        }
        Ok(shared.table.clone().expect("the first to come has made it"))
    }

    /// The next of so many shares, for this process, of what all hold.
    pub fn next_share(&self, of: usize) -> Option<Slice> {
        let number = self.next_share.fetch_add(1, Relaxed);
        (number < of).then_some(Slice { number, of })
    }

    /// The next batch of the table whose rows come out by whether they have matched.
    pub fn next_batch(&self) -> usize {
        self.next_batch.fetch_add(1, Relaxed)
    }

    /// The table is not needed any more.
    pub fn forget_table(&self) {
        self.lock().table = None;
    }

    /// Rows of a side that wait for their part.
    pub fn add(&self, side: Side, pieces: Pieces) {
        self.lock().pieces[side as usize].push(Arc::new(pieces));
    }

    /// Those of them, of all instances of the process, that are asked for.
    pub fn read(&self, request: &Request) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
        let pieces = self.lock().pieces[request.side as usize].clone();
        let (parts, slice) = (request.parts.clone(), request.slice);
        pieces.into_iter().flat_map(move |pieces| pieces.read_slice(parts.clone(), slice))
    }
}
