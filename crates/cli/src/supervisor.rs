//! Supervises a `--stay` worker from a parent process, so that a crash or the OOM killer does not
//! remove the worker from its cluster.

use std::cell::Cell;
use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use euphrates_engine::run::supervise::{StopSignal, supervise};
use euphrates_flow::{Error, Result};

use crate::signals::Signals;

/// The hidden option that passes the supervisor's pid to the worker.
const KEPT_BY: &str = "--kept-by";

/// Runs this command line again as a supervised child, and returns its exit code. SIGTERM drains
/// the child, which may take `drain_timeout`.
pub fn supervised(name: &str, drain_timeout: Duration) -> Result<u8> {
    let signals = Signals::listen_apart();
    let mut words = env::args_os();
    let program = words.next().ok_or_else(|| Error::failed("this program has no name"))?;
    let words: Vec<OsString> = words.collect();
    let command = || {
        let mut command = Command::new(&program);
        command.args(&words).arg(KEPT_BY).arg(std::process::id().to_string());
        command
    };
    let on_restart = |status| eprintln!("worker {name} was killed ({status}) and is restarted");
    let is_over = Cell::new(false);
    let stop = || {
        let terminated = signals.take_terminated().then_some(StopSignal::Terminate);
        let signal = signals.take_interrupted().then_some(StopSignal::Interrupt).or(terminated);
        signal.inspect(|_| is_over.set(true))
    };
    let status = supervise(command, stop, drain_timeout, on_restart)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(if is_over.get() { 0 } else { 1 }))
}
