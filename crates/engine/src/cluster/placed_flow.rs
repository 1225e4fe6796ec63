//! Checks a flow for a cluster, and assigns its instances to workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::check::{CheckedFlow, check_part};
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_policy::memory;
use serde_json::Value;

use super::Cluster;
use super::control_connection::WorkerHandle;
use super::identity::MASTER;
use crate::run::options::{Options, check_cache};
use crate::run::placement::{WorkerProperties, place, resolve_counts};

/// A flow that has been checked for a cluster.
pub struct PlacedFlow {
    /// Its variables are bound, and all its counts set.
    pub document: Document,
    /// The flow as it was checked.
    pub flow: CheckedFlow,
    /// By module and instance: the number of its worker; the master's is the last.
    pub worker_of_instance: Vec<Vec<usize>>,
    /// The workers, by number.
    pub handles: Vec<Arc<WorkerHandle>>,
    /// Their properties, by number.
    pub members: Vec<WorkerProperties>,
    /// Workers excluded because they cannot connect to all others.
    pub left_out: Vec<String>,
}

/// The memory of one worker.
#[derive(Clone, Copy, Debug)]
pub struct MemoryShare {
    /// The budget of the flow.
    pub budget_bytes: usize,
    /// Bytes of remote data that may be kept beside it, if any.
    pub cache_bytes: Option<usize>,
}

/// Checks a flow and assigns its instances to workers.
pub fn check_and_place(
    cluster: &Cluster,
    document: &Document,
    registry: &Registry,
    options: &Options,
) -> Result<PlacedFlow> {
    let (handles, left_out) = cluster.roster.usable();
    let members: Vec<WorkerProperties> =
        handles.iter().map(|handle| handle.member().clone()).collect();
    if members.is_empty() {
        return Err(cluster.roster.none_available());
    }
    let mut bound = document.bind(&options.variables)?;
    resolve_counts(&mut bound, &members)?;
    let cores = members.iter().map(|member| member.cores.max(1)).sum();
    if let Some(bytes) = options.cache_bytes {
        for member in &members {
            check_cache(&format!("worker {}", member.name), bytes, member.memory_bytes)?;
        }
    }
    let (home, cache) = (options.home(), options.cache_grant());
    let cores = options.cores.unwrap_or(cores);
    let mut flow = check_part(&bound, registry, cores, (&home, cache), &BTreeMap::new())?;
    flow.fit_queues(options.budget());
    let mut document = flow.document.clone();
    let folder = std::env::current_dir();
    let folder = folder.map_err(|error| Error::os("find", "the current folder", &error))?;
    for node in &mut document.modules {
        let checked = flow.nodes.iter().find(|checked| checked.id == node.id);
        node.count = checked.map(|checked| checked.count);
        let standing = checked.and_then(|checked| checked.module.rebased(&folder));
        if let Some(Value::Object(config)) = standing {
            node.config = config;
        }
    }
    let of = place(&flow, &members)?;
    Ok(PlacedFlow { document, flow, worker_of_instance: of, handles, members, left_out })
}

impl PlacedFlow {
    /// The names of the processes, by number; the master's is the last.
    pub fn names(&self) -> Arc<[String]> {
        self.members.iter().map(|member| member.name.clone()).chain([MASTER.to_string()]).collect()
    }

    /// The memory of a worker: that of its machine, by option or default, divided by the workers
    /// there.
    pub fn share(&self, options: &Options, worker: usize) -> MemoryShare {
        let member = &self.members[worker];
        let neighbours = self.members.iter().filter(|other| other.host == member.host).count();
        let all = options.memory_bytes;
        let all = all.unwrap_or_else(|| memory::default_budget(member.memory_bytes));
        let cache_bytes = options.cache_bytes.map(|bytes| bytes / neighbours.max(1));
        MemoryShare { budget_bytes: all / neighbours.max(1), cache_bytes }
    }
}
