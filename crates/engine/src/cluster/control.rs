//! The control protocol between a master and its workers: JSON in control frames, seldom and small.
//! Batches never travel here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_flow::check::Facts;
use euphrates_flow::metrics::Told;
use euphrates_flow::spec::Shape;
use euphrates_flow::{DecisionRef, Document, Error, Perturbation, Result};
use euphrates_io::commit::{Output, Promise};
use euphrates_io::disk::DiskCounts;
use euphrates_io::segment::{message_of_schema, schema_of_message};
use euphrates_policy::distributed::Policy;
use euphrates_wire::address::Address;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::processors::ProcessClock;
use crate::run::placement::Placement;

/// One attempt at a flow, as one worker needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The flow, its variables bound and its counts settled.
    pub document: Document,
    /// The modules' names, producers before consumers: what numbers of modules count.
    pub order: Vec<String>,
    /// What is known of modules, by name, for workers where they have no instances.
    pub facts: BTreeMap<String, FactsTold>,
    /// What modules take from outside, by name, as the master sees it.
    pub sees: BTreeMap<String, String>,
    /// Which instances are where.
    pub placement: Placement,
    /// The workers' names, the master's last.
    pub names: Vec<String>,
    /// Where batches for each worker go.
    pub addresses: Vec<Address>,
    /// Connections between any two.
    pub lanes: usize,
    /// What the flow's own connections are made with.
    pub secret: String,
    /// Bytes this worker may hold.
    pub memory_bytes: usize,
    /// How distributed queues decide, by name.
    pub queues: Option<String>,
    /// Where collections live.
    pub home: PathBuf,
    /// For what does not fit the memory; the worker's own if there are none.
    pub scratch: Vec<PathBuf>,
    /// A name no other run has.
    pub run_id: String,
    /// The record that decides whether outputs are published, if there are several.
    pub decision: Option<DecisionRef>,
    /// Outputs of dead flows, with the run of each, that only one of the workers can publish.
    pub promised: Vec<(String, Promise)>,
    /// What is done to the flow.
    pub perturbations: Vec<Perturbation>,
    /// How long the flow has been running, if this is not its first attempt: times of perturbations
    /// count from its start.
    pub ran_seconds: f64,
    /// The limit on silence of any end, if not the default.
    #[serde(default)]
    pub lost_after: Option<Duration>,
}

impl Plan {
    /// What is known of the modules that this worker does not need: those that have no instance
    /// here, and keep no partitions for one that has.
    pub fn elsewhere(&self) -> Result<BTreeMap<String, Facts>> {
        let is_here = |name: &str| {
            let node = self.order.iter().position(|other| other == name);
            node.is_some_and(|node| self.placement.here(node).next().is_some())
        };
        let feeds = |name: &str| {
            let mut edges = self.document.queues.iter().filter(|edge| edge.from == name);
            edges.any(|edge| is_here(&edge.to))
        };
        let is_needed = |name: &str, facts: &FactsTold| is_here(name) || facts.keyed && feeds(name);
        let told = self.facts.iter().filter(|(name, facts)| !is_needed(name, facts));
        told.map(|(name, facts)| Ok((name.clone(), facts.read()?))).collect()
    }
}

/// What is known of a module elsewhere, as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FactsTold {
    schemas: Vec<Vec<u8>>,
    ordered: bool,
    sorted_by: Vec<String>,
    needs_runs: bool,
    keyed: bool,
    shape: Option<Shape>,
}

impl FactsTold {
    /// For the journey.
    pub fn of(facts: Facts) -> Result<FactsTold> {
        let Facts { schemas, ordered, sorted_by, needs_runs, keyed, shape } = facts;
        let schemas = schemas.iter().map(|schema| message_of_schema(schema));
        let schemas = schemas.collect::<Result<_>>()?;
        Ok(FactsTold { schemas, ordered, sorted_by, needs_runs, keyed, shape })
    }

    /// After it.
    pub fn read(&self) -> Result<Facts> {
        let schemas = self.schemas.iter().map(|message| schema_of_message(message));
        Ok(Facts {
            schemas: schemas.collect::<Result<_>>()?,
            ordered: self.ordered,
            sorted_by: self.sorted_by.clone(),
            needs_runs: self.needs_runs,
            keyed: self.keyed,
            shape: self.shape.clone(),
        })
    }
}

/// What a master wants of a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Ask {
    /// Check the flow, prepare what is here of it, and listen for the others. The body is the plan:
    /// with the functions it carries, it may be large.
    Prepare,
    /// Call the others.
    Connect,
    /// Go.
    Start,
    /// Do this to the flow besides what is done to it already; times count from its start.
    Perturb {
        /// What.
        list: Vec<Perturbation>,
    },
    /// Do nothing to it any more.
    Unperturb,
    /// Keep the last rows that come through a queue to consumers here, and tell them; or no longer.
    KeepRows {
        /// Its number.
        edge: usize,
        /// Whether they are kept.
        is_kept: bool,
    },
    /// Stop; what was staged goes.
    Cancel,
    /// Make durable what was written, and say what has been staged.
    Settle,
    /// Publish these outputs: only this worker sees what is staged of them.
    Publish {
        /// What to publish.
        outputs: Vec<Output>,
    },
    /// It is over: forget the flow. What was staged goes, but for these.
    Close(Closing),
    /// The number that was asked for.
    Number {
        /// By which call.
        call: u64,
        /// The number.
        number: u64,
    },
    /// The values that were waited for: the body has them one behind the other.
    Gathered {
        /// By which call.
        call: u64,
        /// Their lengths.
        lengths: Vec<usize>,
    },
}

/// What becomes of outputs that were staged at a worker, by module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Closing {
    /// They have been published.
    pub shown: Vec<usize>,
    /// They are to be published by whoever completes the decision.
    pub left: Vec<usize>,
}

/// What a worker tells its master.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
pub enum Tell {
    /// What was asked for last is done. The body says what came of it, if anything did.
    Done,
    /// What was asked for last cannot be done.
    Failed {
        /// Why.
        error: Error,
    },
    /// The flow is forgotten.
    Closed,
    /// Its part has broken down, and will say nothing more.
    Broken {
        /// How.
        error: Error,
    },
    /// An instance has ended.
    Ended {
        /// Module and number.
        instance: (usize, usize),
        /// If it failed.
        error: Option<Error>,
    },
    /// How it goes.
    Look(Look),
    /// The last rows of a queue that are kept here, as text: the body has them.
    Rows {
        /// Its number.
        edge: usize,
    },
    /// An instance wants the next number of this name.
    Next {
        /// Which call this is.
        call: u64,
        /// The name.
        name: String,
    },
    /// An instance wants to know how many numbers of this name have been given.
    Given {
        /// Which call this is.
        call: u64,
        /// The name.
        name: String,
    },
    /// An instance brings a value, in the body, and waits for those of the others.
    Bring {
        /// Which call this is.
        call: u64,
        /// The name.
        name: String,
        /// Which member, of how many.
        member: (usize, usize),
    },
    /// An instance waits for the values that others bring.
    Learn {
        /// Which call this is.
        call: u64,
        /// The name.
        name: String,
    },
}

/// What came of a step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// By module: what it has staged.
    pub staged: Vec<(usize, Value)>,
    /// By module: what it has to say.
    pub remarks: Vec<(usize, String)>,
    /// By run and module: what dead flows had promised, and has been published here now.
    pub kept: Vec<(String, String)>,
}

impl Outcome {
    /// As it travels.
    pub fn write(&self) -> Vec<Buffer> {
        let Outcome { staged, remarks, kept } = self;
        let is_empty = staged.is_empty() && remarks.is_empty() && kept.is_empty();
        if is_empty { vec![] } else { vec![Buffer::from_vec(write(self))] }
    }

    /// What travelled.
    pub fn read(body: &Buffer) -> Result<Outcome> {
        if body.is_empty() { Ok(Outcome::default()) } else { read(body) }
    }
}

/// What a worker sees of its part of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// The instances here: module, number, and what is known.
    pub instances: Vec<(usize, usize, Told)>,
    /// Bytes that wait in each edge's queues, as far as this process knows.
    pub waiting_bytes: Vec<i64>,
    /// Rows and bytes that have come through each edge's queues to consumers here.
    pub passed: Vec<(u64, u64)>,
    /// What its processors did.
    pub clock: Option<ProcessClock>,
    /// What its disks did.
    pub disks: Vec<DiskCounts>,
}

/// As it travels.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("numbers, names and lists are JSON")
}

/// What travelled.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let malformed = |error| Error::corrupt(format!("a control message that is none: {error}"));
    serde_json::from_slice(bytes).map_err(malformed)
}

/// The name of a policy, for those that have one.
pub fn name_of(policy: Option<Policy>) -> Option<String> {
    crate::queue::policies::name_of(policy?).map(str::to_string)
}
