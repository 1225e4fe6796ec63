//! Commands to a running flow, executed on all its workers: sample the rows of a queue, perturb.

use euphrates_flow::row::{RowTexts, last_texts};
use euphrates_flow::tap::ROWS_MAX;
use euphrates_flow::{Perturbation, Result};

use super::running::Running;
use crate::observe::sampler::Sampler;

impl Running {
    /// Keeps the last rows that pass through a queue from now on, at all workers, or stops keeping
    /// them. `edge` is the queue's position in the checked flow.
    pub fn keep_rows(&self, edge: usize, is_kept: bool) {
        if let Some(tap) = self.part.taps.get(edge) {
            tap.set_open(is_kept);
        }
        self.deployment.attempt.iter().for_each(|attempt| attempt.keep_rows(edge, is_kept));
    }

    /// The last rows kept of a queue, an equal share from each worker.
    pub fn rows(&self, edge: usize) -> Result<Vec<RowTexts>> {
        let here = self.part.taps.get(edge).map(|tap| tap.rows()).unwrap_or_default();
        let there = self.deployment.attempt.as_ref().map(|attempt| attempt.rows(edge));
        let mut all = there.unwrap_or_default();
        all.push(last_texts(&here, ROWS_MAX)?);
        all.retain(|rows| !rows.is_empty());
        let share = ROWS_MAX / all.len().max(1);
        let last = |rows: &Vec<RowTexts>| rows[rows.len().saturating_sub(share)..].to_vec();
        Ok(all.iter().flat_map(last).collect())
    }

    /// Adds perturbations, whose times count from now.
    pub fn perturb(&mut self, list: &[Perturbation]) -> Result<()> {
        let Some(sampler) = &self.sampler else { return Ok(()) };
        let list = sampler.perturb(list, &self.flow)?;
        if let Some(attempt) = &self.deployment.attempt {
            attempt.perturb(Some(&list));
        }
        if let Some(retry) = &mut self.retry {
            // A later attempt has the same perturbations.
            retry.options.perturbations.extend(list.iter().cloned());
        }
        self.perturbations.extend(list);
        Ok(())
    }

    /// Removes all perturbations, those of later attempts too.
    pub fn clear_perturbations(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.options.perturbations.clear();
        }
        self.sampler.iter().for_each(Sampler::clear_perturbations);
        self.deployment.attempt.iter().for_each(|attempt| attempt.perturb(None));
    }
}
