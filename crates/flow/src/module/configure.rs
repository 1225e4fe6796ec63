//! A configured module, which the check binds to its inputs.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use serde_json::Value;

use super::bound::{Bound, InstanceFactory};
use super::key_filter::{KeyFilterSlot, MatchedBy};
use super::needed_columns::{ColumnNames, Needs};
use super::needed_rows::{NeededRows, RowCondition};
use super::unit_plan::UnitPlan;
use crate::error::Result;
use crate::setup::cache_grant::CacheGrant;
use crate::shape::Shape;

/// A module with its configuration. Most modules implement `bind` alone.
///
/// ```
/// use std::sync::Arc;
///
/// use euphrates_flow::module::{Bound, Configure, Inputs};
/// use euphrates_flow::{Module, Ports, Result, Setup};
///
/// /// Passes its input on.
/// struct Pass;
///
/// impl Configure for Pass {
///     fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
///         let instance = |_: &Setup| {
///             Ok(Box::new(|ports: &mut Ports| -> Result<()> {
///                 while let Some(batch) = ports.get(0)? {
///                     ports.put(0, batch)?;
///                 }
///                 Ok(())
///             }) as Box<dyn Module>)
///         };
///         let bound = Bound::new([inputs.schemas[0].clone()], instance);
///         Ok(Bound { bytes_expected: inputs.bytes[0], ..bound })
///     }
/// }
/// ```
pub trait Configure: Send + Sync {
    /// Checks everything that can be checked without reading the input, and returns what is known
    /// of the output, and how to run. Called once.
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound>;

    /// What the flow must know before the inputs are known.
    fn interface(&self) -> Interface {
        Interface::default()
    }

    /// The whole configuration, if an option depends on the estimated bytes of the inputs or on
    /// what the home folder holds. It is resolved once, for all processes; a module of this
    /// configuration is then bound.
    fn resolved(&self, bytes: &[Option<u64>], home: &Path) -> Result<Option<Value>> {
        let _ = (bytes, home);
        Ok(None)
    }

    /// The column of an input that holds the values of this output column, if a row of the input
    /// changes only output rows that have its value there, or null; then rows may be left out of
    /// the input by values that no consumer wants. `schemas` are those of the inputs that are known
    /// already. Errors that rows left out would cause may be lost: a module whose expressions may
    /// fail on single rows returns `None`.
    fn key_source(
        &self,
        column: &str,
        input: usize,
        schemas: &[Option<SchemaRef>],
    ) -> Option<String> {
        let _ = (column, input, schemas);
        None
    }

    /// The configuration with which it works by units: a source reads those of the plan, each as a
    /// run, and a sink keeps what is complete for another attempt. None if it cannot.
    fn by_units(&self, plan: &UnitPlan) -> Option<Value> {
        let _ = plan;
        None
    }

    /// The configuration with relative local paths resolved against this folder, for processes with
    /// another working directory; none if it has no paths.
    fn rebased(&self, folder: &Path) -> Option<Value> {
        let _ = folder;
        None
    }
}

/// The side of a configured module that the flow around it depends on.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Ports and order, if they depend on the configuration rather than on the spec alone.
    pub shape: Option<Shape>,
    /// Whether the input must be a stream of numbered runs, whatever the spec's order says.
    pub needs_runs: bool,
    /// The module, and its configuration, that must partition the input.
    pub partitioner: Option<(&'static str, Value)>,
    /// The module, and its configuration, that takes the output `rejected`, unless the flow
    /// attaches another there.
    pub rejects_to: Option<(&'static str, Value)>,
    /// Whether its first rows depend only on the first rows of its partitions. Its partitioner is
    /// then given the option `first` = *n* if its consumers read only the first *n* rows, and keeps
    /// no others.
    pub keeps_first: bool,
    /// The number of rows it reads from the front of its input; `None` for all.
    pub reads_first: Option<u64>,
    /// The configuration with which a source delivers its rows in their order; none if it was
    /// configured with an order, or has none.
    pub in_order: Option<Value>,
    /// Which columns of its inputs it reads.
    pub needs: Needs,
    /// Which rows of its inputs matter to it.
    pub rows: NeededRows,
    /// Whether the output is keyed: `Bound::partitioned` keeps it in partitions.
    pub is_keyed: bool,
}

/// The inputs that a module is bound to, and where collections are.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The columns of each input, in the order of its ports.
    pub schemas: &'a [SchemaRef],
    /// Estimated bytes, by input.
    pub bytes: &'a [Option<u64>],
    /// Whether the runs of the input are repeated on the outputs.
    pub keeps_runs: bool,
    /// The sort keys of the first input, most significant first and written as in SQL; empty if it
    /// comes in no order.
    pub sorted_by: &'a [String],
    /// The columns that the consumers of its outputs read; `None` for all. A module may leave out
    /// the others.
    pub needed: Option<&'a ColumnNames>,
    /// A condition that all rows needed downstream fulfil. A module without inputs may leave out
    /// the others.
    pub condition: &'a RowCondition,
    /// The filters of joins that need no other rows of those that fulfil the condition. A module
    /// without inputs may leave out rows that do not pass them, unless evaluating the condition may
    /// fail.
    pub matched_by: &'a [MatchedBy],
    /// For each input, where the module may leave filters for it; empty unless it says which rows
    /// match or come first (`NeededRows::Matching`, `NeededRows::First`). A join by several keys
    /// has a slot for all of them, then one for each alone.
    pub key_filters: &'a [Vec<Arc<KeyFilterSlot>>],
    /// The folder of collections and their catalog.
    pub home: &'a Path,
    /// The permission to keep remote data in memory, if the flow has it.
    pub cache: Option<CacheGrant>,
    /// What may be read to infer columns.
    pub reads: Reads,
}

impl Inputs<'_> {
    /// A module that passes on rows of the first input, in their order.
    pub fn passed_on(&self, instances: impl InstanceFactory + 'static) -> Bound {
        let (sorted_by, bytes_expected) = (self.sorted_by.to_vec(), self.bytes[0]);
        Bound { sorted_by, bytes_expected, ..Bound::new([self.schemas[0].clone()], instances) }
    }
}

/// What modules may read to infer their columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Whatever a run reads, including pipes of other programs.
    #[default]
    All,
    /// Regular files only. The flow is checked in an editor: reading a pipe may block for ever, or
    /// consume what a later run needs.
    Files,
}
