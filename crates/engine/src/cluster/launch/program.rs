//! One program at a worker: a process group, as others there see it.
//!
//! What is done with it is done by a thread of its own (`pump.rs`), to which everybody else writes.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::pump::Pump;
use super::{Entry, Id, Order, Origin, State, Tell, WINDOW_BYTES_MAX};
use crate::cluster::sender::ControlSender;
use crate::machine::Usage;

/// To the master of a launch, or whoever asks about programs.
pub type ToMaster = ControlSender<Tell>;

/// A program, as others at its worker see it.
pub struct Program {
    pub id: Id,
    pub is_detached: bool,
    /// The master that it goes with, by the table's number.
    pub master: u64,
    what: String,
    origin: Origin,
    began: Instant,
    pub group: Pid,
    mail: Mutex<Mail>,
    /// Readable when there is mail.
    pub bell: OwnedFd,
}

/// What others want of it.
pub struct Mail {
    pub state: State,
    /// More that it may write.
    pub allowed_bytes: usize,
    /// What it is to read; an empty one is the end.
    pub input: VecDeque<Buffer>,
    /// What has been fed and not read.
    pub fed_bytes: usize,
    pub stop: Option<Stop>,
    /// Who wants to hear that it is gone.
    pub killers: Vec<ToMaster>,
}

/// How it is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// An interrupt, and when that has not helped for a while, an end.
    Word,
    /// At once.
    Kill,
    /// At once; and nobody is left who would hear of it.
    Forget,
}

/// Whose program it is, and where.
pub struct Place<'a> {
    pub id: Id,
    pub master: u64,
    pub origin: &'a Origin,
    /// What is in its environment besides the worker's and the order's variables.
    pub env: Vec<(&'static str, String)>,
}

impl Program {
    /// Starts it. The pump is to be run on a thread of its own.
    pub fn start(order: &Order, place: Place, master: ToMaster) -> Result<(Arc<Program>, Pump)> {
        let mut child = spawn(order, place.env)?;
        let set_up = || -> std::io::Result<(OwnedFd, OwnedFd, Pid)> {
            let pid = Pid::from_child(&child);
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok((bell, pidfd_open(pid, PidfdFlags::empty())?, pid))
        };
        let (bell, leader, group) = set_up().map_err(|error| {
            kill_group(Pid::from_child(&child));
            // It has been killed: there is nothing to wait long for.
            let _ = child.wait();
            Error::os("follow", &order.program, &error)
        })?;
        let program = Arc::new(Program {
            id: place.id,
            is_detached: order.is_detached,
            master: place.master,
            what: order.line(),
            origin: place.origin.clone(),
            began: Instant::now(),
            group,
            mail: Mutex::new(Mail {
                state: State::Running,
                allowed_bytes: WINDOW_BYTES_MAX,
                input: VecDeque::new(),
                fed_bytes: 0,
                stop: None,
                killers: vec![],
            }),
            bell,
        });
        let pump = Pump::new(program.clone(), child, leader, master)?;
        Ok((program, pump))
    }

    /// The number of its process group, and of the first process there.
    pub fn group_number(&self) -> u32 {
        self.group.as_raw_nonzero().get().cast_unsigned()
    }

    /// As a list shows it.
    pub fn entry(&self, usage: Usage) -> Entry {
        Entry {
            id: self.id,
            worker: String::new(),
            is_flow: false,
            what: self.what.clone(),
            state: self.lock().state,
            origin: self.origin.clone(),
            pid: Some(self.group_number()),
            seconds: self.began.elapsed().as_secs_f64(),
            cpu_seconds: usage.cpu.as_secs_f64(),
            memory_bytes: Some(usage.memory_bytes),
        }
    }

    /// It may write more.
    pub fn allow(&self, bytes: usize) {
        // A master that allows more than there can be on the way has lost count.
        self.post(|mail| {
            mail.allowed_bytes = mail.allowed_bytes.saturating_add(bytes).min(WINDOW_BYTES_MAX);
        });
    }

    /// It is to read this.
    pub fn feed(&self, body: Buffer) {
        self.post(|mail| {
            // A master that sends more than there can be on the way has lost count.
            if mail.fed_bytes + body.len() <= WINDOW_BYTES_MAX {
                mail.fed_bytes += body.len();
                mail.input.push_back(body);
            }
        });
    }

    /// It is to stop.
    pub fn stop(&self, how: Stop) {
        self.post(|mail| mail.ask(how));
    }

    /// It is to stop, and somebody wants to hear how that went; `false` if it has already ended.
    pub fn kill(&self, how: Stop, killer: ToMaster) -> bool {
        let mut mail = self.lock();
        if mail.state == State::Ended {
            return false;
        }
        mail.killers.push(killer);
        drop(mail);
        self.stop(how);
        true
    }

    fn post(&self, write: impl FnOnce(&mut Mail)) {
        write(&mut self.lock());
        // A bell that has been rung too often still rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock()
    }
}

impl Mail {
    fn ask(&mut self, how: Stop) {
        self.stop = self.stop.max(Some(how));
        if self.state == State::Running {
            self.state = State::Stopping;
        }
    }
}

fn spawn(order: &Order, env: Vec<(&'static str, String)>) -> Result<Child> {
    if let Some(cwd) = order.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("no folder {cwd:?} to work in");
        return Err(Error::usage(message).remedy("give one that exists on every worker"));
    }
    let piped = |is_piped: bool| if is_piped { Stdio::piped() } else { Stdio::null() };
    // No code of ours runs in the child, so that the system need not copy the worker for it.
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).envs(&order.env).envs(env).process_group(0);
    command.stdin(piped(order.has_stdin && !order.is_detached));
    command.stdout(piped(!order.is_detached)).stderr(piped(!order.is_detached));
    if let Some(cwd) = &order.cwd {
        command.current_dir(cwd);
    }
    command.spawn().map_err(|error| {
        let program = &order.program;
        match error.kind() {
            ErrorKind::NotFound => Error::usage(format!("no program `{program}`"))
                .remedy("install it on every worker, or give its whole path there"),
            ErrorKind::PermissionDenied => Error::usage(format!("`{program}` may not be run"))
                .remedy("check the owner and the mode of the file"),
            ErrorKind::InvalidInput => Error::usage(format!("`{program}` cannot be run: {error}"))
                .remedy("leave out zero bytes"),
            ErrorKind::ArgumentListTooLong => {
                Error::usage(format!("`{program}` cannot be run: {error}"))
                    .remedy("give fewer or shorter arguments")
            }
            _ => Error::resource(format!("`{program}` cannot be run: {error}")),
        }
    })
}

/// Ends all that is left of a group, whose first process has not been buried.
pub fn kill_group(group: Pid) {
    // None of them may be left.
    let _ = kill_process_group(group, Signal::KILL);
}
