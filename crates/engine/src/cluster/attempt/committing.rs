//! The commit of an attempt: collects the descriptions of staged outputs from workers, and lets
//! them publish outputs that only they can access.

use std::collections::BTreeMap;
use std::time::Duration;

use euphrates_flow::Result;
use euphrates_store::commit::PreparedOutput;
use serde_json::Value;

use super::Attempt;
use crate::cluster::control::{MasterCommand, Outcome};

impl Attempt {
    /// Tells all workers to make their output durable, and collects what is staged, by module.
    pub fn prepare_outputs(
        &self,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<usize, Vec<Value>>> {
        self.command_all(|_| MasterCommand::PrepareOutputs);
        let mut all: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        let outcomes = self.answers(Duration::MAX, is_cancelled)?;
        for (worker, Outcome { staged, remarks, excluded, .. }) in outcomes.into_iter().enumerate()
        {
            staged.into_iter().for_each(|(module, part)| all.entry(module).or_default().push(part));
            let name = &self.handles[worker].member().name;
            let excluded = excluded.into_iter().map(|text| format!("{name}: {text}"));
            self.excluded.lock().extend(excluded);
            let mut known = self.remarks.lock();
            remarks.into_iter().for_each(|(module, remark)| {
                known.entry(module).or_default().push((worker, remark));
            });
        }
        Ok(all)
    }

    /// The scratch folders that workers have excluded, with the reason of each.
    pub fn take_excluded(&self) -> Vec<String> {
        std::mem::take(&mut self.excluded.lock())
    }

    /// The number and name of the worker that has all instances of a module.
    pub fn worker_of(&self, module: usize) -> Option<(usize, &str)> {
        let worker = *self.placement.worker_of_instance[module].first()?;
        Some((worker, &self.handles.get(worker)?.member().name))
    }

    /// Tells a worker to publish an output that only it can reach.
    pub fn publish(&self, worker: usize, output: &PreparedOutput) -> Result<()> {
        let command = MasterCommand::Publish { outputs: vec![output.clone()] };
        self.handles[worker].command(self.id, &command, vec![]);
        // Publication is not interrupted.
        self.answers_of(&[worker], Duration::MAX, &|| false).map(drop)
    }
}
