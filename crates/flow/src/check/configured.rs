//! A module during a check: its spec, and its configured implementation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::remote::RemoteModule;
use crate::document::Node;
use crate::error::Result;
use crate::module::{Configure, Interface};
use crate::shape::InputOrder;
use crate::spec::{ModuleSpec, PortNames, Registry};

/// The configured modules of a flow, by id.
pub(super) type ConfiguredModules = BTreeMap<String, ConfiguredModule>;

/// A module with its configuration.
pub(super) struct ConfiguredModule {
    pub(super) spec: &'static ModuleSpec,
    pub(super) module: Arc<dyn Configure>,
    pub(super) interface: Interface,
    /// The module for which the check inserted this one; `None` if the document has it.
    pub(super) part_of: Option<String>,
}

impl ConfiguredModule {
    pub(super) fn new(
        node: &Node,
        registry: &Registry,
        elsewhere: Option<&RemoteModule>,
    ) -> Result<ConfiguredModule> {
        let spec = registry.find(&node.module)?;
        let module: Arc<dyn Configure> = match elsewhere {
            Some(remote) => Arc::new(remote.clone()),
            None => (spec.configure)(Value::Object(node.config.clone()))?,
        };
        let interface = module.interface();
        Ok(ConfiguredModule { spec, module, interface, part_of: None })
    }

    pub(super) fn names(&self, outputs: bool, attached: usize) -> Vec<String> {
        match &self.interface.shape {
            Some(shape) if outputs => shape.outputs.clone(),
            Some(shape) => shape.inputs.clone(),
            None => self.side(outputs).names(attached),
        }
    }

    pub(super) fn side(&self, outputs: bool) -> PortNames {
        if outputs { self.spec.outputs } else { self.spec.inputs }
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.interface.is_keyed
    }

    pub(super) fn order(&self) -> InputOrder {
        match &self.interface {
            Interface { needs_runs: true, .. } => InputOrder::Keeps,
            Interface { shape: Some(shape), .. } => shape.order,
            _ => self.spec.order,
        }
    }

    pub(super) fn is_parallel(&self) -> bool {
        let shape = self.interface.shape.as_ref();
        let order = shape.map_or(self.spec.order, |shape| shape.order);
        shape.map_or(self.spec.parallel, |shape| shape.parallel) && order != InputOrder::Ordered
    }
}
