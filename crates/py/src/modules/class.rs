//! The module `python`: runs a Python class with ports of its own.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_flow::check::names::exportable;
use euphrates_flow::module::{Interface, OutputOrder};
use euphrates_flow::spec::{self, PortNames};
use euphrates_flow::{
    Bound as BoundModule, Configure, Error, InputOrder, Inputs, Kind, MemoryDemand, Module,
    ModuleSpec, PlacementConstraint, Ports, Result, Setup, Shape,
};
use pyo3::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map as JsonMap, Value};

use super::reference::ObjectReference;
use crate::data::classes::Schema;
use crate::data::import::import_schema;
use crate::interpreter::{attached, checking, python_of, type_name};
use crate::lease::Lease;
use crate::ports::{PortInfo, PyPorts};
use crate::user_code::{CHECKING, call, forget_stops, instance_result};

/// The spec of the module.
pub const MODULE: ModuleSpec = ModuleSpec {
    name: "python",
    summary: "Runs a module written in Python: a subclass of `euphrates.Module`.",
    detail: "The class declares `inputs`, `outputs` and `order`, says what comes out in \
             `schemas(self, inputs)`, and works in `run(self, ports)`. Every instance has an \
             object of its own and runs in a thread of its own. Usually placed as an object: \
             `flow.place(MyModule(3))`.",
    example: r#">>> class First(eu.Module):
...     def __init__(self, rows):
...         self.rows = rows
...     def run(self, ports):
...         for batch in ports:
...             ports.put(batch.slice(0, self.rows))
>>> first = eu.python(First, args=[2])
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=9), first, eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [0, 1]}"#,
    inputs: PortNames::Configured,
    outputs: PortNames::Configured,
    memory: MemoryDemand::Fixed,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        Ok(Arc::new(PythonClass::new(&config)?))
    },
    ..ModuleSpec::USUAL
};

/// Which class, and what its objects are made of.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The class, or where it can be imported from: `package.module:Name`.
    #[schemars(extend("x-python" = "type[Any] | str"))]
    pub module: ObjectReference,
    /// Arguments of its constructor, by position.
    #[serde(default)]
    pub args: Option<Vec<Value>>,
    /// Arguments of its constructor, by name.
    #[serde(default)]
    pub kwargs: Option<JsonMap<String, Value>>,
}

/// A module whose instances are Python objects.
pub struct PythonClass {
    /// A callable without arguments that creates an object.
    make: Py<PyAny>,
    shape: Shape,
    spread: PlacementConstraint,
    /// Whether `run` calls `begin_run` and `end_run`.
    streams: bool,
}

impl PythonClass {
    fn new(config: &Config) -> Result<PythonClass> {
        let (args, kwargs) = (config.args.clone(), config.kwargs.clone());
        checking(|py| {
            let class = config.module.resolve(py)?;
            let args = Value::from(args.unwrap_or_default());
            let kwargs = Value::from(kwargs.unwrap_or_default());
            let made = PythonClass::of_class(py, class, &args, &kwargs)?;
            Ok(PythonClass { spread: config.module.spread(), ..made })
        })
    }

    /// A module of a class, with the arguments of its constructor.
    pub fn of_class(
        py: Python<'_>,
        class: Py<PyAny>,
        args: &Value,
        kwargs: &Value,
    ) -> Result<Self> {
        let described = call(py, CHECKING, || {
            let describe = py.import("euphrates._user_code.module")?.getattr("described")?;
            let arguments = (class, python_of(py, args)?, python_of(py, kwargs)?);
            describe.call1(arguments)?.extract::<Described>()
        })?;
        let order = match described.order.as_str() {
            "any" => InputOrder::Any,
            "keeps" => InputOrder::Keeps,
            "ordered" => InputOrder::Ordered,
            other => {
                let known = ["any", "keeps", "ordered"].into_iter();
                return Err(euphrates_flow::error::unknown("order", other, known));
            }
        };
        let shape = Shape {
            inputs: described.inputs,
            outputs: described.outputs,
            order,
            parallel: described.parallel,
        };
        let (make, streams) = (described.make, described.streams);
        let spread = PlacementConstraint::Anywhere;
        Ok(PythonClass { make, shape, spread, streams })
    }

    /// Calls the class's `schemas`.
    fn ask_schemas(&self, py: Python<'_>, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let returned = call(py, CHECKING, || {
            let schema = |schema: &SchemaRef| Schema { schema: schema.clone() };
            let inputs: Vec<Schema> = inputs.iter().map(schema).collect();
            let ask = py.import("euphrates._user_code.module")?.getattr("promised")?;
            let arguments = (self.make.bind(py).call0()?, inputs, &self.shape.outputs);
            ask.call1(arguments)?.extract::<Vec<Bound<'_, PyAny>>>()
        })?;
        let schema = |object: &Bound<'_, PyAny>| {
            call(py, CHECKING, || import_schema(object))?.ok_or_else(|| {
                let message = format!("`schemas` returned {}, not a schema", type_name(object));
                Error::usage(message).remedy("return one of `inputs`, or a pyarrow schema")
            })
        };
        returned.iter().map(schema).collect()
    }

    fn run(&self, ports: &mut Ports, info: PortInfo) -> Result<()> {
        let (cancel, inputs) = (ports.setup().cancel.clone(), info.inputs.clone());
        let run = |lease: &Arc<Lease>| {
            attached(|py| {
                let ports = PyPorts::new(lease.clone(), info);
                let ran = call(py, Some(&cancel), || {
                    self.make.bind(py).call0()?.call_method1("run", (ports,)).map(drop)
                });
                forget_stops(py, &cancel, lease.number());
                ran.map_err(|error| match error.kind() {
                    Kind::Closed | Kind::Interrupted => error,
                    _ => match lease.last_row(&inputs) {
                        Some(row) => error.in_row(|| row),
                        None => error,
                    },
                })
            })
        };
        // Detached, because the end of the lease waits for threads that use the ports.
        instance_result(&cancel, Lease::lend(ports, run))
    }
}

/// The declarations of a class; see `euphrates._user_code.module.described`.
#[derive(FromPyObject)]
struct Described {
    make: Py<PyAny>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    order: String,
    parallel: bool,
    streams: bool,
}

impl Configure for PythonClass {
    fn interface(&self) -> Interface {
        Interface { shape: Some(self.shape.clone()), ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<BoundModule> {
        inputs.schemas.iter().try_for_each(|input| exportable(input))?;
        let outputs = checking(|py| self.ask_schemas(py, inputs.schemas))?;
        let info = PortInfo {
            inputs: self.shape.inputs.clone(),
            input_schemas: inputs.schemas.to_vec(),
            outputs: self.shape.outputs.clone(),
            output_schemas: outputs.clone(),
        };
        let (order, spread) = (OutputOrder::numbered(self.streams), self.spread.clone());
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (class, info) = (self.clone(), info.clone());
            Ok(Box::new(move |ports: &mut Ports| class.run(ports, info.clone())))
        };
        Ok(BoundModule { order, spread, ..BoundModule::new(outputs, instance) })
    }
}
