//! A module of a flow that is checked, configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Facts;
use crate::document::Node;
use crate::error::Result;
use crate::module::Placed;
use crate::spec::{ModuleSpec, Order, PortNames, Registry, Shape};

/// The modules of a flow, by their ids.
pub(super) type Members = BTreeMap<String, Member>;

/// A module, configured.
pub(super) struct Member {
    pub(super) spec: &'static ModuleSpec,
    pub(super) placed: Arc<dyn Placed>,
    shape: Option<Shape>,
    /// The module that it was placed for, if nobody has placed it.
    pub(super) part_of: Option<String>,
}

impl Member {
    pub(super) fn new(
        node: &Node,
        registry: &Registry,
        elsewhere: Option<&Facts>,
    ) -> Result<Member> {
        let spec = registry.find(&node.module)?;
        if let Some(facts) = elsewhere {
            let (placed, shape) = (Arc::new(facts.clone()), facts.shape.clone());
            return Ok(Member { spec, placed, shape, part_of: None });
        }
        let placed = (spec.place)(Value::Object(node.config.clone()))?;
        let shape = placed.shape();
        Ok(Member { spec, placed, shape, part_of: None })
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
