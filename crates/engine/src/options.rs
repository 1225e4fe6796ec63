//! How a flow is run: memory, instances, workers, folders, and what is done to it on purpose.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use euphrates_flow::Perturbation;
use euphrates_policy::distributed::Policy;
use euphrates_policy::memory;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::machine;

/// How a flow is run. The default suits this machine.
#[derive(Clone, Default)]
pub struct Options {
    /// Bytes of memory the flow may use; 70 % of the machine's or control group's by default.
    pub memory_bytes: Option<usize>,
    /// Instances of a module that does not say how many it wants; one a core by default.
    pub cores: Option<usize>,
    /// In-process workers that the instances are spread over; one by default.
    pub workers: Option<usize>,
    /// The workers to run on, in processes of their own; this process alone by default.
    pub cluster: Option<Arc<Cluster>>,
    /// How distributed queues decide; by default the best for where their ends are.
    pub division: Option<Policy>,
    /// Values of the flow's variables.
    pub variables: BTreeMap<String, Value>,
    /// Where collections live; `$EUPHRATES_HOME` or `~/.euphrates` by default.
    pub home: Option<PathBuf>,
    /// Folders for what does not fit the memory; `$EUPHRATES_SCRATCH` or under the home by default.
    pub scratch: Vec<PathBuf>,
    /// What is done to the flow, to see how it bears it.
    pub perturbations: Vec<Perturbation>,
    /// Whether outputs that the same flow has made before, asked so, need not be made again.
    pub resume: bool,
}

impl Options {
    pub(crate) fn cores(&self) -> usize {
        self.cores.unwrap_or_else(machine::cores).max(1)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(machine::home)
    }

    /// The memory budget in bytes.
    pub fn budget(&self) -> usize {
        self.memory_bytes.unwrap_or_else(|| memory::default_budget(machine::memory_bytes()))
    }
}
