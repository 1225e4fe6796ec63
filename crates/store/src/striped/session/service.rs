//! The threads of a writer of a session that receive pieces of the stripes which it owns.
//!
//! The socket lies in the session's folder, which only its user can enter. A connection has a
//! thread: one that waits for a disk, or for the rest of a frame, delays no other. Pieces are
//! answered once they are in memory. The thread that completes a stripe also writes it.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use euphrates_flow::sync::{Condvar, Mutex, MutexGuard};
use euphrates_flow::{Error, Owner, Result};
use rustix::net::{Shutdown, shutdown};

use super::assembly::StripeAssembly;
use super::filled::FilledStripes;
use super::folder::SessionFolder;
use super::frames::{Incarnation, PieceFrame, on_greeting};
use crate::striped::dirty::DirtyStripe;

/// Senders that are connected at once; others keep their pieces in their logs.
const CONNECTIONS_MAX: usize = 64;
const STACK_BYTES: usize = 512 << 10;
/// Until an owner that ends waits no longer for connected senders: since the last frame, and in
/// all.
const ARRIVAL_WITHIN: Duration = Duration::from_millis(200);
const LINGER_MAX: Duration = Duration::from_secs(2);
/// Until an end that does not answer counts as lost.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Receives pieces until it is closed, or dropped.
#[derive(Debug)]
pub(super) struct PieceService {
    core: Arc<ServiceCore>,
    listener: Option<(Arc<UnixListener>, JoinHandle<()>)>,
    owner: Owner,
}

#[derive(Debug)]
struct ServiceCore {
    session: String,
    itself: Incarnation,
    stripe_bytes: usize,
    filled: Arc<FilledStripes>,
    assembly: Mutex<StripeAssembly>,
    /// Frames that arrived, stripes that were written, and senders that ended.
    changed: Condvar,
    connections: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
}

/// The path of an owner's socket.
pub(super) fn socket_name(writer: usize) -> String {
    format!("{writer}.socket")
}

/// A path to a file of a folder by the folder's descriptor: the address of a socket has 108 bytes.
pub(super) fn short_path(folder: &File, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()).into()
}

impl PieceService {
    /// Begins to listen. If there can be no socket, it has the owner's own pieces alone.
    pub fn begin(
        session: &SessionFolder,
        itself: Incarnation,
        filled: Arc<FilledStripes>,
        memory: usize,
    ) -> PieceService {
        let assembly = StripeAssembly::new(session.plan.clone(), itself, memory);
        let core = Arc::new(ServiceCore {
            session: session.id.clone(),
            itself,
            stripe_bytes: session.plan.layout.stripe_bytes() as usize,
            filled,
            assembly: Mutex::new(assembly),
            changed: Condvar::new(),
            connections: Mutex::default(),
        });
        let listener = listen(&session.folder(), itself).ok().map(Arc::new);
        let listener = listener.and_then(|listener| {
            let (core, accepting) = (core.clone(), listener.clone());
            let thread = thread("accept").spawn(move || core.accept(&accepting)).ok()?;
            Some((listener, thread))
        });
        PieceService { core, listener, owner: Owner::here() }
    }

    pub fn assembly(&self) -> MutexGuard<'_, StripeAssembly> {
        self.core.assembly.lock()
    }

    /// Waits until no thread writes a complete stripe.
    pub fn settle(&self) {
        drop(self.core.settled());
    }

    /// Fails if a complete stripe was not written.
    pub fn check(&self) -> Result<()> {
        self.assembly().failed.clone().map_or(Ok(()), Err)
    }

    /// Writes a stripe that the owner's own bytes have completed.
    pub fn write_complete(&self, stripe: usize, complete: DirtyStripe) {
        self.core.write_complete(stripe, complete);
    }

    /// Waits a little for senders that are connected, while stripes are incomplete: writers that
    /// do the same work end at about the same time. A writer that ends disconnects first, so two
    /// do not wait for each other.
    fn linger(&self) {
        let began = Instant::now();
        let mut assembly = self.assembly();
        while assembly.connected > 0 && assembly.first().is_some() && assembly.failed.is_none() {
            let arrived = assembly.arrived;
            let is_late = self.core.changed.wait_for(&mut assembly, ARRIVAL_WITHIN).timed_out();
            if (is_late && assembly.arrived == arrived) || began.elapsed() > LINGER_MAX {
                return;
            }
        }
    }

    /// Takes no more pieces. While complete stripes are on their way to disks, others still arrive.
    pub fn close(&mut self) -> Result<()> {
        self.linger();
        loop {
            let before = self.assembly().completed();
            self.core.filled.with_any(|writer| writer.flush_all())?;
            if self.core.settled().completed() == before {
                break;
            }
        }
        self.assembly().is_closed = true;
        self.settle();
        self.end_threads();
        self.check()
    }

    fn end_threads(&mut self) {
        self.assembly().is_closed = true;
        if let Some((listener, thread)) = self.listener.take() {
            let _ = shutdown(&*listener, Shutdown::Both);
            let _ = thread.join();
        }
        let connections = std::mem::take(&mut *self.core.connections.lock());
        for (stream, _) in &connections {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        connections.into_iter().for_each(|(_, thread)| drop(thread.join()));
    }
}

impl Drop for PieceService {
    fn drop(&mut self) {
        // A forked child has neither the threads nor locks that will be released.
        match self.owner.is_here() {
            true => self.end_threads(),
            false => std::mem::forget(self.listener.take()),
        }
    }
}

fn thread(what: &str) -> Builder {
    Builder::new().name(format!("pieces-{what}")).stack_size(STACK_BYTES)
}

/// Listens at the socket of a writer, in place of an earlier incarnation of it.
fn listen(folder: &Path, itself: Incarnation) -> std::io::Result<UnixListener> {
    let name = socket_name(itself.writer);
    let staged = format!("{name}.{:x}", itself.random);
    let opened = File::open(folder)?;
    let listener = UnixListener::bind(short_path(&opened, &staged))?;
    fs::set_permissions(folder.join(&staged), Permissions::from_mode(0o600))?;
    fs::rename(folder.join(&staged), folder.join(&name))?;
    Ok(listener)
}

impl ServiceCore {
    fn settled(&self) -> MutexGuard<'_, StripeAssembly> {
        let mut assembly = self.assembly.lock();
        while assembly.writing > 0 {
            self.changed.wait(&mut assembly);
        }
        assembly
    }

    /// Accepts senders until the listener is shut down.
    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            let mut connections = self.connections.lock();
            connections.retain(|(_, thread)| !thread.is_finished());
            if connections.len() >= CONNECTIONS_MAX {
                continue;
            }
            let Ok(kept) = stream.try_clone() else { continue };
            let core = self.clone();
            let serving = move || {
                drop(core.serve(&stream));
                // The descriptor that is kept for the end would leave the sender waiting.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            };
            if let Ok(thread) = thread("receive").spawn(serving) {
                connections.push((kept, thread));
            }
        }
        // No sender shall wait for what is not accepted.
        let _ = shutdown(listener, Shutdown::Both);
    }

    /// Serves a sender until it ends, or sends what it must not.
    fn serve(&self, mut stream: &UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let incarnation = on_greeting(&mut stream, &self.session, self.itself)?;
        stream.set_read_timeout(None)?;
        let sender = self.assembly.lock().on_sender(incarnation);
        let _connected = ConnectedSender::begin(self);
        let mut buffer = vec![];
        loop {
            let frame = PieceFrame::receive(&mut stream, self.stripe_bytes, &mut buffer)?;
            let (answer, complete) = self.assembly.lock().on_frame(sender, &frame);
            self.changed.notify_all();
            let answered = answer.send(&mut stream).and_then(|()| stream.flush());
            if let Some(complete) = complete {
                self.write_complete(frame.stripe, complete);
            }
            answered?;
        }
    }

    fn write_complete(&self, stripe: usize, complete: DirtyStripe) {
        let mut writing = StripeInWriting { core: self, written: None };
        writing.written = Some(self.filled.put(stripe, complete));
    }
}

/// A sender, as long as its thread serves it.
struct ConnectedSender<'a>(&'a ServiceCore);

impl<'a> ConnectedSender<'a> {
    fn begin(core: &'a ServiceCore) -> ConnectedSender<'a> {
        core.assembly.lock().connected += 1;
        ConnectedSender(core)
    }
}

impl Drop for ConnectedSender<'_> {
    fn drop(&mut self) {
        self.0.assembly.lock().connected -= 1;
        self.0.changed.notify_all();
    }
}

/// A stripe that a thread is writing. If the thread panics, the stripe is not written.
struct StripeInWriting<'a> {
    core: &'a ServiceCore,
    written: Option<Result<()>>,
}

impl Drop for StripeInWriting<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::failed("a thread that wrote a stripe has panicked"));
        let written = self.written.take().unwrap_or_else(panicked);
        self.core.assembly.lock().on_written(written);
        self.core.changed.notify_all();
    }
}
