//! Starts and ends the processes of runs and scripts.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use euphrates_flow::{Error, spawn_named};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::http::error::{ApiError, Result};
use crate::settings::ServerSettings;

/// Poll interval of a process.
pub const PROCESS_POLL: Duration = Duration::from_millis(10);

/// A thread that starts processes. A process that is bound to its parent (`PR_SET_PDEATHSIG`) ends
/// with the thread that started it, and this thread lives as long as the server.
pub struct Spawner(Sender<(Command, Sender<std::io::Result<Child>>)>);

impl Spawner {
    /// Starts the thread of the spawner.
    pub fn start() -> euphrates_flow::Result<Spawner> {
        let (sender, requests) = channel::<(Command, Sender<std::io::Result<Child>>)>();
        spawn_named("starter", move || {
            for (mut command, reply) in requests {
                // The requester waits for the reply.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Spawner(sender))
    }

    /// Starts a process on the thread.
    pub fn spawn(&self, command: Command) -> Result<Child> {
        let (reply, started) = channel();
        let ended = || ApiError::from(Error::failed("the thread that starts processes is gone"));
        self.0.send((command, reply)).map_err(|_| ended())?;
        let started = started.recv().map_err(|_| ended())?;
        Ok(started.map_err(|error| Error::os("start", "the process of a run", &error))?)
    }
}

/// Kills the process group of a child. A group that has ended is no error.
pub fn kill_group(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A command of this program in a process group of its own, so that the signals of the terminal do
/// not reach it.
pub fn command(settings: &ServerSettings, root: &Path, words: &[&str]) -> Command {
    let mut program = settings.program.iter();
    let mut command =
        Command::new(program.next().map_or("euphrates".as_ref(), |name| name.as_os_str()));
    command.args(program).args(words).envs(settings.environment.iter().map(|(a, b)| (a, b)));
    command.current_dir(root).stdin(Stdio::null()).process_group(0);
    command
}
