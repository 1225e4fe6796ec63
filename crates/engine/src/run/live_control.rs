//! What is asked of a flow while it runs, and done at all its workers: to show the rows of a queue,
//! to be perturbed.

use euphrates_flow::row::{Texts, last_texts};
use euphrates_flow::tap::ROWS_MAX;
use euphrates_flow::{Perturbation, Result};

use crate::observe::watch::Watch;
use crate::run::master::Running;

impl Running {
    /// From now on the last rows that come through a queue are kept, wherever they do, or no
    /// longer; the queue by its position in the checked flow.
    pub fn keep_rows(&self, edge: usize, is_kept: bool) {
        if let Some(tap) = self.worker.taps.get(edge) {
            tap.open(is_kept);
        }
        self.deployment.attempt.iter().for_each(|attempt| attempt.keep_rows(edge, is_kept));
    }

    /// The last rows of a queue that are kept, of all workers some.
    pub fn rows(&self, edge: usize) -> Result<Vec<Texts>> {
        let here = self.worker.taps.get(edge).map(|tap| tap.rows()).unwrap_or_default();
        let there = self.deployment.attempt.as_ref().map(|attempt| attempt.rows(edge));
        let mut all = there.unwrap_or_default();
        all.push(last_texts(&here, ROWS_MAX)?);
        all.retain(|rows| !rows.is_empty());
        let share = ROWS_MAX / all.len().max(1);
        let last = |rows: &Vec<Texts>| rows[rows.len().saturating_sub(share)..].to_vec();
        Ok(all.iter().flat_map(last).collect())
    }

    /// Does this to the flow besides what is done to it already; times count from now.
    pub fn perturb(&mut self, list: &[Perturbation]) -> Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let list = watch.perturb(list, &self.flow)?;
        if let Some(attempt) = &self.deployment.attempt {
            attempt.perturb(Some(&list));
        }
        if let Some(again) = &mut self.again {
            // Should the flow begin again, so does this.
            again.options.perturbations.extend(list.iter().cloned());
        }
        self.perturbations.extend(list);
        Ok(())
    }

    /// Does nothing to the flow any more.
    pub fn unperturb(&mut self) {
        if let Some(again) = &mut self.again {
            again.options.perturbations.clear();
        }
        self.watch.iter().for_each(Watch::unperturb);
        self.deployment.attempt.iter().for_each(|attempt| attempt.perturb(None));
    }
}
