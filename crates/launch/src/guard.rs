//! Kills the programs of a worker when the worker exits, also by `SIGKILL`.
//!
//! A killed worker cannot clean up, so from its first launch on a separate shell process reads a
//! pipe from the worker. The worker writes each start and end of a process group to the pipe. At
//! the end of the pipe the worker has exited, and the shell kills the groups that are left.
//! Processes that have left their group, such as daemons, are found by a variable in their
//! environment. There is no gap: a child between fork and exec holds the other end of the pipe
//! until it runs its program with its environment.
//!
//! The system's own notification (`PR_SET_PDEATHSIG`) would reach only the first process of a
//! program, and would need a fork of the whole worker for each.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

/// The environment variable whose value marks all programs started by one worker.
pub const VARIABLE: &str = "EUPHRATES_LAUNCHED_BY";
const SHELL: &str = "/bin/sh";
/// Three rounds: a killed process may just have started another.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
    for file in $(grep -ls "$1" /proc/[0-9]*/environ); do
        file=${file%/environ}
        kill -s KILL "${file#/proc/}"
    done
done
"#;

/// The guard of one worker.
pub struct WorkerGuard {
    word: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: BTreeSet<u32>,
    shell: Option<Child>,
}

impl WorkerGuard {
    /// A guard that has not started its shell. `word` must be unique to this worker.
    pub fn new(word: String) -> WorkerGuard {
        WorkerGuard { word, state: Mutex::default() }
    }

    /// The value of `VARIABLE` for all programs.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Starts the shell if it does not run; to be called before a program starts.
    pub fn ensure_running(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.shell.is_none() {
            state.shell = Some(start(&self.word)?);
        }
        Ok(())
    }

    /// Adds a process group.
    pub fn begin(&self, group: u32) -> Result<()> {
        let mut state = self.state.lock();
        state.groups.insert(group);
        state.send("+", group).or_else(|_| state.replace(&self.word))
    }

    /// Removes a group that was killed; its number may soon be used again.
    pub fn end(&self, group: u32) {
        let mut state = self.state.lock();
        state.groups.remove(&group);
        // If the shell is dead, the next `begin` detects that.
        let _ = state.send("-", group);
    }

    /// Kills everything that is left, and waits for that.
    pub fn close(&self) {
        if let Some(shell) = self.state.lock().shell.take() {
            finish(shell);
        }
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn send(&mut self, sign: &str, group: u32) -> io::Result<()> {
        let stdin = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        let stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{sign} {group}\n").as_bytes())
    }

    /// Starts another shell after the first was killed.
    fn replace(&mut self, word: &str) -> Result<()> {
        if let Some(shell) = self.shell.take() {
            finish(shell);
        }
        self.shell = Some(start(word)?);
        let groups: Vec<u32> = self.groups.iter().copied().collect();
        let sent = groups.into_iter().try_for_each(|group| self.send("+", group));
        sent.map_err(|error| Error::os("write to", SHELL, &error))
    }
}

fn start(word: &str) -> Result<Child> {
    let mut command = Command::new(SHELL);
    command.args(["-c", SCRIPT, "guard", &format!("{VARIABLE}={word}")]);
    // This worker may be a launched program itself; its guard must not be killed with it.
    command.env_remove(VARIABLE).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| Error::os("run", SHELL, &error))
}

fn finish(mut shell: Child) {
    drop(shell.stdin.take());
    // The shell exits at the end of its input.
    let _ = shell.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(word: Option<&WorkerGuard>) -> Child {
        let mut command = Command::new("sleep");
        command.envs(word.map(|guard| (VARIABLE, guard.word())));
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn remaining_groups_and_marked_processes_are_killed() {
        let guard = WorkerGuard::new(format!("groups-{}", std::process::id()));
        guard.ensure_running().unwrap();
        let (mut left, mut over) = (sleeping(None), sleeping(None));
        let mut escaped = sleeping(Some(&guard));
        guard.begin(left.id()).unwrap();
        guard.begin(over.id()).unwrap();
        guard.end(over.id());
        guard.close();
        assert!(!left.wait().unwrap().success() && !escaped.wait().unwrap().success());
        assert!(over.try_wait().unwrap().is_none(), "its group was removed");
        over.kill().unwrap();
        over.wait().unwrap();
    }

    #[test]
    fn killed_guard_is_replaced_with_its_groups() {
        let guard = WorkerGuard::new(format!("replaced-{}", std::process::id()));
        guard.ensure_running().unwrap();
        let (mut before, mut after) = (sleeping(None), sleeping(None));
        guard.begin(before.id()).unwrap();
        {
            let mut state = guard.state.lock();
            let shell = state.shell.as_mut().unwrap();
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
        guard.begin(after.id()).unwrap();
        guard.close();
        assert!(!before.wait().unwrap().success() && !after.wait().unwrap().success());
    }
}
