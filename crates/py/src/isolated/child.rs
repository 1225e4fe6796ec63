//! The child process that runs user code: the module runs unchanged, on ports whose queues are at
//! the worker.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::module::{OutputOrder, Reads, RowCondition};
use euphrates_flow::ports::{Input, Output};
use euphrates_flow::{
    Bound, Cancel, Configure, Coordination, Error, GatherName, Inputs, Ports, Result, Setup, Shape,
};
use pyo3::prelude::*;

use super::channel::{WorkerChannel, set_rows_before};
use super::messages::{self, ChildMessage, InstanceSetup, WorkerMessage};
use super::remote_ports::{WorkerConsumer, WorkerProducer};
use crate::registry::registry;

/// An idle process exits after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Executes the requests of the worker, whose socket is standard input, until the worker is gone.
#[pyfunction]
pub fn run_confined(py: Python<'_>) {
    py.detach(|| {
        if let Ok(channel) = WorkerChannel::open() {
            run_requests(channel);
        }
    });
}

fn run_requests(channel: &Arc<WorkerChannel>) {
    let mut configured: Option<LoadedModule> = None;
    loop {
        match channel.receive(IDLE_TIMEOUT) {
            Ok((message, _)) => execute(channel, message, &mut configured),
            Err(RecvTimeoutError::Timeout) if configured.is_some() => {}
            Err(_) => return,
        }
        // Show what user code has printed.
        Python::try_attach(|py| {
            let sys = py.import("sys")?;
            sys.getattr("stdout")?.call_method0("flush")?;
            sys.getattr("stderr")?.call_method0("flush").map(drop)
        });
    }
}

/// The module that is configured in this process.
struct LoadedModule {
    module: Arc<dyn Configure>,
    shape: Shape,
    checked: Option<(Vec<SchemaRef>, Bound)>,
}

/// Executes one request, and sends the reply.
fn execute(
    channel: &Arc<WorkerChannel>,
    message: WorkerMessage,
    module: &mut Option<LoadedModule>,
) {
    let replied = match message {
        WorkerMessage::Configure { module: name, config } => configure(&name, config, module),
        WorkerMessage::Check { inputs } => check(&inputs, module),
        WorkerMessage::Run(instance) => {
            let error = run(channel, &instance, module.take()).err();
            Ok(ChildMessage::Ended { error })
        }
        message => Err(Error::failed(format!("unexpected message of the worker: {message:?}"))),
    };
    // If the worker is gone, the receiving thread exits the process.
    let _ = channel.send(&replied.unwrap_or_else(|error| ChildMessage::Unfit { error }));
}

fn configure(
    name: &str,
    config: serde_json::Value,
    module: &mut Option<LoadedModule>,
) -> Result<ChildMessage> {
    let spec = registry().find(name)?;
    let configured = (spec.configure)(config)?;
    let declared = configured.interface().shape;
    let one = |names: euphrates_flow::PortNames| names.names(1);
    let shape = declared.clone().unwrap_or_else(|| Shape {
        inputs: one(spec.inputs),
        outputs: one(spec.outputs),
        order: spec.order,
        parallel: spec.parallel,
    });
    *module = Some(LoadedModule { module: configured, shape, checked: None });
    Ok(ChildMessage::Configured { shape: declared })
}

fn check(inputs: &[Vec<u8>], module: &mut Option<LoadedModule>) -> Result<ChildMessage> {
    let module = module.as_mut().ok_or_else(|| Error::failed("no module is configured"))?;
    let schemas = messages::decode_schemas(inputs)?;
    let inputs = Inputs {
        schemas: &schemas,
        bytes: &vec![None; schemas.len()],
        keeps_runs: false,
        sorted_by: &[],
        needed: None,
        condition: &RowCondition::TRUE,
        matched_by: &[],
        key_filters: &[],
        home: Path::new(""),
        cache: None,
        reads: Reads::All,
    };
    let bound = module.module.clone().bind(&inputs)?;
    let outputs = messages::encode_schemas(&bound.outputs)?;
    let numbers_runs = bound.order == OutputOrder::Runs;
    module.checked = Some((schemas, bound));
    Ok(ChildMessage::Checked { outputs, numbers_runs })
}

fn run(
    channel: &Arc<WorkerChannel>,
    instance: &InstanceSetup,
    module: Option<LoadedModule>,
) -> Result<()> {
    let module = module.ok_or_else(|| Error::failed("no module is configured"))?;
    let (inputs, bound) = module.checked.ok_or_else(|| Error::failed("it is not checked"))?;
    set_rows_before(instance.rows_before);
    let cancel = Arc::new(Cancel::default());
    cancel.register_thread();
    channel.set_cancel(Some(cancel.clone()));
    let coordination = Arc::new(WorkerCounters(channel.clone()));
    let setup = Arc::new(instance.setup(Setup::alone(coordination, cancel)));
    let metrics = Arc::new(InstanceMetrics::default());
    let inputs = inputs.iter().zip(&module.shape.inputs).enumerate();
    let input = |(number, (schema, name)): (usize, (&SchemaRef, &String))| {
        let is_keyed = instance.keyed.get(number).copied().unwrap_or(false);
        let queue = WorkerConsumer::new(channel.clone(), number, schema, is_keyed)?;
        Ok(Input { name: name.clone(), queue: Box::new(queue), keeps_equal_keys_together: false })
    };
    let inputs = inputs.map(input).collect::<Result<Vec<_>>>()?;
    let outputs = bound.outputs.iter().zip(&module.shape.outputs).enumerate();
    let output = |(number, (schema, name)): (usize, (&SchemaRef, &String))| {
        let queue = WorkerProducer::new(channel.clone(), number, schema)?;
        Ok(Output { name: name.clone(), queue: Box::new(queue) })
    };
    let outputs = outputs.map(output).collect::<Result<Vec<_>>>()?;
    let mut ports = Ports::new(inputs, outputs, false, metrics, setup.clone());
    let result = bound.prepare(&setup)?.instance(&setup)?.run(&mut ports);
    channel.set_cancel(None);
    result
}

/// The counters of the module, which the worker keeps. User code has no other access to the shared
/// state of instances.
struct WorkerCounters(Arc<WorkerChannel>);

impl fmt::Debug for WorkerCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters at the worker")
    }
}

fn unavailable<T>() -> Result<T> {
    Err(Error::failed("user code cannot coordinate instances"))
}

impl Coordination for WorkerCounters {
    fn fetch_add(&self, name: &str) -> Result<u64> {
        // The worker puts the name of the module in front again.
        let name = name.rsplit('/').next().unwrap_or(name).to_string();
        match self.0.ask(&ChildMessage::FetchAdd { name }, None)? {
            (WorkerMessage::Number { number }, _) => Ok(number),
            _ => unavailable(),
        }
    }

    fn load(&self, _: &str) -> Result<u64> {
        unavailable()
    }

    fn all_gather(&self, _: GatherName<'_>, _: (usize, usize), _: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        unavailable()
    }

    fn observe(&self, _: GatherName<'_>) -> Result<Vec<Vec<u8>>> {
        unavailable()
    }

    fn leave_gathers(&self, _: &str) {}
}
