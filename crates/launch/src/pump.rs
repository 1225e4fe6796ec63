//! The thread of a program: forwards its standard streams, stops it on request, and reaps it.
//!
//! Only this thread signals the process group, and only before it reaps the group's first process:
//! until then the number cannot be used again.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::process::{Signal, kill_process_group};

use crate::entry::{OutputStream, ProgramEnd, ProgramState};
use crate::program::{Program, Stop, ToMaster, kill_group};
use crate::protocol::{CHUNK_BYTES_MAX, Notice, STOP_GRACE};

/// The state of the thread. Dropped before the end of the program, it kills the program.
pub struct Pump {
    program: Arc<Program>,
    child: Child,
    /// Readable when the first process has ended.
    leader: OwnedFd,
    master: ToMaster,
    outputs: Vec<(OutputStream, OwnedFd)>,
    stdin: Option<OwnedFd>,
    /// Input to be written, and how much of the first buffer is written.
    input: VecDeque<Buffer>,
    read_bytes: usize,
    allowed_bytes: usize,
    /// How the program was asked to stop, and when it is killed if it does not.
    stopping: Option<Stop>,
    deadline: Option<Instant>,
    end: Option<ProgramEnd>,
    /// Masters to be notified of the end.
    killers: Vec<ToMaster>,
    chunk: Vec<u8>,
}

/// A descriptor that is ready.
#[derive(Clone, Copy)]
enum ReadyDescriptor {
    Bell,
    Leader,
    Output(OutputStream),
    Input,
}

impl Pump {
    /// The pump of a started program.
    pub fn new(
        program: Arc<Program>,
        mut child: Child,
        leader: OwnedFd,
        master: ToMaster,
    ) -> Result<Pump> {
        let stdout = child.stdout.take().map(|pipe| (OutputStream::Stdout, OwnedFd::from(pipe)));
        let stderr = child.stderr.take().map(|pipe| (OutputStream::Stderr, OwnedFd::from(pipe)));
        let stdin = child.stdin.take().map(OwnedFd::from);
        let outputs: Vec<_> = stdout.into_iter().chain(stderr).collect();
        let pipes = outputs.iter().map(|(_, pipe)| pipe).chain(&stdin);
        let set = pipes.map(|pipe| ioctl_fionbio(pipe, true)).collect::<Result<Vec<()>, _>>();
        let pump = Pump {
            program,
            child,
            leader,
            master,
            outputs,
            stdin,
            input: VecDeque::new(),
            read_bytes: 0,
            allowed_bytes: 0,
            stopping: None,
            deadline: None,
            end: None,
            killers: vec![],
            chunk: vec![0; CHUNK_BYTES_MAX],
        };
        set.map(|_| pump).map_err(|error| Error::os("set up", "a pipe", &error.into()))
    }

    /// Runs until the program has ended and all its output is sent. `on_killed` is called between
    /// its end and its reaping.
    pub fn run(&mut self, on_killed: impl Fn()) {
        loop {
            self.read_requests();
            let is_forgotten = self.stopping == Some(Stop::Forget);
            if self.end.is_some() && (self.outputs.is_empty() || is_forgotten) {
                break;
            }
            for ready in self.wait() {
                match ready {
                    ReadyDescriptor::Bell => self.clear_bell(),
                    ReadyDescriptor::Leader => self.reap(&on_killed),
                    ReadyDescriptor::Output(stream) => self.forward(stream),
                    ReadyDescriptor::Input => self.feed(),
                }
            }
            if self.end.is_some() && self.allowed_bytes == 0 {
                // The rest of the output may never be read.
                self.notify_killers();
            }
        }
    }

    /// Sends the notices of the end. Called last, so that a master that has received one does not
    /// find the program in a list any more.
    pub fn notify_exit(&mut self) {
        self.notify_killers();
        let Some(end) = self.end.clone() else { return };
        self.master.send(&Notice::Ended { rank: self.program.id.rank.unwrap_or(0), end }, vec![]);
    }

    fn notify_killers(&mut self) {
        for killer in self.killers.drain(..) {
            let entry = Box::new(self.program.entry(Default::default()));
            killer.send(&Notice::Killed { entry, end: self.end.clone() }, vec![]);
        }
    }

    /// Handles requests that came since the last call.
    fn read_requests(&mut self) {
        let mut requests = self.program.requests.lock();
        self.input.append(&mut requests.input);
        self.allowed_bytes = requests.allowed_bytes;
        let stop = requests.stop;
        drop(requests);
        if self.stdin.is_none() {
            self.discard_input();
        }
        if stop > self.stopping {
            self.stopping = stop;
            match stop {
                Some(Stop::Interrupt) => {
                    self.signal(Signal::INT);
                    self.deadline = Some(Instant::now() + STOP_GRACE);
                }
                _ => self.signal(Signal::KILL),
            }
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.deadline = None;
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if self.end.is_none() {
            // The first process was not reaped, so the group exists.
            let _ = kill_process_group(self.program.group, signal);
        }
    }

    /// Waits for descriptors. Once the program has ended, its pipes are drained without waiting: a
    /// process that has left the group may hold them open for ever.
    fn wait(&self) -> Vec<ReadyDescriptor> {
        let has_ended = self.end.is_some();
        let mut waits: Vec<(ReadyDescriptor, BorrowedFd, PollFlags)> =
            vec![(ReadyDescriptor::Bell, self.program.bell.as_fd(), PollFlags::IN)];
        if !has_ended {
            waits.push((ReadyDescriptor::Leader, self.leader.as_fd(), PollFlags::IN));
        }
        if self.allowed_bytes > 0 {
            let outputs = self.outputs.iter();
            waits.extend(
                outputs
                    .map(|(at, pipe)| (ReadyDescriptor::Output(*at), pipe.as_fd(), PollFlags::IN)),
            );
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.input.is_empty()) {
            waits.push((ReadyDescriptor::Input, stdin.as_fd(), PollFlags::OUT));
        }
        let drains = has_ended && self.allowed_bytes > 0;
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = if drains { Some(Duration::ZERO) } else { left };
        // A little longer, so that the deadline has passed.
        let more = |left: Duration| if drains { left } else { left + Duration::from_millis(1) };
        let left = left.and_then(|left| Timespec::try_from(more(left)).ok());
        let mut polled: Vec<PollFd> =
            waits.iter().map(|(_, pipe, flags)| PollFd::from_borrowed_fd(*pipe, *flags)).collect();
        // After an interruption the loop polls again.
        let _ = poll(&mut polled, left.as_ref());
        let ready = waits.iter().zip(&polled).filter(|((what, ..), polled)| {
            !polled.revents().is_empty() || (drains && matches!(what, ReadyDescriptor::Output(_)))
        });
        ready.map(|((what, ..), _)| *what).collect()
    }

    fn clear_bell(&self) {
        // The value of the counter does not matter.
        let _ = read(&self.program.bell, &mut [0; 8]);
    }

    /// The first process has ended: kills the rest of its group, and reaps it.
    fn reap(&mut self, on_killed: &impl Fn()) {
        kill_group(self.program.group);
        on_killed();
        let end = match self.child.wait() {
            Ok(status) => status.code().map_or_else(
                || ProgramEnd::Killed(status.signal().unwrap_or(0)),
                ProgramEnd::Exited,
            ),
            Err(error) => ProgramEnd::Lost(Error::os("wait for", "a program", &error)),
        };
        (self.stdin, self.deadline) = (None, None);
        self.end = Some(end);
        let mut requests = self.program.requests.lock();
        requests.state = ProgramState::Ended;
        self.killers.append(&mut requests.killers);
    }

    /// Sends output of a stream, within the window.
    fn forward(&mut self, stream: OutputStream) {
        let Some(at) = self.outputs.iter().position(|(known, _)| *known == stream) else { return };
        let bytes_max = self.allowed_bytes.min(CHUNK_BYTES_MAX);
        if bytes_max == 0 {
            return;
        }
        match read(&self.outputs[at].1, &mut self.chunk[..bytes_max]) {
            Ok(0) => drop(self.outputs.remove(at)),
            Ok(bytes) => {
                self.allowed_bytes -= bytes;
                self.program.requests.lock().allowed_bytes -= bytes;
                let rank = self.program.id.rank.unwrap_or(0);
                let body = Buffer::from(&self.chunk[..bytes]);
                self.master.send(&Notice::Wrote { rank, stream }, vec![body]);
            }
            Err(Errno::AGAIN) if self.end.is_some() => drop(self.outputs.remove(at)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => drop(self.outputs.remove(at)),
        }
    }

    /// Writes input to the program.
    fn feed(&mut self) {
        let (Some(stdin), Some(first)) = (&self.stdin, self.input.front()) else { return };
        if first.is_empty() {
            self.stdin = None;
            self.discard_input();
            return;
        }
        match write(stdin, &first[self.read_bytes..]) {
            Ok(bytes) => {
                self.read_bytes += bytes;
                self.has_read(bytes);
                if self.read_bytes == first.len() {
                    self.input.pop_front();
                    self.read_bytes = 0;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The program has closed its input.
            Err(_) => {
                self.stdin = None;
                self.discard_input();
            }
        }
    }

    /// Discards input that will not be read, so that it does not hold up other programs of the
    /// launch.
    fn discard_input(&mut self) {
        let all: usize = self.input.drain(..).map(|body| body.len()).sum();
        if all > self.read_bytes {
            self.has_read(all - self.read_bytes);
        }
        self.read_bytes = 0;
    }

    fn has_read(&self, bytes: usize) {
        let rank = self.program.id.rank.unwrap_or(0);
        self.program.requests.lock().fed_bytes -= bytes;
        self.master.send(&Notice::Read { rank, bytes }, vec![]);
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.end.is_none() {
            kill_group(self.program.group);
            // It was killed, so this returns soon.
            let _ = self.child.wait();
        }
    }
}
