//! Cancellable reads of pipes that another program writes.
//!
//! A dedicated thread reads, and may block for ever; the consumer waits for that thread and can be
//! cancelled. While a flow is checked there is no cancel switch yet. A signal ends the wait then:
//! it interrupts the thread that it is delivered to, the main thread, which does the checking. Once
//! the flow runs, the consumer polls its switch.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};

use euphrates_flow::{Cancel, Error, Result, spawn_named};
use rustix::io::Errno;
use rustix::thread::futex;

/// The interval at which a waiting reader polls the switch.
const LOOK: futex::Timespec = futex::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The bytes of one read.
const PART_BYTES: usize = 256 << 10;

/// The reading end of a pipe, or a file.
///
/// ```
/// use euphrates_device::pipe::Pipe;
/// use std::io::Read;
///
/// let file = tempfile::NamedTempFile::new()?;
/// std::fs::write(file.path(), "a,b\n")?;
/// let mut text = String::new();
/// Pipe::open(&file.path().to_string_lossy())?.read_to_string(&mut text)?;
/// assert_eq!(text, "a,b\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pipe {
    parts: Receiver<io::Result<Vec<u8>>>,
    /// The number of parts sent; a futex on which the reader waits.
    sent: Arc<AtomicU32>,
    switch: Switch,
    part: io::Cursor<Vec<u8>>,
}

/// A cancel switch for the wait of a pipe, empty until it is set.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<OnceLock<Arc<Cancel>>>);

impl Switch {
    /// From now on, this switch ends the wait, and a signal does not.
    pub fn set(&self, cancel: &Arc<Cancel>) {
        let _ = self.0.set(cancel.clone());
    }
}

/// The error of a read that was cancelled.
#[derive(Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// What the thread reads from.
enum PipeSource {
    Open(File),
    /// The path of a named pipe: opening it waits for its writer.
    Named(PathBuf),
}

impl Pipe {
    /// Standard input, from after the bytes that other readers have consumed.
    pub fn stdin() -> Result<Pipe> {
        let failed = |error| Error::os("read", "standard input", &error);
        let own: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        Pipe::start(PipeSource::Open(own.into()))
    }

    /// Opens a named pipe or a file; does not wait for a writer.
    pub fn open(path: &str) -> Result<Pipe> {
        let failed = |error| Error::os("read", path, &error);
        let about = std::fs::metadata(path).map_err(failed)?;
        Pipe::start(match about.file_type().is_fifo() {
            true => PipeSource::Named(path.into()),
            false => PipeSource::Open(File::open(path).map_err(failed)?),
        })
    }

    fn start(source: PipeSource) -> Result<Pipe> {
        let (sender, parts) = sync_channel(1);
        let sent = Arc::new(AtomicU32::new(0));
        let pipe = Pipe { parts, sent: sent.clone(), switch: Switch::default(), part: default() };
        spawn_named("pipe", move || {
            if let Err(error) = send_all(source, &sender, &sent) {
                let _ = sender.send(Err(error));
            }
            // The end wakes the reader as well.
            drop(sender);
            tell(&sent);
        })?;
        Ok(pipe)
    }

    /// The switch that cancels its wait.
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// The next part; empty at the end.
    fn next(&self) -> io::Result<Vec<u8>> {
        loop {
            let seen = self.sent.load(SeqCst);
            match self.parts.try_recv() {
                Ok(part) => return part,
                Err(TryRecvError::Disconnected) => return Ok(vec![]),
                Err(TryRecvError::Empty) => {}
            }
            let cancel = self.switch.0.get();
            if cancel.is_some_and(|cancel| cancel.is_cancelled()) {
                return Err(io::Error::other(Stopped));
            }
            match futex::wait(&self.sent, futex::Flags::PRIVATE, seen, Some(&LOOK)) {
                Err(Errno::INTR) if cancel.is_none() => return Err(io::Error::other(Stopped)),
                // A part has arrived, or the interval is over.
                _ => {}
            }
        }
    }
}

fn default() -> io::Cursor<Vec<u8>> {
    io::Cursor::new(vec![])
}

/// Sends all bytes until the end, or until the receiver is gone.
fn send_all(
    source: PipeSource,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    sent: &AtomicU32,
) -> io::Result<()> {
    let mut file = match source {
        PipeSource::Open(file) => file,
        PipeSource::Named(path) => File::open(path)?,
    };
    loop {
        let mut part = vec![0; PART_BYTES];
        match file.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(bytes) => part.truncate(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if sender.send(Ok(part)).is_err() {
            return Ok(());
        }
        tell(sent);
    }
}

fn tell(sent: &AtomicU32) {
    sent.fetch_add(1, SeqCst);
    // There may be no waiter.
    let _ = futex::wake(sent, futex::Flags::PRIVATE, 1);
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.part.position() == self.part.get_ref().len() as u64 {
            self.part = io::Cursor::new(self.next()?);
        }
        self.part.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn named() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe").display().to_string();
        std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        (folder, path)
    }

    #[test]
    fn switch_ends_a_wait_for_a_writer() {
        let (_folder, path) = named();
        let mut pipe = Pipe::open(&path).unwrap();
        let cancel = Arc::new(Cancel::default());
        pipe.switch().set(&cancel);
        let reader = thread::spawn(move || pipe.read(&mut [0; 8]).unwrap_err());
        cancel.cancel();
        assert!(reader.join().unwrap().get_ref().unwrap().is::<Stopped>());
        // Lets the thread that opens the pipe end.
        File::options().write(true).open(path).unwrap();
    }

    #[test]
    fn pipe_is_read_to_its_end() {
        let (_folder, path) = named();
        let all: Vec<u8> = (0..3_000_000).map(|at: usize| (at / 7) as u8).collect();
        let writer = thread::spawn({
            let (path, all) = (path.clone(), all.clone());
            move || std::fs::write(path, all).unwrap()
        });
        let mut read = vec![];
        Pipe::open(&path).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == all);
        writer.join().unwrap();
        assert!(Pipe::open("/no/such").is_err_and(|error| error.to_string().contains("/no/such")));
    }
}
