//! One program at a worker: a process group, and the mailbox through which requests reach it.
//!
//! A thread of its own (`pump.rs`) handles the requests.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use arrow::buffer::Buffer;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::entry::{Id, LaunchOrder, Origin, ProgramEntry, ProgramState};
use crate::protocol::{Notice, WINDOW_BYTES_MAX};
use crate::usage::Usage;

type SendNotice = Arc<dyn Fn(&Notice, Vec<Buffer>) + Send + Sync>;

/// Sends notices to the master of a launch, or to one that has asked about programs.
///
/// ```
/// use euphrates_launch::{Notice, ToMaster};
/// use std::sync::mpsc::channel;
///
/// let (sender, notices) = channel();
/// let master = ToMaster::new(move |notice: &Notice, body| {
///     sender.send((format!("{notice:?}"), body.len())).unwrap();
/// });
/// master.send(&Notice::Started, vec![]);
/// assert_eq!(notices.recv().unwrap(), ("Started".to_string(), 0));
/// ```
#[derive(Clone)]
pub struct ToMaster(SendNotice);

impl ToMaster {
    /// Sends by calling this function, which must not wait.
    pub fn new(send: impl Fn(&Notice, Vec<Buffer>) + Send + Sync + 'static) -> ToMaster {
        ToMaster(Arc::new(send))
    }

    /// Sends a notice with its body.
    pub fn send(&self, notice: &Notice, body: Vec<Buffer>) {
        (self.0)(notice, body);
    }
}

/// A program that was started here.
pub struct Program {
    pub id: Id,
    pub is_detached: bool,
    /// The session of the master that has started it.
    pub master: u64,
    what: String,
    origin: Origin,
    began: Instant,
    pub group: Pid,
    pub requests: Mutex<Requests>,
    /// Readable when there are unhandled requests.
    pub bell: OwnedFd,
}

/// Requests that the program's thread has not handled.
pub struct Requests {
    pub state: ProgramState,
    /// Bytes of output that it may still send.
    pub allowed_bytes: usize,
    /// Input to be written; an empty buffer closes it.
    pub input: VecDeque<Buffer>,
    /// Bytes of input that it has not read.
    pub fed_bytes: usize,
    pub stop: Option<Stop>,
    /// Masters to be notified of its end.
    pub killers: Vec<ToMaster>,
}

/// How a program is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// By an interrupt, and after a grace period by force.
    Interrupt,
    /// By force at once.
    Kill,
    /// By force at once, without a notice to its master.
    Forget,
}

impl Program {
    /// A started program, whose process leads this group. `bell` is an event descriptor.
    pub fn new(
        order: &LaunchOrder,
        identity: ProgramIdentity<'_>,
        group: Pid,
        bell: OwnedFd,
    ) -> Program {
        Program {
            id: identity.id,
            is_detached: order.is_detached,
            master: identity.master,
            what: order.line(),
            origin: identity.origin.clone(),
            began: Instant::now(),
            group,
            requests: Mutex::new(Requests {
                state: ProgramState::Running,
                allowed_bytes: WINDOW_BYTES_MAX,
                input: VecDeque::new(),
                fed_bytes: 0,
                stop: None,
                killers: vec![],
            }),
            bell,
        }
    }

    /// The number of its process group, which is that of its first process.
    pub fn group_number(&self) -> u32 {
        self.group.as_raw_nonzero().get().cast_unsigned()
    }

    /// Its entry in a list.
    pub fn entry(&self, usage: Usage) -> ProgramEntry {
        ProgramEntry {
            id: self.id,
            worker: String::new(),
            is_flow: false,
            what: self.what.clone(),
            state: self.requests.lock().state,
            origin: self.origin.clone(),
            pid: Some(self.group_number()),
            seconds: self.began.elapsed().as_secs_f64(),
            cpu_seconds: usage.cpu.as_secs_f64(),
            memory_bytes: Some(usage.memory_bytes),
        }
    }

    /// Extends the window of its output.
    pub fn allow(&self, bytes: usize) {
        // More than a window can only be a mistake of the master.
        self.post(|requests| {
            requests.allowed_bytes =
                requests.allowed_bytes.saturating_add(bytes).min(WINDOW_BYTES_MAX);
        });
    }

    /// Adds input; an empty buffer closes it.
    pub fn feed(&self, body: Buffer) {
        self.post(|requests| {
            // More than a window can only be a mistake of the master.
            if requests.fed_bytes + body.len() <= WINDOW_BYTES_MAX {
                requests.fed_bytes += body.len();
                requests.input.push_back(body);
            }
        });
    }

    /// Stops it in this way.
    pub fn stop(&self, how: Stop) {
        self.post(|requests| requests.ask(how));
    }

    /// Stops it and notifies the killer of its end; returns false if it has already ended.
    pub fn kill(&self, how: Stop, killer: ToMaster) -> bool {
        let mut requests = self.requests.lock();
        if requests.state == ProgramState::Ended {
            return false;
        }
        requests.killers.push(killer);
        drop(requests);
        self.stop(how);
        true
    }

    fn post(&self, write: impl FnOnce(&mut Requests)) {
        write(&mut self.requests.lock());
        // The counter saturates, and the descriptor stays readable.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// The identity of a program to be started.
pub struct ProgramIdentity<'a> {
    pub id: Id,
    pub master: u64,
    pub origin: &'a Origin,
    /// Environment variables besides the worker's and the order's.
    pub env: Vec<(&'static str, String)>,
}

impl Requests {
    fn ask(&mut self, how: Stop) {
        self.stop = self.stop.max(Some(how));
        if self.state == ProgramState::Running {
            self.state = ProgramState::Stopping;
        }
    }
}

/// Kills a process group whose first process was not reaped.
pub fn kill_group(group: Pid) {
    // The group may be empty.
    let _ = kill_process_group(group, Signal::KILL);
}
