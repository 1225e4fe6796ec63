//! A module during a check: its spec, and its configured implementation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::remote::Facts;
use crate::document::Node;
use crate::error::Result;
use crate::module::Placed;
use crate::shape::{Order, Shape};
use crate::spec::{ModuleSpec, PortNames, Registry};

/// The configured modules of a flow, by id.
pub(super) type ConfiguredModules = BTreeMap<String, ConfiguredModule>;

/// A module with its configuration.
pub(super) struct ConfiguredModule {
    pub(super) spec: &'static ModuleSpec,
    pub(super) placed: Arc<dyn Placed>,
    shape: Option<Shape>,
    /// The module for which the check inserted this one; `None` if the document has it.
    pub(super) part_of: Option<String>,
}

impl ConfiguredModule {
    pub(super) fn new(
        node: &Node,
        registry: &Registry,
        elsewhere: Option<&Facts>,
    ) -> Result<ConfiguredModule> {
        let spec = registry.find(&node.module)?;
        if let Some(facts) = elsewhere {
            let (placed, shape) = (Arc::new(facts.clone()), facts.shape.clone());
            return Ok(ConfiguredModule { spec, placed, shape, part_of: None });
        }
        let placed = (spec.place)(Value::Object(node.config.clone()))?;
        let shape = placed.shape();
        Ok(ConfiguredModule { spec, placed, shape, part_of: None })
    }

    pub(super) fn names(&self, outputs: bool, attached: usize) -> Vec<String> {
        match &self.shape {
            Some(shape) if outputs => shape.outputs.clone(),
            Some(shape) => shape.inputs.clone(),
            None => self.side(outputs).names(attached),
        }
    }

    pub(super) fn side(&self, outputs: bool) -> PortNames {
        if outputs { self.spec.outputs } else { self.spec.inputs }
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.placed.is_keyed()
    }

    pub(super) fn order(&self) -> Order {
        self.shape.as_ref().map_or(self.spec.order, |shape| shape.order)
    }

    pub(super) fn is_parallel(&self) -> bool {
        let parallel = self.shape.as_ref().map_or(self.spec.parallel, |shape| shape.parallel);
        parallel && self.order() != Order::Ordered
    }
}
