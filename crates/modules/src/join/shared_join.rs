//! The state of a join that the instances in a process share, and what they answer other processes.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use euphrates_device::scratch::Scratch;
use euphrates_flow::module::{ExchangeServer, KeyFilterSlot};
use euphrates_flow::{Batches, MemoryReservation, Result, Setup};

use super::part_join::PreparedJoin;
use super::row_request::RowRequest;
use super::shared_build::SharedBuild;
use crate::key_filters::join_filters::JoinFilters;

/// The state that the instances in this process share.
pub(crate) struct SharedJoin {
    pub(crate) ready: Arc<PreparedJoin>,
    pub(crate) shared_build: SharedBuild,
    pub(crate) scratch: OnceLock<Arc<Scratch>>,
    /// The build side in memory.
    pub(crate) reservation: OnceLock<Arc<MemoryReservation>>,
    /// Bytes that all instances wrote to scratch, for the report.
    pub(crate) spilled_bytes: AtomicUsize,
    pub(crate) is_broadcast: AtomicBool,
    /// Where to leave filters for the sources of the probe side, if there may be any.
    filter_slots: Vec<Arc<KeyFilterSlot>>,
    filters: OnceLock<Arc<JoinFilters>>,
}

impl SharedJoin {
    /// The state of a join that has not begun.
    pub(crate) fn new(ready: PreparedJoin, filter_slots: Vec<Arc<KeyFilterSlot>>) -> SharedJoin {
        SharedJoin {
            ready: Arc::new(ready),
            shared_build: SharedBuild::default(),
            scratch: OnceLock::new(),
            reservation: OnceLock::new(),
            spilled_bytes: AtomicUsize::new(0),
            is_broadcast: AtomicBool::new(false),
            filter_slots,
            filters: OnceLock::new(),
        }
    }

    /// Makes the filters for the probe side. Called before any instance runs, for one instance
    /// after the other.
    pub(crate) fn filters(&self, setup: &Setup) -> Result<Arc<JoinFilters>> {
        if let Some(filters) = self.filters.get() {
            return Ok(filters.clone());
        }
        let sides = [&self.ready.build_layout, &self.ready.probe_layout].map(|it| it.keys());
        let made = Arc::new(JoinFilters::new(&self.filter_slots, sides, setup)?);
        Ok(self.filters.get_or_init(|| made).clone())
    }

    /// The requested rows in all processes.
    pub(crate) fn read(
        &self,
        ready: &Arc<PreparedJoin>,
        request: &RowRequest,
        setup: &Setup,
    ) -> Result<Batches> {
        let (ready, side) = (ready.clone(), request.side);
        let here = self.shared_build.read(request);
        let others = setup.exchange.fetch(request.number())?.into_iter().flatten();
        let others = others.map(move |batch| ready.of_wire(side, &batch?));
        Ok(Box::new(here.chain(others)))
    }
}

impl ExchangeServer for SharedJoin {
    fn schema(&self) -> SchemaRef {
        self.ready.wire()
    }

    /// The requested rows of one side in this process.
    fn serve(&self, request: u64) -> Result<Batches> {
        let ready = self.ready.clone();
        let request = RowRequest::of(request);
        let side = request.side;
        let batches = self.shared_build.read(&request);
        Ok(Box::new(batches.map(move |batch| ready.to_wire(side, batch?))))
    }
}
