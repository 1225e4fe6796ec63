//! The child process that runs user code: the module runs unchanged, on ports whose queues are
//! remote ends at the worker.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Letters, RecvTimeoutError, Sender as Post, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::ports::{Consumer, Input, Output, Producer};
use euphrates_flow::{
    Cancel, Commons, Error, Kind, NoExchange, Parcel, Partition, Placed, Ports, Result, RunIndex,
    Setup, Shape, Taken, batch_bytes,
};
use euphrates_wire::{Caps, Frame, Receiver, Sender};
use pyo3::prelude::*;

use super::letters::{self, Ask, Codec, Instance, Order};
use crate::registry;
use crate::user_code::interrupt;

/// An idle process exits after this time.
const IDLE: Duration = Duration::from_secs(30);

/// Rows of the instance's input that went to earlier processes.
static ROWS_BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Rows of the input that the instance received before it started in this process.
pub fn rows_before() -> usize {
    ROWS_BEFORE.load(Relaxed)
}

/// Reports rows read from outside the flow to the worker. Returns false outside of a child process.
pub fn count(rows: usize, bytes: usize) -> Result<bool> {
    let Some(line) = LINE.get() else { return Ok(false) };
    line.ask(&Ask::Count { rows, bytes }, None).map(|_| true)
}

/// The connection of this process to its worker.
static LINE: OnceLock<Arc<Line>> = OnceLock::new();

/// A message of the worker.
type Heard = (Order, Frame);

/// The connection to the worker. Requests are made one at a time.
struct Line {
    out: Mutex<Sender<UnixStream>>,
    heard: Mutex<Letters<Heard>>,
    /// The cancel switch of the current instance.
    cancel: Mutex<Option<Arc<Cancel>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries out the orders of the worker, whose socket is stdin, until the worker is gone.
#[pyfunction]
pub fn run_confined(py: Python<'_>) {
    py.detach(|| {
        if let Ok(line) = Line::open() {
            live(LINE.get_or_init(|| line));
        }
    });
}

fn live(line: &Arc<Line>) {
    let mut placed: Option<Part> = None;
    loop {
        let heard = lock(&line.heard).recv_timeout(IDLE);
        match heard {
            Ok((order, _)) => line.on_order(order, &mut placed),
            Err(RecvTimeoutError::Timeout) if placed.is_some() => {}
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

/// The module that is placed in this process.
struct Part {
    placed: Arc<dyn Placed>,
    shape: Shape,
    inputs: Vec<SchemaRef>,
    outputs: Vec<SchemaRef>,
}

impl Line {
    fn open() -> Result<Arc<Line>> {
        let lost = |error: std::io::Error| Error::os("use", "the line to the worker", &error);
        // User code must not read from the socket.
        let taken = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
        let taken: OwnedFd = taken.map_err(|error| lost(error.into()))?;
        let nothing = std::fs::File::open("/dev/null").map_err(lost)?;
        rustix::stdio::dup2_stdin(&nothing).map_err(|error| lost(error.into()))?;
        let out = UnixStream::from(taken);
        let read = out.try_clone().map_err(lost)?;
        let (post, heard) = channel();
        let line = Arc::new(Line {
            out: Mutex::new(Sender::new(out)),
            heard: Mutex::new(heard),
            cancel: Mutex::default(),
        });
        let reading = line.clone();
        let read = move || reading.read(Receiver::new(read, Caps::KNOWN), &post);
        thread::Builder::new().name("worker".into()).spawn(read).map_err(lost)?;
        Ok(line)
    }

    /// Receives messages, also while user code computes. Exits the process when the worker is gone.
    fn read(&self, mut receiver: Receiver<UnixStream>, post: &Post<Heard>) {
        while let Ok(Some((order, frame))) = letters::receive(&mut receiver) {
            match order {
                Order::Stop => self.stop(),
                order => drop(post.send((order, frame))),
            }
        }
        // User code may hold any lock that an orderly exit would wait for.
        // SAFETY: ends the process without running any of its code.
        unsafe { libc::_exit(0) }
    }

    fn stop(&self) {
        let Some(cancel) = lock(&self.cancel).clone() else { return };
        cancel.cancel();
        // On its own thread: C code may hold the GIL for long, and messages must still be received.
        let interrupting = move || Python::try_attach(|py| interrupt(py, &cancel));
        // If no thread can be started, the worker kills this process a little later.
        drop(thread::Builder::new().name("stop".into()).spawn(interrupting));
    }

    fn say(&self, ask: &Ask) -> Result<()> {
        letters::send(&mut lock(&self.out), ask, None)
    }

    fn ask(&self, ask: &Ask, batch: Option<(&mut Codec, &RecordBatch)>) -> Result<Heard> {
        letters::send(&mut lock(&self.out), ask, batch)?;
        let heard = lock(&self.heard).recv();
        match heard.map_err(|_| Error::interrupted())? {
            (Order::Failed { error }, _) => Err(error),
            heard => Ok(heard),
        }
    }

    fn on_order(self: &Arc<Self>, order: Order, part: &mut Option<Part>) {
        let answered = match order {
            Order::Place { module, config } => self.place(&module, config, part),
            Order::Check { inputs } => self.check(&inputs, part),
            Order::Run(instance) => {
                let error = self.run(&instance, part.take()).err();
                Ok(Ask::Ended { error })
            }
            order => Err(Error::failed(format!("unexpected message of the worker: {order:?}"))),
        };
        // If the worker is gone, the reading thread exits the process.
        let _ = self.say(&answered.unwrap_or_else(|error| Ask::Unfit { error }));
    }

    fn place(
        &self,
        module: &str,
        config: serde_json::Value,
        part: &mut Option<Part>,
    ) -> Result<Ask> {
        let spec = registry().find(module)?;
        let placed = (spec.place)(config)?;
        let told = placed.shape();
        let one = |names: euphrates_flow::PortNames| names.names(1);
        let shape = told.clone().unwrap_or_else(|| Shape {
            inputs: one(spec.inputs),
            outputs: one(spec.outputs),
            order: spec.order,
            parallel: spec.parallel,
        });
        let streams = placed.is_ordered(false, false);
        *part = Some(Part { placed, shape, inputs: vec![], outputs: vec![] });
        Ok(Ask::Placed { shape: told, streams })
    }

    fn check(&self, inputs: &[Vec<u8>], part: &mut Option<Part>) -> Result<Ask> {
        let part = part.as_mut().ok_or_else(|| Error::failed("no module is placed"))?;
        part.inputs = letters::schemas(inputs)?;
        part.outputs = part.placed.schemas(&part.inputs)?;
        Ok(Ask::Checked { outputs: letters::messages(&part.outputs)? })
    }

    fn run(self: &Arc<Self>, instance: &Instance, part: Option<Part>) -> Result<()> {
        let part = part.ok_or_else(|| Error::failed("no module is placed"))?;
        ROWS_BEFORE.store(instance.rows_before, Relaxed);
        let cancel = Arc::new(Cancel::default());
        cancel.wake_me();
        *lock(&self.cancel) = Some(cancel.clone());
        let setup = Arc::new(instance.setup(bare(cancel.clone())));
        let metrics = Arc::new(InstanceMetrics::default());
        let inputs = part.inputs.iter().zip(&part.shape.inputs).enumerate();
        let input = |(number, (schema, name)): (usize, (&SchemaRef, &String))| {
            let queue = TakenThere {
                line: self.clone(),
                input: number,
                codec: Codec::new(schema)?,
                is_keyed: instance.keyed.get(number).copied().unwrap_or(false),
            };
            Ok(Input { name: name.clone(), queue: Box::new(queue), groups: false })
        };
        let inputs = inputs.map(input).collect::<Result<Vec<_>>>()?;
        let outputs = part.outputs.iter().zip(&part.shape.outputs).enumerate();
        let output = |(number, (schema, name)): (usize, (&SchemaRef, &String))| {
            let (line, codec) = (self.clone(), Codec::new(schema)?);
            let queue = PutThere { line, output: number, codec, refused: None };
            Ok(Output { name: name.clone(), queue: Box::new(queue) })
        };
        let outputs = outputs.map(output).collect::<Result<Vec<_>>>()?;
        let mut ports = Ports::new(inputs, outputs, false, metrics, setup.clone());
        let result = part.placed.instance(&setup)?.run(&mut ports);
        *lock(&self.cancel) = None;
        result
    }
}

/// The defaults of a setup in a child process.
fn bare(cancel: Arc<Cancel>) -> Setup {
    Setup {
        module: String::new(),
        worker: String::new(),
        instance: 0,
        instances: 1,
        is_whole: true,
        instances_here: 1,
        is_divided: false,
        memory_bytes: 0,
        budget_bytes: 0,
        row_bytes_max: usize::MAX,
        scratch: vec![],
        home: std::path::PathBuf::new(),
        run_id: String::new(),
        decision: None,
        cancel,
        commons: Arc::new(NoCommons),
        exchange: Arc::new(NoExchange),
    }
}

/// The consumer's end of a queue at the worker.
struct TakenThere {
    line: Arc<Line>,
    input: usize,
    codec: Codec,
    is_keyed: bool,
}

impl TakenThere {
    fn batch(&self, (order, frame): Heard) -> Result<Taken> {
        match order {
            Order::Batch => {
                let batch = self.codec.decode(&frame)?;
                let bytes = batch_bytes(&batch);
                Ok(Taken::Batch(Parcel { batch, bytes, run: None }))
            }
            Order::Empty => Ok(Taken::Empty),
            Order::End => Ok(Taken::End),
            other => Err(unexpected(&other)),
        }
    }
}

impl Consumer for TakenThere {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        let heard = self.line.ask(&Ask::Take { input: self.input, wait }, None)?;
        self.batch(heard)
    }

    fn ready(&mut self, _: bool) -> bool {
        true
    }

    fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        match self.line.ask(&Ask::Select { inputs: inputs.to_vec() }, None)? {
            (Order::Ready { input }, _) => Ok(input),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    fn next_partition(&mut self) -> Result<Option<Partition>> {
        let heard = self.line.ask(&Ask::Partition { input: self.input }, None)?;
        match self.batch(heard)? {
            Taken::Batch(Parcel { batch, .. }) => Ok(Some(Partition::of_batch(batch, 0))),
            _ => Ok(None),
        }
    }
}

/// The producer's end of a queue at the worker.
struct PutThere {
    line: Arc<Line>,
    output: usize,
    codec: Codec,
    /// The batch that was refused last, which the worker keeps.
    refused: Option<RecordBatch>,
}

impl PutThere {
    fn done(&self, (order, _): Heard) -> Result<bool> {
        match order {
            Order::Done => Ok(true),
            Order::Refused => Ok(false),
            other => Err(unexpected(&other)),
        }
    }
}

impl Producer for PutThere {
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        let kept = self.refused.take();
        let lies_there = kept.is_some_and(|kept| is_same(&kept, &parcel.batch));
        let output = self.output;
        if !(wait && lies_there) {
            let batch = Some((&mut self.codec, &parcel.batch));
            let heard = self.line.ask(&Ask::Put { output }, batch)?;
            if self.done(heard)? {
                return Ok(None);
            }
            if !wait {
                self.refused = Some(parcel.batch.clone());
                return Ok(Some(parcel));
            }
        }
        let heard = self.line.ask(&Ask::PutKept { output }, None)?;
        self.done(heard).map(|_| None)
    }

    fn has_room(&mut self, _: &Parcel) -> bool {
        true
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        let heard = self.line.ask(&Ask::BeginRun { output: self.output, run }, None)?;
        self.done(heard).map(drop)
    }

    fn end_run(&mut self, _: RunIndex) -> Result<()> {
        let heard = self.line.ask(&Ask::EndRun { output: self.output }, None)?;
        self.done(heard).map(drop)
    }
}

/// Whether two batches share all columns.
fn is_same(one: &RecordBatch, other: &RecordBatch) -> bool {
    let columns = one.columns().iter().zip(other.columns());
    one.num_columns() == other.num_columns()
        && one.num_rows() == other.num_rows()
        && columns.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
}

fn unexpected(order: &Order) -> Error {
    Error::new(Kind::Failed, format!("unexpected message of the worker: {order:?}"))
}

/// User code has no access to the commons.
#[derive(Debug)]
struct NoCommons;

fn nobody<T>() -> Result<T> {
    Err(Error::failed("the commons are not available to user code"))
}

impl Commons for NoCommons {
    fn next(&self, _: &str) -> Result<u64> {
        nobody()
    }

    fn given(&self, _: &str) -> Result<u64> {
        nobody()
    }

    fn gather(&self, _: &str, _: usize, _: usize, _: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        nobody()
    }

    fn learn(&self, _: &str) -> Result<Vec<Vec<u8>>> {
        nobody()
    }
}
