//! Runs a worker's process and restarts it when a signal kills it (a crash, the OOM killer). A
//! process that exits by itself is not restarted.

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_policy::restarts::Restarts;
use rustix::process::{Pid, Signal, kill_process};

/// How often the process is polled.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the process may take to exit after it was told to.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// A signal that the supervisor has received, for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM: the process drains, or exits at once if it drains already. The first is forwarded
    /// as SIGUSR1, which requests a drain and may be repeated: service managers and batch systems
    /// send SIGTERM to the process as well as to its supervisor.
    Terminate,
    /// The process exits at once.
    Interrupt,
}

/// Runs a command until it exits by itself or `stop` returns a signal, each of which is sent to the
/// process. The process is killed if it takes `drain_timeout`, and some seconds more, to exit after
/// the first, or some seconds after any other. `on_restart` is called before every restart.
pub fn supervise(
    mut command: impl FnMut() -> Command,
    stop: impl Fn() -> Option<StopSignal>,
    drain_timeout: Duration,
    on_restart: impl Fn(ExitStatus),
) -> Result<ExitStatus> {
    let (began, mut restarts) = (Instant::now(), Restarts::default());
    let stopped = Cell::new(false);
    let stop = || stop().inspect(|_| stopped.set(true));
    let is_over = || stopped.get() || stop().is_some();
    loop {
        let mut command = command();
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| Error::os("run", command.get_program(), &error))?;
        let status = wait(&mut child, &stop, drain_timeout)?;
        if is_over() || status.signal().is_none() {
            return Ok(status);
        }
        on_restart(status);
        let due = began.elapsed() + restarts.wait(began.elapsed());
        while began.elapsed() < due && !is_over() {
            thread::sleep(CHILD_POLL_INTERVAL);
        }
        if is_over() {
            return Ok(status);
        }
        restarts.on_restart(began.elapsed());
    }
}

/// Waits for the end of the process, and forwards signals to it.
fn wait(
    child: &mut Child,
    stop: &impl Fn() -> Option<StopSignal>,
    drain_timeout: Duration,
) -> Result<ExitStatus> {
    let mut deadline: Option<Instant> = None;
    let mut is_stopped = false;
    loop {
        let ended = child.try_wait();
        if let Some(status) = ended.map_err(|error| Error::os("wait for", child.id(), &error))? {
            return Ok(status);
        }
        if let Some(signal) = stop() {
            let drains = signal == StopSignal::Terminate && !is_stopped;
            is_stopped = true;
            let wait = if drains { drain_timeout.saturating_add(STOP_WAIT) } else { STOP_WAIT };
            deadline = Instant::now().checked_add(wait);
            let signal = match signal {
                StopSignal::Terminate if drains => Signal::USR1,
                StopSignal::Terminate => Signal::TERM,
                StopSignal::Interrupt => Signal::INT,
            };
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // It has not been reaped, so the pid is still its own.
            let _ = pid.map(|pid| kill_process(pid, signal));
        } else if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let _ = child.kill();
        }
        thread::sleep(CHILD_POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: String) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn process_is_restarted_after_a_signal_and_not_after_an_exit() {
        let (starts, deaths) = (Cell::new(0), Cell::new(0));
        let command = || {
            starts.set(starts.get() + 1);
            shell(if starts.get() < 3 { "kill -SEGV $$".into() } else { "exit 7".into() })
        };
        let on_restart = |_| deaths.set(deaths.get() + 1);
        let status = supervise(command, || None, Duration::ZERO, on_restart).unwrap();
        assert_eq!((starts.get(), deaths.get(), status.code()), (3, 2, Some(7)));
    }

    #[test]
    fn process_is_terminated_when_supervision_ends() {
        let polls = Cell::new(0);
        let stop = || {
            polls.set(polls.get() + 1);
            (polls.get() == 2).then_some(StopSignal::Terminate)
        };
        let command = || shell("exec sleep 1000".into());
        let status = supervise(command, stop, Duration::ZERO, |_| panic!("nobody died")).unwrap();
        assert_eq!(status.signal(), Some(10));
    }

    #[test]
    fn every_signal_is_forwarded_and_a_process_that_exits_is_not_restarted() {
        let folder = tempfile::TempDir::new().unwrap();
        let ready = folder.path().join("ready");
        let script = "trap 'touch again' USR1; trap 'exit 3' TERM; touch ready; \
                      while :; do sleep 0.01; done";
        let command = || {
            let mut command = shell(script.into());
            command.current_dir(folder.path());
            command
        };
        let sent = Cell::new(0);
        let stop = || {
            let due = [&ready, &folder.path().join("again")].get(sent.get())?.exists();
            due.then(|| {
                sent.set(sent.get() + 1);
                StopSignal::Terminate
            })
        };
        let status = supervise(command, stop, Duration::MAX, |_| panic!("it exits")).unwrap();
        assert_eq!((sent.get(), status.code()), (2, Some(3)));
    }
}
