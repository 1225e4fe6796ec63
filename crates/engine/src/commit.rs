//! The end of a flow: everything is made durable, then visible.
//!
//! What other processes have staged the master shows, all at once: whoever dies from then on, it is
//! there. Only what it cannot reach, a file of a worker's own disk, is committed by that worker.

use std::collections::BTreeMap;

use euphrates_flow::{Error, Result};
use serde_json::Value;

use crate::master::Running;

/// By module: what other processes have staged of it.
pub(crate) type Staged = BTreeMap<usize, Vec<Value>>;

impl Running {
    /// Makes everything durable; nothing is visible yet.
    pub(crate) fn settle(&self) -> Result<Staged> {
        for node in self.modules(|running, at| running.deployment.placement.is_whole(at)) {
            let settled = self.flow.nodes[node].placed.settle();
            settled.map_err(|error| self.placed(node, error))?;
        }
        // What is cancelled until now does not appear; after this, it does.
        if self.is_cancelled() {
            return Err(Error::interrupted());
        }
        let Some(attempt) = &self.deployment.attempt else { return Ok(Staged::new()) };
        let staged = attempt.settle(&|| self.is_cancelled())?;
        // Nobody guards any more what the dead have staged.
        match attempt.lost() {
            Some((name, error)) => Err(error.at(format!("worker {name}"))),
            None => Ok(staged),
        }
    }

    /// Makes everything visible.
    pub(crate) fn show(&self, staged: Staged) -> Result<()> {
        for node in self.modules(|running, at| running.deployment.placement.is_whole(at)) {
            let committed = self.flow.nodes[node].placed.commit();
            committed.map_err(|error| self.placed(node, error))?;
        }
        let Some(attempt) = &self.deployment.attempt else { return Ok(()) };
        // What has been shown stays, whatever comes after it.
        let mut shown = vec![];
        let done = self.show_staged(staged, &mut shown).and_then(|()| {
            let placement = &self.deployment.placement;
            let is_alone = |at: &usize| placement.is_at_one(*at) && !placement.is_whole(*at);
            let left: Vec<usize> = (0..self.flow.nodes.len())
                .filter(|at| is_alone(at) && !shown.contains(at))
                .collect();
            let remedy = "output at that worker may have become visible: look whether it is there";
            attempt.commit(&left).map_err(|error| match attempt.lost() {
                Some(_) => error.remedy(remedy),
                None => error,
            })
        });
        self.close_attempt(&shown);
        done
    }

    /// Has all workers forget the attempt, and what they have staged, but for the modules shown.
    pub(crate) fn close_attempt(&self, shown: &[usize]) {
        let Some(attempt) = &self.deployment.attempt else { return };
        attempt.close(shown);
        if attempt.lost().is_some() {
            self.flow.nodes.iter().for_each(|node| node.placed.reclaim());
        }
    }

    fn show_staged(&self, staged: Staged, shown: &mut Vec<usize>) -> Result<()> {
        for (node, parts) in staged {
            // Those that had nothing to stage have nothing to commit.
            if parts.iter().all(Value::is_null) {
                continue;
            }
            let committed =
                self.flow.nodes[node].placed.commit_staged(parts, &self.deployment.run_id);
            if committed.map_err(|error| self.placed(node, error))? {
                shown.push(node);
            }
        }
        Ok(())
    }

    fn modules(&self, wanted: impl Fn(&Running, usize) -> bool) -> Vec<usize> {
        (0..self.flow.nodes.len()).filter(|at| wanted(self, *at)).collect()
    }

    fn placed(&self, node: usize, error: Error) -> Error {
        error.at(format!("module {}", self.flow.nodes[node].id))
    }
}
