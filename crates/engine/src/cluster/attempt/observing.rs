//! Reads the workers' latest reports about queues, and forwards live commands to them.

use arrow::buffer::Buffer;
use euphrates_flow::Perturbation;
use euphrates_flow::row::RowTexts;

use super::{Attempt, Observed};
use crate::cluster::control::{self, MasterCommand, Status};
use crate::observe::totals::MemoryTotals;

impl Attempt {
    /// Bytes that wait in the queues of an edge at the workers.
    pub fn waiting_bytes(&self, edge: usize) -> i64 {
        let statuses = self.observed.statuses.lock();
        let known = statuses.iter().filter_map(|(_, status)| status.as_ref());
        known.filter_map(|status| status.waiting_bytes.get(edge)).sum()
    }

    /// Rows and bytes that have passed the queues of an edge at the workers.
    pub fn passed(&self, edge: usize) -> (u64, u64) {
        let statuses = self.observed.statuses.lock();
        let known = statuses.iter().filter_map(|(_, status)| status.as_ref()?.passed.get(edge));
        known.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// The names of the workers that are not lost.
    pub fn living(&self) -> Vec<String> {
        let living = self.handles.iter().filter(|handle| handle.lost().is_none());
        living.map(|handle| handle.member().name.clone()).collect()
    }

    /// The memory that the modules of each worker divide.
    pub fn memories(&self) -> Vec<MemoryTotals> {
        let statuses = self.observed.statuses.lock();
        statuses.iter().filter_map(|(_, status)| Some(status.as_ref()?.memory)).collect()
    }

    /// Adds perturbations at all workers, or removes all.
    pub fn perturb(&self, list: Option<&[Perturbation]>) {
        self.command_all(|_| match list {
            Some(list) => MasterCommand::Perturb { list: list.to_vec() },
            None => MasterCommand::Unperturb,
        });
    }

    /// Tells all workers to keep the last rows of a queue, or to stop that.
    pub fn keep_rows(&self, edge: usize, is_kept: bool) {
        if !is_kept {
            self.observed.rows.lock().retain(|(queue, _), _| *queue != edge);
        }
        self.command_all(|_| MasterCommand::KeepRows { edge, is_kept });
    }

    /// The last rows of a queue, by worker that has reported some.
    pub fn rows(&self, edge: usize) -> Vec<Vec<RowTexts>> {
        let rows = self.observed.rows.lock();
        rows.range((edge, 0)..(edge + 1, 0)).map(|(_, rows)| rows.clone()).collect()
    }
}

impl Observed {
    /// Stores a worker's report.
    pub(super) fn on_status(&self, worker: usize, status: Status) {
        for (module, number, reported) in &status.instances {
            if let Some(metrics) = self.metrics.get(*module).and_then(|of| of.get(*number)) {
                metrics.set_remote(*reported);
            }
        }
        self.statuses.lock()[worker].1 = Some(status);
    }

    /// Stores the rows of a worker; ignores rows that cannot be decoded.
    pub(super) fn on_rows(&self, worker: usize, edge: usize, body: &Buffer) {
        if let Ok(rows) = control::read(body) {
            self.rows.lock().insert((edge, worker), rows);
        }
    }
}
