//! Options of a flow: memory, instances, workers, folders, perturbations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use euphrates_flow::{CacheGrant, Error, Perturbation, Result};
use euphrates_policy::distributed::Policy;
use euphrates_policy::memory::{self, BUDGET_BYTES_MIN};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::machine;
use crate::observe::format::bytes_of;
use crate::observe::observer::FlowObserver;

/// The most instances of a module: more than any machine has processors.
const THREADS_MAX: usize = 4096;

/// Options of a flow. The default suits this machine.
#[derive(Clone, Default)]
pub struct Options {
    /// Bytes of memory the flow may use on each machine; 70 % of the machine's or control group's
    /// by default.
    pub memory_bytes: Option<usize>,
    /// Bytes of remote data that may be kept on each machine for later flows, beside
    /// `memory_bytes`; without it, the flow keeps none and uses none.
    pub cache_bytes: Option<usize>,
    /// Instances of a module that does not set its count; one for each processor by default.
    pub cores: Option<usize>,
    /// In-process workers that the instances are spread over; one by default.
    pub workers: Option<usize>,
    /// The workers to run on, each a process; this process alone by default.
    pub cluster: Option<Arc<Cluster>>,
    /// The policy of distributed queues; by default the best for where their ends are.
    pub queue_policy: Option<Policy>,
    /// Values of the flow's variables.
    pub variables: BTreeMap<String, Value>,
    /// Where collections live; `$EUPHRATES_HOME` or `~/.euphrates` by default.
    pub home: Option<PathBuf>,
    /// Folders for spilled data; `$EUPHRATES_SCRATCH` or under the home by default.
    pub scratch: Vec<PathBuf>,
    /// Slowdowns imposed on the flow, to observe how it reacts.
    pub perturbations: Vec<Perturbation>,
    /// Whether to run nothing if an earlier run with this option has made all outputs. If some are
    /// missing, the flow runs, and may replace the outputs of that run; it continues from completed
    /// units if it works by units (`unit_recovery`).
    pub resume: bool,
    /// Told what happens to the flow.
    pub observers: Vec<Arc<dyn FlowObserver>>,
}

impl Options {
    /// Refuses zeros, thread counts (one for each instance) that would stall the machine, and
    /// budgets that any flow would exceed.
    pub(crate) fn check(&self) -> Result<()> {
        let given = [
            ("cores", self.cores, THREADS_MAX),
            ("memory", self.memory_bytes, usize::MAX),
            ("cache", self.cache_bytes, usize::MAX),
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
        if let Some(bytes) = self.cache_bytes
            && self.cluster.is_none()
        {
            check_cache("this machine", bytes, machine::memory_bytes())?;
        }
        match self.memory_bytes {
            Some(bytes) if bytes < BUDGET_BYTES_MIN => {
                let error = Error::usage(format!("no flow can run in {bytes} bytes of memory"));
                let least = BUDGET_BYTES_MIN >> 20;
                Err(error.remedy(format!("give at least {least}MiB, better 128MiB")))
            }
            _ => Ok(()),
        }
    }

    /// The permission to keep remote data for a flow that is about to be checked.
    pub(crate) fn cache_grant(&self) -> Option<CacheGrant> {
        self.cache_bytes.map(|bytes| CacheGrant::new(bytes as u64))
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.unwrap_or_else(machine::cores).max(1)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(machine::home)
    }

    /// The scratch folders: those given, else those of the environment or the home folder.
    pub fn scratch(&self) -> Vec<PathBuf> {
        match self.scratch.is_empty() {
            true => machine::scratch(&self.home()),
            false => self.scratch.clone(),
        }
    }

    /// The memory budget in bytes.
    ///
    /// ```
    /// use euphrates_engine::Options;
    ///
    /// let options = Options { memory_bytes: Some(1 << 30), ..Options::default() };
    /// assert_eq!(options.budget(), 1 << 30);
    /// assert!(Options::default().budget() > 0, "70 % of the machine's memory");
    /// ```
    pub fn budget(&self) -> usize {
        self.memory_bytes.unwrap_or_else(|| memory::default_budget(machine::memory_bytes()))
    }
}

/// Refuses a cache that is larger than the memory of the machine that it is on.
pub(crate) fn check_cache(machine: &str, bytes: usize, memory_bytes: u64) -> Result<()> {
    if bytes as u64 <= memory_bytes {
        return Ok(());
    }
    let (cache, memory) = (bytes_of(bytes as f64), bytes_of(memory_bytes as f64));
    let error = Error::usage(format!("a cache of {cache} is more than {machine} has: {memory}"));
    Err(error.remedy("give less: what the flow's `memory` leaves"))
}
