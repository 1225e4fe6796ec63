//! A test harness that runs one module over queues in memory.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::module::{Inputs, Reads, RowCondition};
use euphrates_flow::ports::{Consumer, Input, Output, Producer};
use euphrates_flow::{
    Cancel, Coordination, Error, GatherName, Kind, MemoryAccount, ModuleSpec, NoExchange, Parcel,
    Ports, Result, RunIndex, Setup, Taken, batch_bytes,
};
use parking_lot::Mutex;
use serde_json::Value;

/// An item of an input or an output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Batch(RecordBatch),
    /// The start of a run; implied on inputs.
    Begin(RunIndex),
    End(RunIndex),
}

/// A module with its inputs, before it is run.
pub(crate) struct Harness {
    spec: &'static ModuleSpec,
    config: Value,
    schemas: Vec<SchemaRef>,
    inputs: Vec<VecDeque<Taken>>,
    silent: Option<usize>,
    outputs: usize,
    keeps_runs: bool,
    /// For each output, the number of batches after which its consumer leaves.
    leaves: Vec<Option<usize>>,
    cancel: Arc<Cancel>,
}

impl Harness {
    /// A harness for a module with this configuration.
    pub(crate) fn new(spec: &'static ModuleSpec, config: Value) -> Harness {
        let outputs = spec.outputs.names(2).len();
        Harness {
            spec,
            config,
            schemas: vec![],
            inputs: vec![],
            silent: None,
            outputs,
            keeps_runs: false,
            leaves: vec![None; outputs],
            cancel: Arc::default(),
        }
    }

    /// Adds an input of batches without runs.
    pub(crate) fn input(mut self, schema: SchemaRef, batches: &[RecordBatch]) -> Harness {
        self.inputs.push(batches.iter().map(|batch| taken(batch, None)).collect());
        self.schemas.push(schema);
        self
    }

    /// Adds an input of runs.
    pub(crate) fn stream(mut self, schema: SchemaRef, runs: &[Vec<RecordBatch>]) -> Harness {
        let mut items = VecDeque::new();
        for (run, batches) in runs.iter().enumerate() {
            items.extend(batches.iter().map(|batch| taken(batch, Some(run as RunIndex))));
            items.push_back(Taken::RunEnd(run as RunIndex));
        }
        self.inputs.push(items);
        self.schemas.push(schema);
        self.keeps_runs = self.spec.order != euphrates_flow::InputOrder::Any;
        self
    }

    /// The input added last does not end: nothing more comes.
    pub(crate) fn silent(mut self) -> Harness {
        self.silent = self.inputs.len().checked_sub(1);
        self
    }

    /// The consumer of an output leaves after this number of batches.
    pub(crate) fn leaves(mut self, output: usize, batches: usize) -> Harness {
        self.leaves[output] = Some(batches);
        self
    }

    /// The cancellation of its flow.
    pub(crate) fn cancel(&self) -> Arc<Cancel> {
        self.cancel.clone()
    }

    /// Runs the module; returns the items of each output, and the result of `run`.
    pub(crate) fn run(self) -> (Vec<Vec<Item>>, Result<()>) {
        let module = (self.spec.configure)(self.config).unwrap();
        let bytes = vec![None; self.schemas.len()];
        let inputs = Inputs {
            schemas: &self.schemas,
            bytes: &bytes,
            keeps_runs: self.keeps_runs,
            sorted_by: &[],
            needed: None,
            condition: &RowCondition::TRUE,
            matched_by: &[],
            key_filters: &[],
            home: Path::new(""),
            cache: None,
            reads: Reads::All,
        };
        let bound = match module.bind(&inputs) {
            Ok(bound) => bound,
            Err(error) => return (vec![], Err(error)),
        };
        let setup = Arc::new(Setup { cancel: self.cancel.clone(), ..setup() });
        let name = |(port, queue): (usize, VecDeque<Taken>)| Input {
            name: port.to_string(),
            queue: Box::new(InputQueue { queue, ends: self.silent != Some(port) }),
            keeps_equal_keys_together: false,
        };
        let inputs = self.inputs.into_iter().enumerate().map(name).collect();
        let logs: Vec<Log> = (0..self.outputs).map(|_| Log::default()).collect();
        let ends = logs.iter().zip(&self.leaves).enumerate().map(|(port, (log, leaves))| Output {
            name: port.to_string(),
            queue: Box::new(OutputLog { log: log.clone(), left: *leaves }),
        });
        let metrics = Arc::new(InstanceMetrics::default());
        let mut ports = Ports::new(inputs, ends.collect(), self.keeps_runs, metrics, setup.clone());
        let instance = bound.prepare(&setup).and_then(|prepared| prepared.instance(&setup));
        let outcome = instance.and_then(|mut module| module.run(&mut ports));
        let outcome = match outcome {
            Err(error) if error.kind() == Kind::Closed => Ok(()),
            other => other,
        };
        (logs.iter().map(|log| log.lock().clone()).collect(), outcome)
    }
}

/// The setup of a single instance.
pub(crate) fn setup() -> Setup {
    Setup {
        module: "test".into(),
        worker: "w0".into(),
        instance: 0,
        instances: 1,
        is_statically_divided: false,
        memory: MemoryAccount::alone(1 << 30),
        budget_bytes: 4 << 30,
        row_bytes_max: usize::MAX,
        scratch: vec![std::env::temp_dir()],
        home: std::env::temp_dir(),
        // Tests of several checkouts may run at once.
        run_id: format!("test-{}", std::process::id()),
        decision: None,
        cancel: Arc::default(),
        coordination: Arc::new(SingleInstance::default()),
        exchange: Arc::new(NoExchange),
        claims: Arc::default(),
        is_in_one_process: true,
        instances_here: 1,
    }
}

/// Coordination of a single instance.
#[derive(Debug, Default)]
struct SingleInstance(Mutex<HashMap<String, u64>>);

impl Coordination for SingleInstance {
    fn fetch_add(&self, name: &str) -> Result<u64> {
        let mut numbers = self.0.lock();
        let number = numbers.entry(name.into()).or_default();
        *number += 1;
        Ok(*number - 1)
    }

    fn load(&self, name: &str) -> Result<u64> {
        Ok(self.0.lock().get(name).copied().unwrap_or_default())
    }

    fn all_gather(
        &self,
        _: GatherName<'_>,
        _: (usize, usize),
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        Ok(vec![value])
    }

    fn observe(&self, gather: GatherName<'_>) -> Result<Vec<Vec<u8>>> {
        Err(Error::failed(format!("nobody brings {}", gather.name)))
    }

    fn leave_gathers(&self, _: &str) {}
}

/// Runs a module with one input and one output, and compares all rows in order.
pub(crate) fn check(
    spec: &'static ModuleSpec,
    config: Value,
    input: &[RecordBatch],
    expected: &RecordBatch,
) {
    let (outputs, outcome) = Harness::new(spec, config).input(input[0].schema(), input).run();
    outcome.unwrap();
    assert_eq!(&rows(&outputs[0], expected.schema()), expected);
}

/// The rows of an output as one batch.
pub(crate) fn rows(items: &[Item], schema: SchemaRef) -> RecordBatch {
    let batch = |item: &Item| match item {
        Item::Batch(batch) => Some(batch.clone()),
        _ => None,
    };
    let batches: Vec<_> = items.iter().filter_map(batch).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn taken(batch: &RecordBatch, run: Option<RunIndex>) -> Taken {
    Taken::Batch(Parcel { batch: batch.clone(), bytes: batch_bytes(batch), run })
}

struct InputQueue {
    queue: VecDeque<Taken>,
    ends: bool,
}

impl Consumer for InputQueue {
    fn take(&mut self, _: bool) -> Result<Taken> {
        Ok(self.queue.pop_front().unwrap_or(if self.ends { Taken::End } else { Taken::Empty }))
    }

    fn ready(&mut self, _: bool) -> bool {
        self.ends || !self.queue.is_empty()
    }
}

type Log = Arc<Mutex<Vec<Item>>>;

struct OutputLog {
    log: Log,
    /// Batches taken until the consumer leaves.
    left: Option<usize>,
}

impl Producer for OutputLog {
    fn put(&mut self, parcel: Parcel, _: bool) -> Result<Option<Parcel>> {
        match &mut self.left {
            Some(0) => return Err(Error::closed()),
            Some(left) => *left -= 1,
            None => {}
        }
        self.log.lock().push(Item::Batch(parcel.batch));
        Ok(None)
    }

    fn has_room(&mut self, _: &Parcel) -> bool {
        true
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        if self.left == Some(0) {
            return Err(Error::closed());
        }
        self.log.lock().push(Item::Begin(run));
        Ok(())
    }

    fn end_run(&mut self, run: RunIndex) -> Result<()> {
        self.log.lock().push(Item::End(run));
        Ok(())
    }
}

/// A batch with one column `n` of these integers.
pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: arrow::array::ArrayRef =
        Arc::new(arrow::array::Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}
