//! Modules: the unit of programming (River, 2.3.1).

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::error::Result;
use crate::ports::Ports;
use crate::setup::Setup;
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

/// A module placed in a flow: configured and checked; what its instances share lives here.
///
/// Life: `at_home`, `schemas`, `is_ordered` and `sorted_by` while the flow is checked, in this
/// order; `prepare` once before the start; `instance` once per instance; then, if all instances of
/// the flow returned well, `settle` (all that can fail: flush, sync) and `commit` (all that makes
/// the result visible); else `abandon`.
pub trait Placed: Send + Sync {
    /// Where collections and their catalog live, told before anything is asked.
    fn at_home(&self, home: &Path) {
        let _ = home;
    }

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

    /// Makes what has been written visible, at once.
    fn commit(&self) -> Result<()> {
        Ok(())
    }

    /// Removes whatever was staged. Called instead of, or after a failure of, `commit`.
    fn abandon(&self) {}

    /// What the module kept for the program that started the flow; taken once.
    fn collected(&self) -> Option<Collected> {
        None
    }

    /// What the module has to say in the report beyond its counters.
    fn remark(&self) -> Option<String> {
        None
    }
}
