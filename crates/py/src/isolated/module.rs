//! The state of a module with user code at a worker, and the child processes that configure and
//! check it.

use parking_lot::Mutex;

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Cancel, Error, Result, Shape};
use serde_json::Value;

use super::messages::{self, ChildMessage, WorkerMessage};
use super::process::{NoReply, Process};
use crate::modules::MAP;

/// A module whose user code runs in child processes.
pub struct IsolatedModule {
    /// The name of the module's spec.
    pub module: &'static str,
    config: Value,
    /// The ports, if the configuration defines them.
    pub shape: Option<Shape>,
    /// The process in which the module was checked; the first instance uses it.
    checked: Mutex<Option<Process>>,
    /// The schemas that the check has determined.
    pub schemas: Mutex<Schemas>,
    /// Descriptions of crashes after which a batch was retried, for the report.
    pub crashes: Mutex<Vec<String>>,
}

/// The schemas of the ports, set by the check.
#[derive(Clone, Default)]
pub struct Schemas {
    pub inputs: Vec<SchemaRef>,
    pub outputs: Vec<SchemaRef>,
}

impl IsolatedModule {
    /// Configures a module in a child process.
    pub fn configure(module: &'static str, config: Value) -> Result<IsolatedModule> {
        let message =
            WorkerMessage::Configure { module: module.to_string(), config: config.clone() };
        let (process, reply) = ask_first(&message)?;
        let ChildMessage::Configured { shape } = reply else {
            return Err(unexpected(&reply));
        };
        let checked = Mutex::new(Some(process));
        let (schemas, crashes) = Default::default();
        Ok(IsolatedModule { module, config, shape, checked, schemas, crashes })
    }

    /// Whether it processes batches independently, so that a batch can be retried.
    pub fn is_batchwise(&self) -> bool {
        self.module == MAP.name
    }

    /// A process in which the module is configured and checked, or to which these requests have
    /// been sent.
    pub fn acquire_process(&self) -> Result<Process> {
        let checked = self.checked.lock().take();
        if let Some(process) = checked {
            return Ok(process);
        }
        let mut process = Process::acquire()?;
        if process.is_used() {
            // The reply shows whether the process still lives.
            let message = self.configure_message();
            if ask(&mut process, &message).is_err() {
                process = Process::start()?;
                process.send(&message, None)?;
                return self.check(process, 2);
            }
            return self.check(process, 1);
        }
        process.send(&self.configure_message(), None)?;
        self.check(process, 2)
    }

    fn configure_message(&self) -> WorkerMessage {
        WorkerMessage::Configure { module: self.module.to_string(), config: self.config.clone() }
    }

    /// Sends the request to check without waiting for the reply; `replies` are outstanding then.
    fn check(&self, mut process: Process, replies: u32) -> Result<Process> {
        let inputs = messages::encode_schemas(&self.schemas.lock().inputs)?;
        process.send(&WorkerMessage::Check { inputs }, None)?;
        process.expect_replies(replies);
        Ok(process)
    }

    /// Checks the module in the process that configured it; returns the schemas of its outputs, and
    /// whether it numbers runs itself.
    pub fn check_schemas(&self, inputs: &[SchemaRef]) -> Result<(Vec<SchemaRef>, bool)> {
        let mut checked = self.checked.lock();
        let mut process = checked.take().ok_or_else(|| Error::failed("it has been checked"))?;
        let message = WorkerMessage::Check { inputs: messages::encode_schemas(inputs)? };
        let Ok(reply) = ask(&mut process, &message) else { return Err(died(process)) };
        let reply = success(reply)?;
        let ChildMessage::Checked { outputs, numbers_runs } = reply else {
            return Err(unexpected(&reply));
        };
        let outputs = messages::decode_schemas(&outputs)?;
        *self.schemas.lock() = Schemas { inputs: inputs.to_vec(), outputs: outputs.clone() };
        *checked = Some(process);
        Ok((outputs, numbers_runs))
    }
}

/// Waits for the outstanding replies of placing and checking.
pub fn await_placement(process: &mut Process, cancel: &Cancel) -> Result<Result<()>, NoReply> {
    while process.awaits_replies() {
        let (reply, _) = process.receive(cancel)?;
        process.count_reply();
        if let ChildMessage::Unfit { error } = reply {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Sends a request to an idle process, or to a new one if the idle ones have ended.
fn ask_first(message: &WorkerMessage) -> Result<(Process, ChildMessage)> {
    loop {
        let mut process = Process::acquire()?;
        let is_used = process.is_used();
        match ask(&mut process, message) {
            Ok(reply) => return success(reply).map(|reply| (process, reply)),
            Err(_) if is_used => {}
            Err(_) => return Err(died(process)),
        }
    }
}

/// Sends a request and waits for the reply. `Err` stands for the end of the process.
fn ask(process: &mut Process, message: &WorkerMessage) -> Result<ChildMessage, ()> {
    process.send(message, None).map_err(drop)?;
    // A check cannot be cancelled; the master times out instead.
    process.receive(&Cancel::default()).map(|(reply, _)| reply).map_err(drop)
}

/// The reply, or the error of placing or checking.
fn success(reply: ChildMessage) -> Result<ChildMessage> {
    match reply {
        ChildMessage::Unfit { error } => Err(error),
        reply => Ok(reply),
    }
}

fn died(process: Process) -> Error {
    let ending = process.end();
    Error::failed(format!("the process that runs its code {ending} during the check of the flow"))
        .remedy(ending.remedy())
}

fn unexpected(reply: &ChildMessage) -> Error {
    Error::failed(format!("unexpected answer of the process that runs its code: {reply:?}"))
}
