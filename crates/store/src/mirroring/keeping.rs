//! A remote mirror, from the keeping side: a dedicated thread writes its file, since messages must
//! not wait for a disk.

use std::sync::Weak;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};

use super::message::Word;
use super::{Spot, Writers};
use crate::segment::FileCopy;

/// A mirror that this process keeps for another.
pub(super) struct Kept {
    sender: Sender<(Word, Buffer)>,
    thread: JoinHandle<()>,
}

/// The process that owns a mirror, and its number for the mirror, with the writers that reply.
type MirrorOwner = (Weak<Writers>, usize, u32);

impl Kept {
    /// Creates the file and starts its thread.
    pub fn start(owner: MirrorOwner, spot: Result<Spot>) -> Result<Kept> {
        let (sender, taken) = channel();
        let thread = std::thread::Builder::new().name("mirror".into());
        let thread = thread.spawn(move || {
            if let Err(error) = keep(&owner, spot, &taken) {
                tell(&owner, &Word::Failed { error });
            }
        });
        let thread =
            thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        Ok(Kept { sender, thread })
    }

    /// Queues a message, to be handled after all before it.
    pub fn post(&self, word: Word, body: Buffer) {
        // A mirror that failed accepts no more messages.
        let _ = self.sender.send((word, body));
    }

    /// Closes the message channel, and waits until the file is finished or removed.
    pub fn end(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

/// The loop of the thread. Removes a file that is not finished.
fn keep(
    owner: &MirrorOwner,
    spot: Result<Spot>,
    messages: &Receiver<(Word, Buffer)>,
) -> Result<()> {
    let Spot { disk, path, place } = spot?;
    let copy = FileCopy::create(&disk, path, None)?;
    let done = write(owner, &copy, messages);
    match done {
        Ok(true) => tell(owner, &Word::Kept { place }),
        Ok(false) | Err(_) => copy.abandon(),
    }
    done.map(drop)
}

/// Handles the messages of a mirror. Returns whether it was finished.
fn write(
    owner: &MirrorOwner,
    copy: &FileCopy,
    messages: &Receiver<(Word, Buffer)>,
) -> Result<bool> {
    for (word, body) in messages {
        match word {
            Word::Write { offset, crc } => {
                check(&body, crc)?;
                let bytes = body.len() as u64;
                copy.write(offset, &[body])?;
                tell(owner, &Word::Written { bytes });
            }
            Word::Finish { bytes, crc } => {
                check(&body, crc)?;
                copy.finish(bytes, Some(&body))?;
                return Ok(true);
            }
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Compares a body with its checksum before it becomes part of a copy: a copy is read when the
/// other one is lost.
fn check(body: &Buffer, crc: u32) -> Result<()> {
    if crc_fast::crc32_iscsi(body) == crc {
        return Ok(());
    }
    let message = format!("{} bytes of a mirror are not what was sent", body.len());
    Err(Error::corrupt(message).remedy("run the flow again, and look at the network between"))
}

fn tell((writers, process, number): &MirrorOwner, word: &Word) {
    if let Some(writers) = writers.upgrade() {
        writers.tell(*process, *number, word, vec![]);
    }
}
