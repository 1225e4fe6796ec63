//! The end of an attempt: what workers have staged, and what only they can publish.

use std::collections::BTreeMap;
use std::time::Duration;

use euphrates_flow::Result;
use euphrates_io::commit::Output;
use serde_json::Value;

use super::Attempt;
use crate::cluster::control::{Ask, Outcome};

impl Attempt {
    /// Has everything made durable, and gathers what has been staged, by module; until it is to
    /// end.
    pub fn settle(&self, is_cancelled: &dyn Fn() -> bool) -> Result<BTreeMap<usize, Vec<Value>>> {
        self.ask_all(|_| Ask::Settle);
        let mut all: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        let outcomes = self.answers(Duration::MAX, is_cancelled)?;
        for (worker, Outcome { staged, remarks, .. }) in outcomes.into_iter().enumerate() {
            staged.into_iter().for_each(|(module, part)| all.entry(module).or_default().push(part));
            let mut known = self.remarks.lock();
            remarks.into_iter().for_each(|(module, remark)| {
                known.entry(module).or_default().push((worker, remark));
            });
        }
        Ok(all)
    }

    /// The worker at which a module is as a whole, by number and name.
    pub fn worker_of(&self, module: usize) -> Option<(usize, &str)> {
        let worker = *self.placement.of[module].first()?;
        Some((worker, &self.handles.get(worker)?.member().name))
    }

    /// Has a worker publish an output that nobody else sees.
    pub fn publish(&self, worker: usize, output: &Output) -> Result<()> {
        let ask = Ask::Publish { outputs: vec![output.clone()] };
        self.handles[worker].ask(self.id, &ask, vec![]);
        // What begins to be visible is not interrupted.
        self.answers_of(&[worker], Duration::MAX, &|| false).map(drop)
    }
}
