//! Facts about a module that only another process has checked.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::checked::CheckedNode;
use crate::error::{Error, Result};
use crate::module::{Module, Placed};
use crate::setup::Setup;
use crate::shape::Shape;

impl CheckedNode {
    /// The facts that other processes need about this module.
    pub fn facts(&self) -> Facts {
        Facts {
            schemas: self.schemas.clone(),
            ordered: self.ordered,
            sorted_by: self.sorted_by.clone(),
            needs_runs: self.placed.needs_runs(),
            keyed: self.placed.is_keyed(),
            shape: self.placed.shape(),
        }
    }
}

/// A module whose instances are all in other processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The schemas of the outputs.
    pub schemas: Vec<SchemaRef>,
    /// Whether the outputs come in runs.
    pub ordered: bool,
    /// The sort keys of the outputs.
    pub sorted_by: Vec<String>,
    /// Whether the input must be in runs.
    pub needs_runs: bool,
    /// Whether the output is keyed.
    pub keyed: bool,
    /// Ports and order, if the configuration decides them.
    pub shape: Option<Shape>,
}

impl Placed for Facts {
    fn schemas(&self, _: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        Ok(self.schemas.clone())
    }

    fn shape(&self) -> Option<Shape> {
        self.shape.clone()
    }

    fn is_ordered(&self, _: bool, _: bool) -> bool {
        self.ordered
    }

    fn sorted_by(&self, _: &[String]) -> Vec<String> {
        self.sorted_by.clone()
    }

    fn needs_runs(&self) -> bool {
        self.needs_runs
    }

    fn is_keyed(&self) -> bool {
        self.keyed
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        Err(Error::failed("an instance of a module that is in another process"))
    }
}
