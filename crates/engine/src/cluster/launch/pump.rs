//! The thread of a program: it carries what the program writes and reads, stops it when it is told
//! to, and buries it.
//!
//! It alone signals the group, and only before it buries the group's first process: until then
//! nobody else can have its number.

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

use super::program::{Program, Stop, ToMaster, kill_group};
use super::{CHUNK_BYTES_MAX, End, STOP_GRACE, State, Stream, Tell};

/// What the thread works with. Without a thread, the program ends.
pub struct Pump {
    program: Arc<Program>,
    child: Child,
    /// Readable when the first process has ended.
    leader: OwnedFd,
    master: ToMaster,
    outputs: Vec<(Stream, OwnedFd)>,
    stdin: Option<OwnedFd>,
    /// What is to be read by it, and how much of the first has been.
    input: VecDeque<Buffer>,
    read_bytes: usize,
    allowed_bytes: usize,
    /// How it has been told to stop, and when it is ended if that does not help.
    stopping: Option<Stop>,
    deadline: Option<Instant>,
    end: Option<End>,
    /// Who wants to hear that it is gone.
    killers: Vec<ToMaster>,
    chunk: Vec<u8>,
}

/// What a descriptor that is ready stands for.
#[derive(Clone, Copy)]
enum Ready {
    Bell,
    Leader,
    Output(Stream),
    Input,
}

impl Pump {
    /// For a program that has been started.
    pub fn new(
        program: Arc<Program>,
        mut child: Child,
        leader: OwnedFd,
        master: ToMaster,
    ) -> Result<Pump> {
        let stdout = child.stdout.take().map(|pipe| (Stream::Stdout, OwnedFd::from(pipe)));
        let stderr = child.stderr.take().map(|pipe| (Stream::Stderr, OwnedFd::from(pipe)));
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

    /// Until the program is no more and all that it wrote has been told; `on_killed` is called
    /// between its end and its burial.
    pub fn run(&mut self, on_killed: impl Fn()) {
        loop {
            self.read_mail();
            let is_forgotten = self.stopping == Some(Stop::Forget);
            if self.end.is_some() && (self.outputs.is_empty() || is_forgotten) {
                break;
            }
            for ready in self.wait() {
                match ready {
                    Ready::Bell => self.answer_bell(),
                    Ready::Leader => self.bury(&on_killed),
                    Ready::Output(stream) => self.carry(stream),
                    Ready::Input => self.feed(),
                }
            }
            if self.end.is_some() && self.allowed_bytes == 0 {
                // Nobody knows when the rest will be read.
                self.tell_killers();
            }
        }
    }

    /// Tells that it is over: last, so that whoever has heard of it finds it in no list any more.
    pub fn say_goodbye(&mut self) {
        self.tell_killers();
        let Some(end) = self.end.clone() else { return };
        self.master.send(&Tell::Ended { rank: self.program.id.rank.unwrap_or(0), end }, vec![]);
    }

    fn tell_killers(&mut self) {
        for killer in self.killers.drain(..) {
            let entry = Box::new(self.program.entry(Default::default()));
            killer.send(&Tell::Killed { entry, end: self.end.clone() }, vec![]);
        }
    }

    /// What others want by now.
    fn read_mail(&mut self) {
        let mut mail = self.program.lock();
        self.input.append(&mut mail.input);
        self.allowed_bytes = mail.allowed_bytes;
        let stop = mail.stop;
        drop(mail);
        if self.stdin.is_none() {
            self.throw_away();
        }
        if stop > self.stopping {
            self.stopping = stop;
            match stop {
                Some(Stop::Word) => {
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
            // Its first process has not been buried, so the group is there.
            let _ = kill_process_group(self.program.group, signal);
        }
    }

    /// What there is to do. Once the program has ended, its pipes are emptied without waiting: what
    /// has left its group may hold them open for ever.
    fn wait(&self) -> Vec<Ready> {
        let has_ended = self.end.is_some();
        let mut waits: Vec<(Ready, BorrowedFd, PollFlags)> =
            vec![(Ready::Bell, self.program.bell.as_fd(), PollFlags::IN)];
        if !has_ended {
            waits.push((Ready::Leader, self.leader.as_fd(), PollFlags::IN));
        }
        if self.allowed_bytes > 0 {
            let outputs = self.outputs.iter();
            waits.extend(
                outputs.map(|(at, pipe)| (Ready::Output(*at), pipe.as_fd(), PollFlags::IN)),
            );
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.input.is_empty()) {
            waits.push((Ready::Input, stdin.as_fd(), PollFlags::OUT));
        }
        let drains = has_ended && self.allowed_bytes > 0;
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = if drains { Some(Duration::ZERO) } else { left };
        // A little more, so that the deadline has passed.
        let more = |left: Duration| if drains { left } else { left + Duration::from_millis(1) };
        let left = left.and_then(|left| Timespec::try_from(more(left)).ok());
        let mut polled: Vec<PollFd> =
            waits.iter().map(|(_, pipe, flags)| PollFd::from_borrowed_fd(*pipe, *flags)).collect();
        // Who is interrupted looks again.
        let _ = poll(&mut polled, left.as_ref());
        let ready = waits.iter().zip(&polled).filter(|((what, ..), polled)| {
            !polled.revents().is_empty() || (drains && matches!(what, Ready::Output(_)))
        });
        ready.map(|((what, ..), _)| *what).collect()
    }

    fn answer_bell(&self) {
        // Whatever number it has been rung.
        let _ = read(&self.program.bell, &mut [0; 8]);
    }

    /// The first process has ended: with it, all that it has left in its group.
    fn bury(&mut self, on_killed: &impl Fn()) {
        kill_group(self.program.group);
        on_killed();
        let end = match self.child.wait() {
            Ok(status) => {
                status.code().map_or_else(|| End::Killed(status.signal().unwrap_or(0)), End::Exited)
            }
            Err(error) => End::Lost(Error::os("wait for", "a program", &error)),
        };
        (self.stdin, self.deadline) = (None, None);
        self.end = Some(end);
        let mut mail = self.program.lock();
        mail.state = State::Ended;
        self.killers.append(&mut mail.killers);
    }

    /// Tells what has been written, as much as may be told.
    fn carry(&mut self, stream: Stream) {
        let Some(at) = self.outputs.iter().position(|(known, _)| *known == stream) else { return };
        let bytes_max = self.allowed_bytes.min(CHUNK_BYTES_MAX);
        if bytes_max == 0 {
            return;
        }
        match read(&self.outputs[at].1, &mut self.chunk[..bytes_max]) {
            Ok(0) => drop(self.outputs.remove(at)),
            Ok(bytes) => {
                self.allowed_bytes -= bytes;
                self.program.lock().allowed_bytes -= bytes;
                let rank = self.program.id.rank.unwrap_or(0);
                let body = Buffer::from(&self.chunk[..bytes]);
                self.master.send(&Tell::Wrote { rank, stream }, vec![body]);
            }
            Err(Errno::AGAIN) if self.end.is_some() => drop(self.outputs.remove(at)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => drop(self.outputs.remove(at)),
        }
    }

    /// Has it read what it is to read.
    fn feed(&mut self) {
        let (Some(stdin), Some(first)) = (&self.stdin, self.input.front()) else { return };
        if first.is_empty() {
            self.stdin = None;
            self.throw_away();
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
            // It does not want to read any more.
            Err(_) => {
                self.stdin = None;
                self.throw_away();
            }
        }
    }

    /// Nobody reads any more; others may, and are not to wait for this one.
    fn throw_away(&mut self) {
        let all: usize = self.input.drain(..).map(|body| body.len()).sum();
        if all > self.read_bytes {
            self.has_read(all - self.read_bytes);
        }
        self.read_bytes = 0;
    }

    fn has_read(&self, bytes: usize) {
        let rank = self.program.id.rank.unwrap_or(0);
        self.program.lock().fed_bytes -= bytes;
        self.master.send(&Tell::Read { rank, bytes }, vec![]);
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.end.is_none() {
            kill_group(self.program.group);
            // It has been killed: there is nothing to wait long for.
            let _ = self.child.wait();
        }
    }
}
