//! What a module says about itself; everything else that lists modules is derived from it.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Result, unknown};
use crate::module::Placed;

pub use config::{parse_config, schema_of};

/// What a module needs of the order of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Nothing: batches may come in any order, and the output has none.
    Any,
    /// Nothing, but what came in runs goes out in the same runs.
    Keeps,
    /// The whole stream in order, so there is one instance.
    Ordered,
}

/// What may be done with a module when something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same input gives the same output: it may be run again.
    Pure,
    /// It changes the world beyond what the engine can stage and commit.
    Effect,
}

/// The ports of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortNames {
    /// These.
    Fixed(&'static [&'static str]),
    /// As many as are attached, at least one: `0`, `1`, …
    Many,
    /// Those the configuration asks for: see `Placed::shape`.
    Configured,
}

/// Ports and order of a module whose configuration decides them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// What it needs of order.
    pub order: Order,
    /// Whether more than one instance is possible.
    pub parallel: bool,
}

/// No ports on this side.
pub const NONE: PortNames = PortNames::Fixed(&[]);
/// One unnamed input.
pub const IN: PortNames = PortNames::Fixed(&["in"]);
/// One unnamed output.
pub const OUT: PortNames = PortNames::Fixed(&["out"]);

/// A module's description of itself. One per file in `modules/src/modules`.
#[derive(Debug)]
pub struct ModuleSpec {
    /// The name in documents and on every screen.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// More than one line: units, errors, an example. Markdown.
    pub detail: &'static str,
    /// Names of the inputs.
    pub inputs: PortNames,
    /// Names of the outputs.
    pub outputs: PortNames,
    /// What it needs of order.
    pub order: Order,
    /// Whether it may be run again.
    pub effect: Effect,
    /// Whether more than one instance is possible.
    pub parallel: bool,
    /// Whether it can use a share of the memory budget.
    pub wants_memory: bool,
    /// JSON schema of the configuration; the required properties are positional in Python, in the
    /// order they are declared.
    pub config_schema: fn() -> Value,
    /// Makes a placed module of a configuration.
    pub place: fn(Value) -> Result<Arc<dyn Placed>>,
}

impl ModuleSpec {
    /// Everything a tool needs to know of the module, as JSON.
    pub fn to_json(&self) -> Value {
        let ports = |names: PortNames| match names {
            PortNames::Fixed(names) => json!(names),
            PortNames::Many => json!("many"),
            PortNames::Configured => json!("configured"),
        };
        json!({
            "name": self.name,
            "summary": self.summary,
            "detail": self.detail,
            "inputs": ports(self.inputs),
            "outputs": ports(self.outputs),
            "order": format!("{:?}", self.order).to_lowercase(),
            "effect": format!("{:?}", self.effect).to_lowercase(),
            "parallel": self.parallel,
            "wants_memory": self.wants_memory,
            "config": (self.config_schema)(),
        })
    }
}

impl PortNames {
    /// The names, given how many are attached.
    pub fn names(self, attached: usize) -> Vec<String> {
        match self {
            PortNames::Fixed(names) => names.iter().map(|name| name.to_string()).collect(),
            PortNames::Many => (0..attached).map(|port| port.to_string()).collect(),
            PortNames::Configured => vec![],
        }
    }
}

/// The modules a flow can be made of.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    specs: BTreeMap<&'static str, &'static ModuleSpec>,
    /// Names of those whose check or run calls code of the user's.
    of_user_code: BTreeSet<&'static str>,
}

impl Registry {
    /// A registry of these modules.
    pub fn new(specs: impl IntoIterator<Item = &'static ModuleSpec>) -> Registry {
        let specs = specs.into_iter().map(|spec| (spec.name, spec)).collect();
        Registry { specs, of_user_code: BTreeSet::new() }
    }

    /// This registry and more modules.
    pub fn with(mut self, specs: impl IntoIterator<Item = &'static ModuleSpec>) -> Registry {
        self.specs.extend(specs.into_iter().map(|spec| (spec.name, spec)));
        self
    }

    /// This registry and modules that call user code: functions, classes and queries that a flow
    /// names. Even a check calls them, so it may do that with consent only.
    pub fn with_user_code(
        mut self,
        specs: impl IntoIterator<Item = &'static ModuleSpec> + Clone,
    ) -> Registry {
        self.of_user_code.extend(specs.clone().into_iter().map(|spec| spec.name));
        self.with(specs)
    }

    /// Whether the module of this name calls user code.
    pub fn calls_user_code(&self, module: &str) -> bool {
        self.of_user_code.contains(module)
    }

    /// The spec of this name, or an error with the nearest one.
    pub fn find(&self, name: &str) -> Result<&'static ModuleSpec> {
        let found = self.specs.get(name).copied();
        found.ok_or_else(|| unknown("module", name, self.specs.keys().copied()))
    }

    /// All specs, by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static ModuleSpec> {
        self.specs.values().copied()
    }
}
