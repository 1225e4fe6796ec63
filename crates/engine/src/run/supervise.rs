//! Runs a worker's process and restarts it when a signal kills it (a crash, the OOM killer). A
//! process that exits by itself is not restarted.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_policy::restarts::Restarts;
use rustix::process::{Pid, Signal, kill_process};

/// How often the process is polled.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the process may take to exit after SIGTERM.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Runs a command until it exits by itself or `is_over` returns true. `on_restart` is called before
/// every restart.
pub fn supervise(
    mut command: impl FnMut() -> Command,
    is_over: impl Fn() -> bool,
    on_restart: impl Fn(ExitStatus),
) -> Result<ExitStatus> {
    let (began, mut restarts) = (Instant::now(), Restarts::default());
    loop {
        let mut command = command();
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| Error::os("run", command.get_program(), &error))?;
        let status = wait(&mut child, &is_over)?;
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

/// Waits for the end of the process, which is asked to terminate once `is_over`.
fn wait(child: &mut Child, is_over: &impl Fn() -> bool) -> Result<ExitStatus> {
    let mut deadline: Option<Instant> = None;
    loop {
        let ended = child.try_wait();
        if let Some(status) = ended.map_err(|error| Error::os("wait for", child.id(), &error))? {
            return Ok(status);
        }
        match deadline {
            None if is_over() => {
                deadline = Some(Instant::now() + STOP_WAIT);
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                // It has not been reaped, so the pid is still its own.
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            Some(deadline) if Instant::now() > deadline => {
                let _ = child.kill();
            }
            _ => {}
        }
        thread::sleep(CHILD_POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
        let status = supervise(command, || false, |_| deaths.set(deaths.get() + 1)).unwrap();
        assert_eq!((starts.get(), deaths.get(), status.code()), (3, 2, Some(7)));
    }

    #[test]
    fn process_is_terminated_when_supervision_ends() {
        let polls = Cell::new(0);
        let is_over = || {
            polls.set(polls.get() + 1);
            polls.get() > 1
        };
        let command = || shell("exec sleep 1000".into());
        let status = supervise(command, is_over, |_| panic!("nobody died")).unwrap();
        assert_eq!(status.signal(), Some(15));
    }
}
