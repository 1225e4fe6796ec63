//! The module traits (River, 2.3.1): `Module` is a running instance, `Placed` a configured module.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::ports::Ports;
use crate::ports::partitioned::{Partition, Partitioned};
use crate::setup::{Batches, DecisionRef, Setup};
use crate::shape::Shape;

/// One running copy of a module: a thread of control with inputs and outputs.
///
/// ```ignore
/// fn run(&mut self, ports: &mut Ports) -> Result<()> {
///     while let Some(batch) = ports.get(0)? {
///         ports.put(0, operate(batch)?)?;
///     }
///     Ok(())
/// }
/// ```
pub trait Module: Send {
    /// Runs to the end of the input. Blocking is allowed anywhere.
    fn run(&mut self, ports: &mut Ports) -> Result<()>;
}

impl<F: FnMut(&mut Ports) -> Result<()> + Send> Module for F {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        self(ports)
    }
}

/// Rows collected for the program that started the flow.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The schema of the rows; known also if there are none.
    pub schema: SchemaRef,
    /// The rows, batch by batch.
    pub batches: Vec<RecordBatch>,
}

/// Placement constraint of a module's instances, if a flow has several processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Anywhere: they share nothing but the coordination service.
    Anywhere,
    /// On the workers of these names, where their resources are near; on one worker if none of them
    /// is available.
    Beside(BTreeSet<String>),
    /// At least one on each of the workers of these names, which alone have the resources.
    AtEach(BTreeSet<String>),
    /// All on one worker: they share resources of its process.
    Together,
    /// In the process of the master: they use resources of the program that started the flow.
    Home,
}

/// A configured module; what its instances share lives here.
///
/// Order of calls: `at_home` (and `files_only`), `schemas`, `is_ordered` and `sorted_by` during the
/// check; `prepare` once before the start; `instance` once per instance; then, if all instances of
/// the flow returned without error, `settle` (flush, sync), `staged` and `output` (the last calls
/// that may refuse). The engine publishes the outputs of all modules together, and calls
/// `on_committed`. In any other case it calls `abandon`.
pub trait Placed: Send + Sync {
    /// Sets the folder of collections and their catalog; the first call.
    fn at_home(&self, home: &Path) {
        let _ = home;
    }

    /// The flow is checked in an editor and does not run afterwards: `schemas` reads regular files
    /// only. It refuses pipes, since reading one may block for ever, or consume what a later run
    /// needs.
    fn files_only(&self) {}

    /// The schema of each output, given the schema of each input. Checks everything that can be
    /// checked without reading data.
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>>;

    /// Ports and order, for modules whose configuration decides them rather than their spec.
    fn shape(&self) -> Option<Shape> {
        None
    }

    /// Whether the outputs come as numbered runs, given whether the inputs do. By default a module
    /// that keeps runs passes them on, and any other module's output has no order.
    fn is_ordered(&self, inputs_ordered: bool, keeps_runs: bool) -> bool {
        inputs_ordered && keeps_runs
    }

    /// The sort keys of the output, most significant first and written as in SQL, given those of
    /// the input. Called if the output or the input is ordered.
    fn sorted_by(&self, input: &[String]) -> Vec<String> {
        let _ = input;
        vec![]
    }

    /// The partitions kept for the consumers of the output, if the output is keyed.
    fn partitioned(&self) -> Option<&dyn Partitioned> {
        None
    }

    /// Estimated output bytes, if they can be known before the start, given the estimates of the
    /// inputs.
    fn bytes_expected(&self, inputs: &[Option<u64>]) -> Option<u64> {
        let _ = inputs;
        None
    }

    /// The whole configuration, if an option depends on the estimated input bytes. It is resolved
    /// once, for all processes, while the flow is checked.
    fn decided(&self, inputs: &[Option<u64>]) -> Option<Value> {
        let _ = inputs;
        None
    }

    /// Whether its output is keyed.
    fn is_keyed(&self) -> bool {
        self.partitioned().is_some()
    }

    /// Whether records with equal keys are in one partition. They stay together behind it wherever
    /// its runs are kept.
    fn groups(&self) -> bool {
        false
    }

    /// The module, and its configuration, that must partition the input of this one.
    fn partitioner(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Whether the input must be a stream of numbered runs, whatever the spec's order says.
    fn needs_runs(&self) -> bool {
        false
    }

    /// The maximum number of useful instances, for modules that know it (files to read, for
    /// example).
    fn instances_max(&self) -> Option<usize> {
        None
    }

    /// Opens the resources that the instances share. Called once, before the first instance is
    /// made.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let _ = setup;
        Ok(())
    }

    /// Makes one instance of the module.
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>>;

    /// Makes written data durable, but not visible.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Removes staged data, unless it has been published or depends on a commit decision.
    fn abandon(&self) {}

    /// Placement constraint of the instances.
    fn spread(&self) -> Spread {
        Spread::Anywhere
    }

    /// Whether a flow with this module may be retried after a failure: its input can be read again,
    /// and its effects can be undone (`abandon`).
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Identifies the external input as this process sees it. Workers with different values would
    /// read different tables. Known once the flow is checked.
    fn sees(&self) -> Option<String> {
        None
    }

    /// Like `sees`, with the input's version or modification time as far as this machine knows it:
    /// it differs if the input was replaced since.
    fn sees_dated(&self) -> Option<String> {
        self.sees()
    }

    /// A unique description of what the module publishes at the end of the flow.
    fn target(&self) -> Option<String> {
        None
    }

    /// The local folder in which the output's name is reserved and its file is staged.
    fn reserves_in(&self) -> Option<PathBuf> {
        None
    }

    /// The configuration with relative local paths resolved against this folder, for processes with
    /// another working directory.
    fn standing_at(&self, folder: &Path) -> Option<Value> {
        let _ = folder;
        None
    }

    /// For modules whose processes exchange batches or messages: the schema of the batches. Known
    /// once the flow is checked.
    fn serves(&self) -> Option<SchemaRef> {
        None
    }

    /// Answers a fetch request of another process.
    fn serve(&self, request: u64) -> Result<Batches> {
        Err(Error::failed(format!("nobody here knows of request {request}")))
    }

    /// Receives a message from another process (see `Exchange::tell`), after both are prepared.
    /// Must not block, since it delays all messages from that process.
    fn on_told(&self, process: usize, letter: &[u8], body: &Buffer) -> Result<()> {
        let _ = (letter, body);
        Err(Error::corrupt(format!("process {process} tells something that nobody asked for")))
    }

    /// After `settle`: reserves the name of the output if all of it is made here, and returns what
    /// this process has staged; null if it publishes nothing. Nothing is visible yet.
    fn staged(&self) -> Result<Value> {
        Ok(Value::Null)
    }

    /// Combines what all processes have staged into one output (an
    /// `euphrates_store::commit::Output`); null if there is none. Called in the process of the
    /// master. Reserves the output's name where `staged` could not; it is the last call that may
    /// refuse.
    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let _ = (run_id, decision);
        Ok(staged.into_iter().find(|part| !part.is_null()).unwrap_or_default())
    }

    /// The data staged here has been published.
    fn on_committed(&self) {}

    /// This process will not learn whether its staged data is published; the decision record, if
    /// there is one, decides.
    fn on_orphaned(&self) {
        self.abandon();
    }

    /// A worker was lost: removes staged data of processes that no longer live, as far as it is
    /// reachable.
    fn reclaim(&self) {}

    /// The rows collected for the program that started the flow; taken once.
    fn collected(&self) -> Option<Collected> {
        None
    }

    /// A remark for the report, beyond the counters.
    fn remark(&self) -> Option<String> {
        None
    }
}

impl Partition {
    /// Partition `number` of a module whose output is keyed, with the module's setup in this
    /// process.
    pub fn new(module: Arc<dyn Placed>, setup: Arc<Setup>, number: u64) -> Partition {
        Partition::fetched_by(number, move || {
            let partitioned = module.partitioned().expect("its producer keeps partitions");
            partitioned.records(number, &setup)
        })
    }
}
