//! No program outlives its worker, however that ends.
//!
//! A worker that is killed outright can do nothing more, so a shell waits beside it from its first
//! launch on, and reads. It is told of every process group that begins and ends; when there is
//! nothing more to read, the worker is gone, and it kills the groups that are left. Whatever has
//! left its group (a daemon does) is known by a word in its environment. Nothing slips between: a
//! child on its way from the worker to its program holds the other end of the pipe until it is its
//! program, with its environment.
//!
//! The system's own notice of a parent's death (`PR_SET_PDEATHSIG`) would reach the first process
//! only, and would need a fork of the whole worker for each.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

use crate::cluster::Secret;

/// The variable whose value all that one worker has launched share, and nothing else.
pub const VARIABLE: &str = "EUPHRATES_LAUNCHED_BY";
const SHELL: &str = "/bin/sh";
/// Three rounds: what is killed may have been about to start something.
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

/// What sees to it.
pub struct Guard {
    word: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: BTreeSet<u32>,
    shell: Option<Child>,
}

impl Guard {
    /// Nothing is started yet.
    pub fn new() -> Result<Guard> {
        Ok(Guard { word: Secret::random()?.to_text(), state: Mutex::default() })
    }

    /// What is to be in the environment of everything that is launched.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Stands by, before a program starts.
    pub fn stand_by(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.shell.is_none() {
            state.shell = Some(start(&self.word)?);
        }
        Ok(())
    }

    /// A group has begun.
    pub fn begin(&self, group: u32) -> Result<()> {
        let mut state = self.state.lock();
        state.groups.insert(group);
        state.tell("+", group).or_else(|_| state.replace(&self.word))
    }

    /// A group has been killed; its number may soon be somebody else's.
    pub fn end(&self, group: u32) {
        let mut state = self.state.lock();
        state.groups.remove(&group);
        // If nobody listens, the next group finds that out.
        let _ = state.tell("-", group);
    }

    /// Has everything killed that is left, and waits for that.
    pub fn close(&self) {
        if let Some(shell) = self.state.lock().shell.take() {
            finish(shell);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn tell(&mut self, sign: &str, group: u32) -> io::Result<()> {
        let stdin = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        let stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{sign} {group}\n").as_bytes())
    }

    /// Somebody has killed the shell.
    fn replace(&mut self, word: &str) -> Result<()> {
        if let Some(shell) = self.shell.take() {
            finish(shell);
        }
        self.shell = Some(start(word)?);
        let groups: Vec<u32> = self.groups.iter().copied().collect();
        let told = groups.into_iter().try_for_each(|group| self.tell("+", group));
        told.map_err(|error| Error::os("write to", SHELL, &error))
    }
}

fn start(word: &str) -> Result<Child> {
    let mut command = Command::new(SHELL);
    command.args(["-c", SCRIPT, "guard", &format!("{VARIABLE}={word}")]);
    // A worker may have been launched itself: what guards it must not go with it.
    command.env_remove(VARIABLE).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| Error::os("run", SHELL, &error))
}

fn finish(mut shell: Child) {
    drop(shell.stdin.take());
    // It reads the end, and ends.
    let _ = shell.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(word: Option<&Guard>) -> Child {
        let mut command = Command::new("sleep");
        command.envs(word.map(|guard| (VARIABLE, guard.word())));
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn groups_that_are_left_are_killed_and_so_is_whoever_has_the_word() {
        let guard = Guard::new().unwrap();
        guard.stand_by().unwrap();
        let (mut left, mut over) = (sleeping(None), sleeping(None));
        let mut escaped = sleeping(Some(&guard));
        guard.begin(left.id()).unwrap();
        guard.begin(over.id()).unwrap();
        guard.end(over.id());
        guard.close();
        assert!(!left.wait().unwrap().success() && !escaped.wait().unwrap().success());
        assert!(over.try_wait().unwrap().is_none(), "it has been told that this is over");
        over.kill().unwrap();
        over.wait().unwrap();
    }

    #[test]
    fn a_guard_that_is_killed_is_replaced_and_knows_what_it_knew() {
        let guard = Guard::new().unwrap();
        guard.stand_by().unwrap();
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
