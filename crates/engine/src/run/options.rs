//! How a flow is run: memory, instances, workers, folders, and what is done to it on purpose.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use euphrates_flow::{Error, Perturbation, Result};
use euphrates_policy::distributed::Policy;
use euphrates_policy::memory;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::machine;

/// Instances of a module that may be asked for: more than any machine has processors.
const THREADS_MAX: usize = 4096;

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
    /// Refuses numbers that make no sense: none of something, or thousands of threads, one
    /// for each instance, that the machine is of no use to anybody.
    pub(crate) fn check(&self) -> Result<()> {
        let given = [
            ("threads", self.cores, THREADS_MAX),
            ("memory", self.memory_bytes, usize::MAX),
            ("workers", self.workers, THREADS_MAX),
        ];
        for (what, number, most) in given {
            if number == Some(0) {
                let error = Error::usage(format!("a flow cannot run with no {what}"));
                return Err(error.remedy("give at least 1, or leave it out"));
            }
            if let Some(number) = number.filter(|number| *number > most) {
                let error = Error::usage(format!("{number} {what} are more than {most}"));
                return Err(error.remedy("leave it out: there is one for each processor"));
            }
        }
        Ok(())
    }

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
