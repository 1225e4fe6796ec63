//! The four states of a module, each created from the one before (River, 2.3.1): `Configure` by its
//! spec, `Bound` by the check, `Prepared` at the start of a run, `Module` for each running
//! instance.

mod bound;
mod configure;
mod exchange_server;
mod key_filter;
mod needed_columns;
mod needed_rows;
mod sink;
mod unit_plan;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::error::Result;
use crate::ports::Ports;

pub use self::bound::{
    Bound, ExternalInput, InstanceFactory, OutputOrder, PlacementConstraint, Prepared,
    SharedFactory, not_prepared,
};
pub use self::configure::{Configure, Inputs, Interface, Reads};
pub use self::exchange_server::ExchangeServer;
pub use self::key_filter::{KeyFilter, KeyFilterSlot, MatchedBy};
pub use self::needed_columns::{ColumnNames, Needs};
pub use self::needed_rows::{NeededRows, RowCondition, ValueOrder};
pub use self::sink::Sink;
pub use self::unit_plan::UnitPlan;

/// The output of what a module cannot process.
pub const REJECTED: &str = "rejected";

/// One running copy of a module: a thread of control with inputs and outputs.
///
/// A closure is a module too:
///
/// ```
/// use euphrates_flow::{Module, Ports, Result};
///
/// /// Passes on batches that have rows.
/// fn without_empty_batches() -> impl Module {
///     |ports: &mut Ports| -> Result<()> {
///         while let Some(batch) = ports.get(0)? {
///             if batch.num_rows() > 0 {
///                 ports.put(0, batch)?;
///             }
///         }
///         Ok(())
///     }
/// }
/// # let _ = without_empty_batches();
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
