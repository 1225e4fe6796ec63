//! The control protocol between a master and its workers: JSON in control frames, few and small.
//! Batches use other connections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_device::disk::DiskCounts;
use euphrates_flow::check::RemoteModule;
use euphrates_flow::metrics::RemoteMetrics;
use euphrates_flow::module::{NeededRows, Needs};
use euphrates_flow::spec::Shape;
use euphrates_flow::{DecisionRef, Document, Error, Perturbation, Result};
use euphrates_policy::distributed::Policy;
use euphrates_store::commit::{DecidedOutput, PreparedOutput};
use euphrates_store::segment::{message_of_schema, schema_of_message};
use euphrates_wire::address::Address;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::processors::ProcessClock;
use crate::observe::totals::MemoryTotals;
use crate::run::placement::{Placement, WorkerProperties};

/// The plan of one attempt at a flow, for one worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptPlan {
    /// The flow, with bound variables and all counts set.
    pub document: Document,
    /// The names of the modules, producers before consumers: modules are numbered in this order.
    pub order: Vec<String>,
    /// By name: facts about modules, for workers without instances of them.
    pub facts: BTreeMap<String, EncodedModule>,
    /// By name: fingerprints of the modules' inputs, as the master sees them.
    pub sees: BTreeMap<String, String>,
    /// The worker of every instance.
    pub placement: Placement,
    /// The names of the workers; the master's is the last.
    pub names: Vec<String>,
    /// The address of each worker, for batches.
    pub addresses: Vec<Address>,
    /// What each worker lends, from whom others may borrow.
    #[serde(default)]
    pub lending: Vec<PlannedLending>,
    /// Connections between any two workers.
    pub lanes: usize,
    /// The flow's secret, for its own connections.
    pub secret: String,
    /// The memory budget of this worker.
    pub memory_bytes: usize,
    /// Bytes of remote data that this worker may keep, if any.
    pub cache_bytes: Option<usize>,
    /// The name of the policy of distributed queues.
    pub queues: Option<String>,
    /// The folder of collections.
    pub home: PathBuf,
    /// Folders for spilled data; the worker's own if empty.
    pub scratch: Vec<PathBuf>,
    /// The unique name of the run.
    pub run_id: String,
    /// The record that decides whether outputs are published, if there are several.
    pub decision: Option<DecisionRef>,
    /// Outputs of dead flows that only one of the workers can publish, each with its run.
    pub decided: Vec<(String, DecidedOutput)>,
    /// The perturbations of the flow.
    pub perturbations: Vec<Perturbation>,
    /// Seconds from the start of the flow to the making of this plan; perturbations count from
    /// that start.
    pub ran_seconds: f64,
    /// The limit on silence of any process, if not the default.
    #[serde(default)]
    pub lost_after: Option<Duration>,
}

/// A worker of a plan, as one that may lend memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlannedLending {
    /// Its machine.
    pub host: String,
    /// The bytes that it lends.
    pub bytes: u64,
}

impl AttemptPlan {
    /// The modules that this worker does not need: it has no instance of them, and no
    /// consumer of their partitions.
    pub fn elsewhere(&self) -> Result<BTreeMap<String, RemoteModule>> {
        let is_here = |name: &str| {
            let node = self.order.iter().position(|other| other == name);
            node.is_some_and(|node| self.placement.here(node).next().is_some())
        };
        let feeds = |name: &str| {
            let mut edges = self.document.queues.iter().filter(|edge| edge.from == name);
            edges.any(|edge| is_here(&edge.to))
        };
        let is_needed =
            |name: &str, facts: &EncodedModule| is_here(name) || facts.keyed && feeds(name);
        let known = self.facts.iter().filter(|(name, facts)| !is_needed(name, facts));
        known.map(|(name, facts)| Ok((name.clone(), facts.decode()?))).collect()
    }
}

/// Encoded facts about a module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EncodedModule {
    schemas: Vec<Vec<u8>>,
    ordered: bool,
    sorted_by: Vec<String>,
    needs_runs: bool,
    keyed: bool,
    shape: Option<Shape>,
    needs: Needs,
    rows: NeededRows,
}

impl EncodedModule {
    /// Encodes the schemas as Arrow IPC messages.
    pub fn encode(facts: RemoteModule) -> Result<EncodedModule> {
        let RemoteModule { schemas, ordered, sorted_by, needs_runs, keyed, shape, needs, rows } =
            facts;
        let schemas = schemas.iter().map(|schema| message_of_schema(schema));
        let schemas = schemas.collect::<Result<_>>()?;
        Ok(EncodedModule { schemas, ordered, sorted_by, needs_runs, keyed, shape, needs, rows })
    }

    /// Decodes the schemas; fails if one is corrupt.
    pub fn decode(&self) -> Result<RemoteModule> {
        let schemas = self.schemas.iter().map(|message| schema_of_message(message));
        Ok(RemoteModule {
            schemas: schemas.collect::<Result<_>>()?,
            ordered: self.ordered,
            sorted_by: self.sorted_by.clone(),
            needs_runs: self.needs_runs,
            keyed: self.keyed,
            shape: self.shape.clone(),
            needs: self.needs.clone(),
            rows: self.rows.clone(),
        })
    }
}

/// A command of a master to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum MasterCommand {
    /// Publishes outputs of dead flows that only this worker can reach, then checks the flow and
    /// prepares its part here. The body is the plan, which is large if it contains functions.
    Prepare,
    /// Connects to the other workers.
    Connect,
    /// Starts the instances of the part.
    Start,
    /// Adds perturbations; times count from the start of the flow.
    Perturb {
        /// The perturbations to add.
        list: Vec<Perturbation>,
    },
    /// Removes all perturbations of the flow.
    Unperturb,
    /// Keeps the last rows that pass through a queue to consumers here and reports them, or stops
    /// that.
    KeepRows {
        /// The queue's position in the flow.
        edge: usize,
        /// Whether rows are kept.
        is_kept: bool,
    },
    /// Cancels the instances. Staged output stays until `Close`.
    Cancel,
    /// The instances of these modules, and of no others, claim no work here, since the worker
    /// drains and other workers may claim it.
    Hold {
        /// The modules' positions in the flow.
        modules: Vec<usize>,
    },
    /// Makes all output durable, and reports what was staged.
    PrepareOutputs,
    /// Publishes outputs that only this worker can reach.
    Publish {
        /// The outputs to publish.
        outputs: Vec<PreparedOutput>,
    },
    /// Forgets the flow and removes what was staged, except for these outputs.
    Close(Closing),
    /// The reply to `FetchAdd` or `Load`.
    Number {
        /// The call that is replied to.
        call: u64,
        /// The value of the counter.
        number: u64,
    },
    /// The reply to `Contribute` or `Observe`: the body has the values, concatenated.
    Gathered {
        /// The call that is replied to.
        call: u64,
        /// The lengths of the values; `None` if there will be none, since an instance has left.
        lengths: Option<Vec<usize>>,
    },
}

/// What becomes of staged outputs, by module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Closing {
    /// Outputs that are published.
    pub published: Vec<usize>,
    /// Outputs whose outcome this attempt leaves to the decision record.
    pub orphaned: Vec<usize>,
}

/// What a worker reports to a master about itself, in frames of no flow.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
pub enum WorkerNotice {
    /// Its properties.
    Introduction(WorkerProperties),
    /// It drains: it is to be left out of flows that start from now on. A worker that drains
    /// already says so before it introduces itself.
    Draining,
}

/// An event that a worker reports to its master.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
pub enum ControlEvent {
    /// The last command is done. The body is its outcome, if it has one.
    Done,
    /// The last command failed.
    Failed {
        /// The error of the command.
        error: Error,
    },
    /// The worker has forgotten the flow.
    Closed,
    /// The part has panicked, and reports nothing more.
    Broken {
        /// The panic as an error.
        error: Error,
    },
    /// An instance has ended.
    Ended {
        /// The module's position in the flow, and the instance's number.
        instance: (usize, usize),
        /// The error, if it failed.
        error: Option<Error>,
    },
    /// The status of the part.
    Status(Status),
    /// The last rows kept of a queue: the body has them as text.
    Rows {
        /// The queue's position in the flow.
        edge: usize,
    },
    /// An instance increments a counter.
    FetchAdd {
        /// The number of this call.
        call: u64,
        /// The name of the counter.
        name: String,
    },
    /// An instance reads a counter.
    Load {
        /// The number of this call.
        call: u64,
        /// The name of the counter.
        name: String,
    },
    /// An instance contributes a value, in the body, and waits for the values of all.
    Contribute {
        /// The number of this call.
        call: u64,
        /// The module whose instances contribute.
        module: String,
        /// The name of the all-gather in the module.
        name: String,
        /// The number of the member, and of all members.
        member: (usize, usize),
    },
    /// An instance waits for the values of all members.
    Observe {
        /// The number of this call.
        call: u64,
        /// The module whose instances contribute.
        module: String,
        /// The name of the all-gather in the module.
        name: String,
    },
    /// An instance contributes to none of its module's all-gathers any more.
    LeaveGathers {
        /// The module.
        module: String,
    },
}

/// The outcome of a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// By module: what it has staged.
    pub staged: Vec<(usize, Value)>,
    /// By module: its remark.
    pub remarks: Vec<(usize, String)>,
    /// The run and module of each output of a dead flow that was published here.
    pub kept: Vec<(String, String)>,
    /// Scratch folders that were excluded here, with the reason of each.
    #[serde(default)]
    pub excluded: Vec<String>,
}

impl Outcome {
    /// Encodes it as a body; empty if there is nothing in it.
    pub fn write(&self) -> Vec<Buffer> {
        let Outcome { staged, remarks, kept, excluded } = self;
        let texts_are_empty = remarks.is_empty() && excluded.is_empty();
        let is_empty = staged.is_empty() && texts_are_empty && kept.is_empty();
        if is_empty { vec![] } else { vec![Buffer::from_vec(write(self))] }
    }

    /// Decodes a body; an empty one is the default.
    pub fn read(body: &Buffer) -> Result<Outcome> {
        if body.is_empty() { Ok(Outcome::default()) } else { read(body) }
    }
}

/// The status of a worker's part of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The module and number of each instance here, with its measurements.
    pub instances: Vec<(usize, usize, RemoteMetrics)>,
    /// Bytes that wait in each edge's queues: put here minus taken here.
    pub waiting_bytes: Vec<i64>,
    /// Rows and bytes that have passed each edge's queues to consumers here.
    pub passed: Vec<(u64, u64)>,
    /// CPU clocks of the process and its machine.
    pub clock: Option<ProcessClock>,
    /// Transfers of the disks since the start of the part.
    pub disks: Vec<DiskCounts>,
    /// The memory that the modules of the process divide.
    pub memory: MemoryTotals,
}

/// Encodes a message as JSON.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("numbers, names and lists are JSON")
}

/// Decodes a message; fails if it is malformed.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let malformed = |error| Error::corrupt(format!("a control message that is none: {error}"));
    serde_json::from_slice(bytes).map_err(malformed)
}

/// The name of a policy, for those that have one.
pub fn name_of(policy: Option<Policy>) -> Option<String> {
    crate::queue::policies::name_of(policy?).map(str::to_string)
}
