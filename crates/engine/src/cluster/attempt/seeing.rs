//! What a master sees of the queues at its workers, and what it has done to the flow there.

use arrow::buffer::Buffer;
use euphrates_flow::Perturbation;
use euphrates_flow::row::Texts;

use super::{Attempt, Seen};
use crate::cluster::control::{self, Ask};

impl Attempt {
    /// Bytes that wait in the queues of an edge at other workers.
    pub fn waiting_bytes(&self, edge: usize) -> i64 {
        let looks = self.seen.looks.lock();
        let known = looks.iter().filter_map(|(_, look)| look.as_ref());
        known.filter_map(|look| look.waiting_bytes.get(edge)).sum()
    }

    /// Rows and bytes that have come through an edge at other workers.
    pub fn passed(&self, edge: usize) -> (u64, u64) {
        let looks = self.seen.looks.lock();
        let known = looks.iter().filter_map(|(_, look)| look.as_ref()?.passed.get(edge));
        known.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// All workers do this to the flow, or nothing any more.
    pub fn perturb(&self, list: Option<&[Perturbation]>) {
        self.ask_all(|_| match list {
            Some(list) => Ask::Perturb { list: list.to_vec() },
            None => Ask::Unperturb,
        });
    }

    /// All workers keep the last rows of a queue, or no longer.
    pub fn keep_rows(&self, edge: usize, is_kept: bool) {
        if !is_kept {
            self.seen.rows.lock().retain(|(queue, _), _| *queue != edge);
        }
        self.ask_all(|_| Ask::KeepRows { edge, is_kept });
    }

    /// The last rows of a queue, of each worker that has told some.
    pub fn rows(&self, edge: usize) -> Vec<Vec<Texts>> {
        let rows = self.seen.rows.lock();
        rows.range((edge, 0)..(edge + 1, 0)).map(|(_, rows)| rows.clone()).collect()
    }
}

impl Seen {
    /// Rows that cannot be read are not worth a flow.
    pub(super) fn on_rows(&self, worker: usize, edge: usize, body: &Buffer) {
        if let Ok(rows) = control::read(body) {
            self.rows.lock().insert((edge, worker), rows);
        }
    }
}
