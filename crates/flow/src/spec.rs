//! Module specs: name, ports, order and configuration. Every other list of modules is derived from
//! them.

mod config;
pub mod json_path;
pub mod lambda_argument;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::{Error, Result, unknown};
use crate::module::Configure;
use crate::shape::InputOrder;

pub use crate::shape::Shape;
pub use config::{parse_config, schema_of};

/// Whether a module may run again after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same input gives the same output, so the module may run again.
    Pure,
    /// The module has effects that the engine cannot stage and commit.
    External,
}

/// What a resumed flow computes again of a module's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryClass {
    /// Only the runs that were not complete: the rows of a run of the output are the same in every
    /// attempt, in the same order, and depend on the rows of this run of the input alone.
    ByUnit,
    /// All of it.
    Whole,
}

/// The port names of one side of a module.
///
/// ```
/// use euphrates_flow::PortNames;
///
/// assert_eq!(PortNames::Fixed(&["left", "right"]).names(2), ["left", "right"]);
/// assert_eq!(PortNames::Many.names(3), ["0", "1", "2"], "one for each attached queue");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortNames {
    /// Exactly these ports, in this order.
    Fixed(&'static [&'static str]),
    /// One port for each attached queue, at least one: `0`, `1`, …
    Many,
    /// Ports that depend on the configuration: see `Interface::shape`.
    Configured,
}

/// No ports on this side.
pub const NONE: PortNames = PortNames::Fixed(&[]);
/// A single input, named `in`.
pub const IN: PortNames = PortNames::Fixed(&["in"]);
/// A single output, named `out`.
pub const OUT: PortNames = PortNames::Fixed(&["out"]);

/// The spec of a module. One per file in `modules/src/modules`.
#[derive(Debug)]
pub struct ModuleSpec {
    /// The name in documents and user interfaces.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// Units and errors, in Markdown.
    pub detail: &'static str,
    /// Python statements and their output, as a doctest.
    pub example: &'static str,
    /// Names of its inputs.
    pub inputs: PortNames,
    /// Names of its outputs.
    pub outputs: PortNames,
    /// The module's order requirement.
    pub order: InputOrder,
    /// Whether it may run again after a failure.
    pub effect: Effect,
    /// What a resumed flow computes again.
    pub recovery: RecoveryClass,
    /// Whether more than one instance is possible.
    pub parallel: bool,
    /// How it uses the memory that modules divide.
    pub memory: MemoryDemand,
    /// Whether each of its outputs goes on while others wait.
    pub has_own_paces: bool,
    /// JSON schema of the configuration; the required properties are positional in Python, in the
    /// order they are declared.
    pub config_schema: fn() -> Value,
    /// Makes a module from a configuration.
    pub configure: fn(Value) -> Result<Arc<dyn Configure>>,
}

/// How a module uses the memory that the modules of a process divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDemand {
    /// It holds a few batches, and nothing else.
    None,
    /// It reserves what it holds, and spills when that exceeds its limit, which changes.
    Adaptive,
    /// It cannot follow a changing limit: each instance has an even share reserved while it runs.
    Fixed,
}

impl ModuleSpec {
    /// What most specs have in common: an input, an output, any order, no effects, any number of
    /// instances. It is no module: it has no name, and its configuration is always wrong.
    pub const USUAL: ModuleSpec = ModuleSpec {
        name: "",
        summary: "",
        detail: "",
        example: "",
        inputs: IN,
        outputs: OUT,
        order: InputOrder::Any,
        effect: Effect::Pure,
        recovery: RecoveryClass::Whole,
        parallel: true,
        memory: MemoryDemand::None,
        has_own_paces: false,
        config_schema: || Value::Null,
        configure: |_| Err(Error::usage("a module without configuration")),
    };

    /// The spec as JSON, for tools.
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
            "example": self.example,
            "inputs": ports(self.inputs),
            "outputs": ports(self.outputs),
            "order": format!("{:?}", self.order).to_lowercase(),
            "effect": match self.effect { Effect::Pure => "pure", Effect::External => "effect" },
            "parallel": self.parallel,
            "wants_memory": self.memory != MemoryDemand::None,
            "config": (self.config_schema)(),
        })
    }
}

impl PortNames {
    /// The port names, for `attached` queues on this side.
    pub fn names(self, attached: usize) -> Vec<String> {
        match self {
            PortNames::Fixed(names) => names.iter().map(|name| name.to_string()).collect(),
            PortNames::Many => (0..attached).map(|port| port.to_string()).collect(),
            PortNames::Configured => vec![],
        }
    }
}

/// The modules that a flow can use.
///
/// ```
/// use euphrates_flow::{ModuleSpec, Registry};
///
/// static PASS: ModuleSpec = ModuleSpec { name: "pass", ..ModuleSpec::USUAL };
///
/// let registry = Registry::new([&PASS]);
/// assert_eq!(registry.find("pass")?.name, "pass");
/// let error = registry.find("past").unwrap_err();
/// assert_eq!(error.advice(), Some("did you mean `pass`?"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    specs: BTreeMap<&'static str, &'static ModuleSpec>,
    /// Names of modules whose check or run calls user code.
    of_user_code: BTreeSet<&'static str>,
}

impl Registry {
    /// A registry of these modules.
    pub fn new(specs: impl IntoIterator<Item = &'static ModuleSpec>) -> Registry {
        let specs = specs.into_iter().map(|spec| (spec.name, spec)).collect();
        Registry { specs, of_user_code: BTreeSet::new() }
    }

    /// Adds modules to the registry.
    pub fn with(mut self, specs: impl IntoIterator<Item = &'static ModuleSpec>) -> Registry {
        self.specs.extend(specs.into_iter().map(|spec| (spec.name, spec)));
        self
    }

    /// Adds modules that call user code: functions, classes and queries that a flow names. Even a
    /// check calls them, so checking them needs consent.
    ///
    /// ```
    /// use euphrates_flow::{ModuleSpec, Registry};
    ///
    /// static MAP: ModuleSpec = ModuleSpec { name: "map", ..ModuleSpec::USUAL };
    /// let registry = Registry::default().with_user_code([&MAP]);
    /// assert!(registry.calls_user_code("map") && registry.find("map").is_ok());
    /// ```
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

    /// All specs, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static ModuleSpec> {
        self.specs.values().copied()
    }
}
