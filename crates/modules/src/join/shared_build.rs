//! State shared by the instances of a process: the hash table they build together, and rows of
//! parts that wait to be joined.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Arc, OnceLock};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Ports, Result};
use euphrates_policy::join::table_bits;
use parking_lot::Mutex;

use super::hash_table::{HashTable, PartitionedSlots, TablePart, hashes_of};
use super::part_join::PreparedJoin;
use super::plan::JoinSide;
use super::row_request::RowRequest;
use crate::coordination::collective::all_gather;
use crate::key_filters::bloom_filter::BloomPart;
use crate::key_filters::join_filters::JoinFilters;
use crate::partitioning::spill_store::{PartitionSlice, StoredParts};

/// The shared state of a join.
#[derive(Default)]
pub(crate) struct SharedBuild {
    shared: Mutex<Shared>,
    /// The next batch of the table to output by match.
    next_batch: AtomicUsize,
    /// The next share to fetch of what all processes hold.
    next_share: AtomicUsize,
    /// Instances that have probed the whole table.
    probed: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    batches: Vec<RecordBatch>,
    partitioned: Vec<PartitionedSlots>,
    building: Option<Arc<Building>>,
    table: Option<Arc<HashTable>>,
    /// The rows of each side, left first.
    pieces: [Vec<Arc<StoredParts>>; 2],
}

/// A table under construction.
struct Building {
    partitioned: Vec<PartitionedSlots>,
    next: AtomicUsize,
    parts: Vec<OnceLock<(TablePart, Option<BloomPart>)>>,
    /// The number of blocks of a filter of the rows' hashes; `None` if none is made.
    blocks: Option<usize>,
}

impl SharedBuild {
    /// Builds a table of the batches of all instances in the process, and publishes filters of
    /// their keys. `copies` processes build the same table.
    pub(crate) fn build_table(
        &self,
        ready: &PreparedJoin,
        held: Vec<RecordBatch>,
        copies: usize,
        filters: Option<&JoinFilters>,
        ports: &Ports,
    ) -> Result<Arc<HashTable>> {
        let rows: usize = held.iter().map(RecordBatch::num_rows).sum();
        let first = {
            let mut shared = self.shared.lock();
            shared.batches.extend_from_slice(&held);
            shared.batches.len() - held.len()
        };
        let rows: usize = all_gather(ports, "held", &[rows])?.into_iter().flatten().sum();
        let rows = rows / copies;
        let bits = table_bits(rows);
        if let Some(filters) = filters {
            held.iter().for_each(|batch| filters.add_hashes(hashes_of(batch), rows));
        }
        let partitioned = PartitionedSlots::new(&held, first, bits);
        drop(held);
        self.shared.lock().partitioned.push(partitioned);
        all_gather(ports, "dealt", &[])?;
        let building = {
            let mut shared = self.shared.lock();
            let partitioned = std::mem::take(&mut shared.partitioned);
            let fresh = || Building {
                partitioned,
                next: AtomicUsize::new(0),
                parts: (0..1 << bits).map(|_| OnceLock::new()).collect(),
                blocks: filters.and_then(|filters| filters.blocks(rows)),
            };
            shared.building.get_or_insert_with(|| Arc::new(fresh())).clone()
        };
        loop {
            let part = building.next.fetch_add(1, Relaxed);
            let Some(slot) = building.parts.get(part) else { break };
            ports.check()?;
            slot.get_or_init(|| {
                let filter = building.blocks.map(|blocks| {
                    let mut filter = BloomPart::new(blocks, bits);
                    let hashes = building.partitioned.iter().flat_map(|it| it.hashes(part));
                    hashes.for_each(|hash| filter.add(hash));
                    filter
                });
                (TablePart::new(&building.partitioned, part), filter)
            });
        }
        drop(building);
        all_gather(ports, "built", &[])?;
        let mut shared = self.shared.lock();
        if let Some(building) = shared.building.take().and_then(Arc::into_inner) {
            let parts = building.parts.into_iter().filter_map(OnceLock::into_inner);
            let (parts, filter): (Vec<TablePart>, Vec<Option<BloomPart>>) = parts.unzip();
            if let Some(filters) = filters {
                filters.publish(filter.into_iter().collect(), rows);
            }
            let batches = std::mem::take(&mut shared.batches);
            shared.table = Some(Arc::new(ready.table_of(batches, parts)?));
        }
        Ok(shared.table.clone().expect("the first to come has made it"))
    }

    /// Claims the next of `of` shares to fetch.
    pub(crate) fn next_share(&self, of: usize) -> Option<PartitionSlice> {
        let number = self.next_share.fetch_add(1, Relaxed);
        (number < of).then_some(PartitionSlice { number, of })
    }

    /// Claims the next batch of the table to output by match.
    pub(crate) fn next_batch(&self) -> usize {
        self.next_batch.fetch_add(1, Relaxed)
    }

    /// Drops the table when the last of `instances` calls this; returns whether that is the case.
    pub(crate) fn leave_table(&self, instances: usize) -> bool {
        let is_last = self.probed.fetch_add(1, AcqRel) + 1 == instances;
        if is_last {
            self.forget_table();
        }
        is_last
    }

    /// Drops the table, which is not needed any more.
    pub(crate) fn forget_table(&self) {
        self.shared.lock().table = None;
    }

    /// Adds rows of a side that wait for their part.
    pub(crate) fn add(&self, side: JoinSide, pieces: StoredParts) {
        self.shared.lock().pieces[side as usize].push(Arc::new(pieces));
    }

    /// The requested rows of all instances in the process.
    pub(crate) fn read(
        &self,
        request: &RowRequest,
    ) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
        let pieces = self.shared.lock().pieces[request.side as usize].clone();
        let (parts, slice) = (request.parts.clone(), request.slice);
        pieces.into_iter().flat_map(move |pieces| pieces.read_slice(parts.clone(), slice))
    }
}
