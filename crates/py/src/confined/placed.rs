//! A module with user code, as placed at a worker: everything that calls user code, checks
//! included, runs in a child process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Cancel, Error, Module, Placed, Ports, Result, Setup, Shape};
use serde_json::Value;

use super::letters::{self, Ask, Order};
use super::process::{Process, Silence};
use super::serving::Serving;
use crate::modules::MAP;

/// A module whose user code runs in child processes.
pub struct Confined {
    pub(super) module: &'static str,
    config: Value,
    shape: Option<Shape>,
    streams: bool,
    /// The process that did the checks; the first instance uses it.
    asked: Mutex<Option<Process>>,
    schemas: Mutex<Schemas>,
    /// Crashes that were retried successfully, for the report.
    pub(super) crashes: Mutex<Vec<String>>,
}

#[derive(Clone, Default)]
pub(super) struct Schemas {
    pub inputs: Vec<SchemaRef>,
    pub outputs: Vec<SchemaRef>,
}

/// Places a module in a child process.
pub fn place(module: &'static str, config: Value) -> Result<Arc<dyn Placed>> {
    let order = Order::Place { module: module.to_string(), config: config.clone() };
    let (process, answer) = ask_first(&order)?;
    let Ask::Placed { shape, streams } = answer else { return Err(unexpected(&answer)) };
    let asked = Mutex::new(Some(process));
    let (schemas, crashes) = Default::default();
    Ok(Arc::new(Confined { module, config, shape, streams, asked, schemas, crashes }))
}

/// Sends the order to an idle process, or to a new one if the idle ones have ended.
fn ask_first(order: &Order) -> Result<(Process, Ask)> {
    loop {
        let mut process = Process::take()?;
        let is_used = process.is_used();
        match ask(&mut process, order) {
            Ok(answer) => return fit(answer).map(|answer| (process, answer)),
            Err(_) if is_used => {}
            Err(_) => return Err(died(process)),
        }
    }
}

fn ask(process: &mut Process, order: &Order) -> Result<Ask, ()> {
    process.tell(order, None).map_err(drop)?;
    // Checks are not cancelled; the master gives up waiting instead.
    process.hear(&Cancel::default()).map(|(answer, _)| answer).map_err(drop)
}

fn fit(answer: Ask) -> Result<Ask> {
    match answer {
        Ask::Unfit { error } => Err(error),
        answer => Ok(answer),
    }
}

fn died(process: Process) -> Error {
    let ending = process.end();
    Error::failed(format!("the process that runs its code {ending} during the check of the flow"))
        .remedy(ending.remedy())
}

fn unexpected(answer: &Ask) -> Error {
    Error::failed(format!("unexpected answer of the process that runs its code: {answer:?}"))
}

impl Confined {
    /// Whether it handles batches independently, so that one can be given to it again.
    pub(super) fn is_batchwise(&self) -> bool {
        self.module == MAP.name
    }

    pub(super) fn schemas(&self) -> MutexGuard<'_, Schemas> {
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process in which the module is placed and checked, or will be when it has read its orders.
    pub(super) fn process(&self) -> Result<Process> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(process) = asked {
            return Ok(process);
        }
        let mut process = Process::take()?;
        if process.is_used() {
            // Its answer shows whether it still lives.
            let order = self.place_order();
            if ask(&mut process, &order).is_err() {
                process = Process::start()?;
                process.tell(&order, None)?;
                return self.check(process, 2);
            }
            return self.check(process, 1);
        }
        process.tell(&self.place_order(), None)?;
        self.check(process, 2)
    }

    fn place_order(&self) -> Order {
        Order::Place { module: self.module.to_string(), config: self.config.clone() }
    }

    /// Sends the check order without waiting for the answer.
    fn check(&self, mut process: Process, answers: u32) -> Result<Process> {
        let inputs = letters::messages(&self.schemas().inputs)?;
        process.tell(&Order::Check { inputs }, None)?;
        process.owes(answers);
        Ok(process)
    }
}

impl Placed for Confined {
    fn shape(&self) -> Option<Shape> {
        self.shape.clone()
    }

    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut process = asked.take().ok_or_else(|| Error::failed("it has been checked"))?;
        let order = Order::Check { inputs: letters::messages(inputs)? };
        let Ok(answer) = ask(&mut process, &order) else { return Err(died(process)) };
        let answer = fit(answer)?;
        let Ask::Checked { outputs } = answer else { return Err(unexpected(&answer)) };
        let outputs = letters::schemas(&outputs)?;
        *self.schemas() = Schemas { inputs: inputs.to_vec(), outputs: outputs.clone() };
        *asked = Some(process);
        Ok(outputs)
    }

    fn is_ordered(&self, inputs_ordered: bool, keeps_runs: bool) -> bool {
        self.streams || inputs_ordered && keeps_runs
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let _ = setup;
        // Python starts up while the workers connect.
        let mut first = Some(self.process()?);
        Ok(Box::new(move |ports: &mut Ports| {
            let process = match first.take() {
                Some(process) => process,
                None => self.process()?,
            };
            Serving::new(&self, ports).run(process)
        }))
    }

    fn remark(&self) -> Option<String> {
        let crashes = self.crashes.lock().unwrap_or_else(PoisonError::into_inner);
        (!crashes.is_empty()).then(|| crashes.join("; "))
    }
}

/// Waits for the outstanding answers of placing and checking.
pub(super) fn settle(process: &mut Process, cancel: &Cancel) -> Result<Result<()>, Silence> {
    while process.is_owing() {
        let (answer, _) = process.hear(cancel)?;
        process.has_paid();
        if let Ask::Unfit { error } = answer {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}
