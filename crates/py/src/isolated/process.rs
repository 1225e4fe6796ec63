//! The worker's handle of a child process that runs user code: start, send, receive and reap. Idle
//! processes are pooled, because starting Python takes longer than most work.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use euphrates_engine::machine;
use euphrates_flow::{Cancel, Error, Result};
use euphrates_wire::{Caps, Frame, FrameReceiver, FrameSender};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::messages::{self, ChildMessage, Codec, WorkerMessage};
use crate::programs::{isolated_command, worker_environment};

/// Poll interval of the cancel switch while user code computes.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long user code may take to return after a cancel. Masters wait a little longer.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest time between two parts of one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// A child process and its socket.
pub struct Process {
    child: Child,
    sender: FrameSender<UnixStream>,
    receiver: FrameReceiver<UnixStream>,
    socket: UnixStream,
    /// A pidfd, readable when the process has ended: the socket may be held open by a grandchild.
    ended: OwnedFd,
    /// Whether it has run an instance before.
    is_used: bool,
    /// Replies not yet received.
    pending: u32,
}

/// The reason that no reply was received.
pub enum NoReply {
    /// The flow was cancelled, and the process did not return in time.
    Cancelled,
    /// The process has ended.
    Dead,
}

/// The pool of idle processes.
static IDLE: Mutex<VecDeque<Process>> = Mutex::new(VecDeque::new());

impl Process {
    /// An idle process, or a new one. An idle one may end before it receives anything.
    pub fn acquire() -> Result<Process> {
        loop {
            let Some(mut process) = IDLE.lock().pop_back() else { return Process::start() };
            if matches!(process.child.try_wait(), Ok(None)) {
                return Ok(process);
            }
        }
    }

    /// Starts a new process and its connection.
    pub fn start() -> Result<Process> {
        let lost = |what: &str, error: std::io::Error| {
            Error::resource(format!("cannot {what} a process for user code: {error}"))
        };
        let (socket, theirs) = UnixStream::pair().map_err(|error| lost("connect", error))?;
        socket.set_read_timeout(Some(MESSAGE_TIMEOUT)).map_err(|error| lost("connect", error))?;
        let words = isolated_command();
        let (program, arguments) = words.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        command.args(arguments).envs(worker_environment());
        // Its end of the socket is its stdin. In its own group, a Ctrl-C does not reach it.
        command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        let child = command.spawn().map_err(|error| lost("start", error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::failed("a process without a number"))?;
        let ended = pidfd_open(pid, PidfdFlags::empty());
        let ended = ended.map_err(|error| lost("watch", error.into()))?;
        let halves = socket.try_clone().and_then(|out| Ok((out, socket.try_clone()?)));
        let (out, read) = halves.map_err(|error| lost("connect", error))?;
        let (sender, receiver) = (FrameSender::new(out), FrameReceiver::new(read, Caps::KNOWN));
        Ok(Process { child, sender, receiver, socket, ended, is_used: false, pending: 0 })
    }

    /// Returns a process that finished its work to the pool.
    pub fn release(mut self) {
        self.is_used = true;
        let mut idle = IDLE.lock();
        if idle.len() < machine::cores() {
            idle.push_back(self);
        }
    }

    /// Whether it comes from the pool: it may have ended meanwhile.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Counts requests that were sent without waiting for their replies.
    pub fn expect_replies(&mut self, replies: u32) {
        self.pending += replies;
    }

    /// Whether replies are outstanding.
    pub fn awaits_replies(&self) -> bool {
        self.pending > 0
    }

    /// Counts a received reply.
    pub fn count_reply(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message. The end of the process is reported by the next `receive`.
    pub fn send(
        &mut self,
        message: &WorkerMessage,
        batch: Option<(&mut Codec, &RecordBatch)>,
    ) -> Result<()> {
        match messages::send(&mut self.sender, message, batch) {
            Err(error) if error.kind() != euphrates_flow::Kind::Resource => Err(error),
            _ => Ok(()),
        }
    }

    /// Receives the next message. After a cancel, sends `Stop` and waits for `STOP_TIMEOUT` longer.
    pub fn receive(&mut self, cancel: &Cancel) -> Result<(ChildMessage, Frame), NoReply> {
        let mut stopping: Option<Instant> = None;
        loop {
            if cancel.is_cancelled() && stopping.is_none() {
                stopping = Some(Instant::now() + STOP_TIMEOUT);
                let _ = self.send(&WorkerMessage::Stop, None);
            }
            if stopping.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(NoReply::Cancelled);
            }
            // Poll does not report messages that are buffered already.
            let (is_readable, has_ended) =
                if self.receiver.has_buffered() { (true, false) } else { self.wait() };
            if is_readable {
                let received = messages::receive(&mut self.receiver);
                return received.ok().flatten().ok_or(NoReply::Dead);
            }
            if has_ended {
                return Err(NoReply::Dead);
            }
        }
    }

    /// Polls once: whether a message has arrived, and whether the process has ended.
    fn wait(&self) -> (bool, bool) {
        let mut both = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN),
        ];
        let interval = Timespec { tv_sec: 0, tv_nsec: CANCEL_POLL.subsec_nanos().into() };
        // EINTR: poll again.
        let _ = poll(&mut both, Some(&interval));
        let happened = |at: usize| !both[at].revents().is_empty();
        (happened(0), happened(1))
    }

    /// Reaps the process. Kills it if it still runs after a moment.
    pub fn end(mut self) -> Ending {
        // A process that closed its socket is of no use.
        let deadline = Instant::now() + CANCEL_POLL;
        let mut status = self.child.try_wait();
        while matches!(status, Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            status = self.child.try_wait();
        }
        if !matches!(status, Ok(Some(_))) {
            let _ = self.child.kill();
            status = self.child.wait().map(Some);
        }
        Ending(status.ok().flatten())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How a process ended.
pub struct Ending(Option<ExitStatus>);

impl Ending {
    /// Advice for the user.
    pub fn remedy(&self) -> &'static str {
        match self.0.and_then(|status| status.signal()) {
            Some(9) => {
                "it may have needed more memory than there is (see what `dmesg` says): give it \
                 smaller batches, or the worker more memory"
            }
            _ => "run the code by itself on these rows, with `python -X faulthandler`",
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(status) = self.0 else { return f.write_str("ended in an unknown way") };
        match (status.signal(), status.code()) {
            (Some(signal), _) => match signal_name(signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            (None, Some(code)) => write!(f, "exited with exit code {code}"),
            (None, None) => write!(f, "ended: {status}"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return None,
    })
}
