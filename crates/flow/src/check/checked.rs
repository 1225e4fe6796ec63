//! The result of a check: modules with their numbers of instances, queues with their kinds.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_policy::memory::queue_bytes_max;
use euphrates_policy::memory_arbiter::Position;

use crate::document::{Document, QueueKind};
use crate::module::{Bound, Configure, Interface};
use crate::spec::{MemoryDemand, ModuleSpec};

/// Default bound of a queue in bytes: a few batches for each side, few enough to stay in cache.
pub const QUEUE_BYTES_MAX: usize = 8 << 20;

/// A flow that has been checked and can be started.
pub struct CheckedFlow {
    /// The name of the flow.
    pub name: String,
    /// The flow as it runs, including the modules that the check has inserted.
    pub document: Document,
    /// The modules, producers before consumers.
    pub nodes: Vec<CheckedNode>,
    /// The queues between the modules.
    pub edges: Vec<CheckedEdge>,
}

impl CheckedFlow {
    /// The most bytes that wait in all queues.
    pub fn queue_bytes_max(&self) -> usize {
        self.edges.iter().map(|edge| edge.bytes_max).sum()
    }

    /// Whether some module downstream of this one needs memory for rows that it holds.
    pub fn position(&self, node: usize) -> Position {
        let behind = self.edges.iter().filter(|edge| edge.from.0 == node).map(|edge| edge.to.0);
        let wants = |node: usize| {
            self.nodes[node].spec.memory != MemoryDemand::None
                || self.position(node) == Position::Feeds
        };
        if behind.into_iter().any(wants) { Position::Feeds } else { Position::Last }
    }

    /// Shrinks queues with the default bound, so that all together have a quarter of the memory
    /// budget, but at least 1 MiB each. An explicit bound of the same size is shrunk too.
    pub fn fit_queues(&mut self, budget: usize) {
        let bytes_max = queue_bytes_max(budget, self.edges.len(), QUEUE_BYTES_MAX);
        let usual = self.edges.iter_mut().filter(|edge| edge.bytes_max == QUEUE_BYTES_MAX);
        usual.for_each(|edge| edge.bytes_max = bytes_max);
    }
}

/// A module of a checked flow.
pub struct CheckedNode {
    /// The module's id in the flow.
    pub id: String,
    /// The spec of the module.
    pub spec: &'static ModuleSpec,
    /// The module with its configuration, not yet bound to inputs.
    pub module: Arc<dyn Configure>,
    /// Its side that the flow depends on.
    pub interface: Interface,
    /// The module, bound to its inputs.
    pub bound: Bound,
    /// The number of its instances.
    pub count: usize,
    /// Names or labels of the workers it may be placed on; empty for any.
    pub workers: Vec<String>,
    /// Whether the runs of its input are repeated on its outputs.
    pub keeps_runs: bool,
    /// Whether each run of its outputs holds whole groups, as made by a `partition`.
    pub keeps_equal_keys_together: bool,
    /// Names of its inputs.
    pub inputs: Vec<String>,
    /// Names of its outputs.
    pub outputs: Vec<String>,
    /// Whether its outputs are streams of numbered runs.
    pub ordered: bool,
}

impl CheckedNode {
    /// The schema of an output, by position.
    pub fn schema(&self, output: usize) -> SchemaRef {
        let schemas = &self.bound.outputs;
        schemas[output.min(schemas.len() - 1)].clone()
    }
}

/// A queue of a checked flow.
pub struct CheckedEdge {
    /// Producer (index into `nodes`) and output.
    pub from: (usize, usize),
    /// Consumer (index into `nodes`) and input.
    pub to: (usize, usize),
    /// The schema of its batches.
    pub schema: SchemaRef,
    /// How batches are assigned to consumers.
    pub kind: QueueKind,
    /// The unit handed to one consumer at a time.
    pub unit: QueueUnit,
    /// Whether each run holds whole groups.
    pub keeps_equal_keys_together: bool,
    /// The most bytes that wait in the queue.
    pub bytes_max: usize,
    /// Explanation of the unit, for people.
    pub why: String,
}

/// The unit that a queue hands to one consumer at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueUnit {
    /// A single batch, of any run.
    Batch,
    /// A whole run, in order.
    Run,
}
