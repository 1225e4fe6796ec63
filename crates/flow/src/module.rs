//! Modules: the unit of programming (River, 2.3.1).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::partitioned::Partitioned;
use crate::ports::Ports;
use crate::setup::{Batches, DecisionRef, Setup};
use crate::spec::Shape;

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

/// Rows kept for the program that started the flow.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Their schema, also when there are none.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// Where instances of a module may be, if a flow has several processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Anywhere: they share nothing but what the commons give them.
    Anywhere,
    /// At the workers of these names, where what they need is near; together if none of them is
    /// there.
    Beside(BTreeSet<String>),
    /// At each of the workers of these names, at least one: what they need is only there.
    AtEach(BTreeSet<String>),
    /// All at one worker: they share something that is there.
    Together,
    /// In the process of the master: they touch what is the program's own.
    Home,
}

/// A module placed in a flow: configured and checked; what its instances share lives here.
///
/// Life: `at_home` (and `files_only`), `schemas`, `is_ordered` and `sorted_by` while the flow is
/// checked, in this order; `prepare` once before the start; `instance` once per instance; then, if
/// all instances of the flow returned well, `settle` (flush, sync), `staged` and `output` (whatever
/// can still be refused). The engine publishes the outputs of all modules together, and tells with
/// `on_committed`. In any other case: `abandon`.
pub trait Placed: Send + Sync {
    /// Where collections and their catalog live, told before anything is asked.
    fn at_home(&self, home: &Path) {
        let _ = home;
    }

    /// The flow is checked in an editor and does not run afterwards: `schemas` reads regular files
    /// and refuses what another program writes, since it may wait for that for ever, or take from
    /// a later run what can be read only once.
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

    /// The columns the output is sorted by, most significant first and written as in SQL, given
    /// those of the input: asked of modules whose output, or whose input, comes in order.
    fn sorted_by(&self, input: &[String]) -> Vec<String> {
        let _ = input;
        vec![]
    }

    /// What it keeps for the consumers of its output, if that is keyed.
    fn partitioned(&self) -> Option<&dyn Partitioned> {
        None
    }

    /// About how many bytes come out, if that can be told before the start, given the same of each
    /// input.
    fn bytes_expected(&self, inputs: &[Option<u64>]) -> Option<u64> {
        let _ = inputs;
        None
    }

    /// The whole configuration, if it leaves something open that depends on how many bytes come in.
    /// It is decided once, for all processes, and told when the flow is spelled out.
    fn decided(&self, inputs: &[Option<u64>]) -> Option<Value> {
        let _ = inputs;
        None
    }

    /// Whether its output is keyed.
    fn is_keyed(&self) -> bool {
        self.partitioned().is_some()
    }

    /// Whether records of equal keys are in one partition. They stay together behind it wherever
    /// its runs are kept.
    fn groups(&self) -> bool {
        false
    }

    /// The module, and its configuration, that has to come before this one: it takes partitions.
    fn partitioner(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Whether the input must be a stream of numbered runs, whatever the spec says of order.
    fn needs_runs(&self) -> bool {
        false
    }

    /// The number of instances that can be of use, for modules that know (files to read, say).
    fn instances_max(&self) -> Option<usize> {
        None
    }

    /// Opens what the instances share. Called once, before the first instance is made.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let _ = setup;
        Ok(())
    }

    /// One instance.
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>>;

    /// Makes what has been written durable, still invisible.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Removes whatever was staged, unless it has been published or left to the decision.
    fn abandon(&self) {}

    /// Where its instances may be.
    fn spread(&self) -> Spread {
        Spread::Anywhere
    }

    /// Whether a flow it is in may begin again after a failure: what it has taken in can be taken
    /// in again, and what it has done can be undone (`abandon`).
    fn is_repeatable(&self) -> bool {
        true
    }

    /// What it takes from outside the flow, as this process sees it: workers that see something
    /// else would read another table. Known once the flow is checked.
    fn sees(&self) -> Option<String> {
        None
    }

    /// The same, and when it was made, as far as this machine can tell: what is another if that was
    /// made anew since.
    fn sees_dated(&self) -> Option<String> {
        self.sees()
    }

    /// What it makes visible at the end of the flow, in words that name nothing else.
    fn target(&self) -> Option<String> {
        None
    }

    /// The folder in which the name of its output is reserved, and a file is staged, if that is
    /// local.
    fn reserves_in(&self) -> Option<PathBuf> {
        None
    }

    /// Its configuration with local paths that begin at this folder, where they are relative: other
    /// processes may stand elsewhere.
    fn standing_at(&self, folder: &Path) -> Option<Value> {
        let _ = folder;
        None
    }

    /// Of a module whose processes ask or tell each other something: the schema of the batches they
    /// ask for. Known once the flow is checked.
    fn serves(&self) -> Option<SchemaRef> {
        None
    }

    /// What this process gives for a request of another.
    fn serve(&self, request: u64) -> Result<Batches> {
        Err(Error::failed(format!("nobody here knows of request {request}")))
    }

    /// What another process tells this one (see `Exchange::tell`), from when both are prepared.
    /// Must not wait, for nothing else comes from there meanwhile.
    fn on_told(&self, process: usize, letter: &[u8], body: &Buffer) -> Result<()> {
        let _ = (letter, body);
        Err(Error::corrupt(format!("process {process} tells something that nobody asked for")))
    }

    /// After `settle`: takes the name of the output, if it is made here as a whole, and returns
    /// what this process has staged. Null if it makes nothing visible. Nothing is visible yet.
    fn staged(&self) -> Result<Value> {
        Ok(Value::Null)
    }

    /// The output as a whole (an `euphrates_io::commit::Output`), from what all processes have
    /// staged; null if there is none. Called in the process of the master. Takes the output's name
    /// where `staged` could not; from here on nothing is refused.
    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let _ = (run_id, decision);
        Ok(staged.into_iter().find(|part| !part.is_null()).unwrap_or_default())
    }

    /// What was staged here has been published.
    fn on_committed(&self) {}

    /// This process will not learn whether what was staged here is published: the decision's
    /// record says so, if there is one.
    fn on_orphaned(&self) {
        self.abandon();
    }

    /// A worker was lost: removes what processes that no longer live have staged, as far as it can
    /// be reached from here.
    fn reclaim(&self) {}

    /// What the module kept for the program that started the flow; taken once.
    fn collected(&self) -> Option<Collected> {
        None
    }

    /// What the module has to say in the report beyond its counters.
    fn remark(&self) -> Option<String> {
        None
    }
}
