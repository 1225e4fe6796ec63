//! A module whose instances are all in other processes; it was checked in one of them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::checked::CheckedNode;
use crate::error::{Error, Result};
use crate::module::{Bound, Configure, Inputs, Interface, Module, NeededRows, Needs, OutputOrder};
use crate::ports::partitioned::Partitioned;
use crate::setup::{Batches, Setup};
use crate::shape::Shape;

impl CheckedNode {
    /// The properties of this module that other processes need.
    pub fn remote(&self) -> RemoteModule {
        RemoteModule {
            schemas: self.bound.outputs.clone(),
            ordered: self.ordered,
            sorted_by: self.bound.sorted_by.clone(),
            needs_runs: self.interface.needs_runs,
            keyed: self.interface.is_keyed,
            needs: self.interface.needs.clone(),
            rows: self.interface.rows.clone(),
            shape: self.interface.shape.clone(),
        }
    }
}

/// A module whose instances are all in other processes.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteModule {
    /// The schemas of the outputs.
    pub schemas: Vec<SchemaRef>,
    /// Whether the outputs are streams of numbered runs.
    pub ordered: bool,
    /// The sort keys of the outputs.
    pub sorted_by: Vec<String>,
    /// Whether the input must be in runs.
    pub needs_runs: bool,
    /// Whether the output is keyed.
    pub keyed: bool,
    /// Which columns of its inputs it reads.
    pub needs: Needs,
    /// Which rows of its inputs matter to it.
    pub rows: NeededRows,
    /// Ports and order, if the configuration decides them.
    pub shape: Option<Shape>,
}

impl Configure for RemoteModule {
    fn interface(&self) -> Interface {
        Interface {
            shape: self.shape.clone(),
            needs_runs: self.needs_runs,
            partitioner: None,
            rejects_to: None,
            keeps_first: false,
            reads_first: None,
            in_order: None,
            is_keyed: self.keyed,
            needs: self.needs.clone(),
            rows: self.rows.clone(),
        }
    }

    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        let no_instance = |_: &Setup| -> Result<Box<dyn Module>> { Err(is_elsewhere()) };
        let (outputs, sorted_by) = (self.schemas.clone(), self.sorted_by.clone());
        let order = if self.ordered { OutputOrder::Runs } else { OutputOrder::None };
        let partitioned = self.keyed.then_some(self as Arc<dyn Partitioned>);
        Ok(Bound { partitioned, order, sorted_by, ..Bound::new(outputs, no_instance) })
    }
}

impl Partitioned for RemoteModule {
    fn count(&self, _: &Setup) -> Result<u64> {
        Err(is_elsewhere())
    }

    fn records(&self, _: u64, _: &Setup) -> Result<Batches> {
        Err(is_elsewhere())
    }
}

fn is_elsewhere() -> Error {
    Error::failed("the module is in another process")
}
