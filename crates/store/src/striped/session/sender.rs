//! The connections of a writer of a session to the owners of stripes.
//!
//! An owner that was not opened yet may be reached later. One that does not answer in time, or
//! whose connection ends, may have the frame that was sent last or not, so the sender keeps the
//! pieces in its log as well, where they count. It sends no more of a stripe of which its log has
//! pieces: so what is in the log was written last.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Result;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::folder::SessionFolder;
use super::frames::{Incarnation, PieceAnswer, PieceFrame, greet};
use super::service::{ANSWER_WITHIN, short_path, socket_name};

/// Frames that an owner without memory is not sent.
const FRAMES_SKIPPED: u32 = 8;

/// The owners that a writer has connected to.
#[derive(Debug)]
pub(super) struct PieceSender {
    folder: PathBuf,
    session: String,
    itself: Incarnation,
    owners: BTreeMap<usize, PieceOwner>,
    /// Frames that each owner has taken.
    handed: BTreeMap<Incarnation, u64>,
}

#[derive(Debug, Default)]
struct PieceOwner {
    connection: Option<(UnixStream, Incarnation)>,
    /// It has not answered in time.
    is_lost: bool,
    skipped: u32,
}

impl PieceSender {
    pub fn new(session: &SessionFolder, itself: Incarnation) -> PieceSender {
        PieceSender {
            folder: session.folder(),
            session: session.id.clone(),
            itself,
            owners: BTreeMap::new(),
            handed: BTreeMap::new(),
        }
    }

    /// Connects to an owner, unless it is connected. Returns whether it is.
    pub fn reach(&mut self, owner: usize) -> bool {
        let link = self.owners.entry(owner).or_default();
        if link.connection.is_none() && !link.is_lost {
            let connected = connect_to(&self.folder, owner).and_then(|mut stream| {
                let incarnation = greet(&mut stream, &self.session, self.itself)?;
                Ok((stream, incarnation))
            });
            link.is_lost |= connected.as_ref().is_err_and(is_late);
            link.connection = connected.ok().filter(|(_, incarnation)| incarnation.writer == owner);
        }
        link.connection.is_some()
    }

    /// Sends pieces to an owner that was reached. Returns whether the owner has taken them; if not,
    /// it may have them or not.
    pub fn send(&mut self, owner: usize, frame: &PieceFrame<'_>) -> bool {
        let Some(link) = self.owners.get_mut(&owner) else { return false };
        if link.skipped > 0 {
            link.skipped -= 1;
            return false;
        }
        let Some((stream, incarnation)) = &mut link.connection else { return false };
        let answer = frame.send(stream).and_then(|()| PieceAnswer::receive(stream));
        match answer {
            Ok(PieceAnswer::Taken) => {
                *self.handed.entry(*incarnation).or_default() += 1;
                return true;
            }
            Ok(PieceAnswer::Refused) => {}
            Ok(PieceAnswer::Full) => link.skipped = FRAMES_SKIPPED,
            Ok(PieceAnswer::Closed) => link.connection = None,
            Err(error) => {
                link.is_lost |= is_late(&error);
                link.connection = None;
            }
        }
        false
    }

    /// Disconnects from all owners, also where a forked child has the connections.
    pub fn end(&mut self) {
        for (stream, _) in self.owners.values_mut().filter_map(|link| link.connection.take()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The owners that have taken frames, and their number.
    pub fn handed(&self) -> Vec<(Incarnation, u64)> {
        self.handed.iter().map(|(incarnation, frames)| (*incarnation, *frames)).collect()
    }
}

fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// Connects without waiting: an owner that accepts nobody has a full queue.
fn connect_to(folder: &std::path::Path, owner: usize) -> Result<UnixStream> {
    let folder = File::open(folder)?;
    let address = SocketAddrUnix::new(short_path(&folder, &socket_name(owner)))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}
