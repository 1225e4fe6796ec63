//! Remote mirrors from the receiving side: a thread for each writes its file, since messages must
//! not wait for a disk.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result, spawn_named};

use super::message::MirrorMessage;
use crate::segment::FileCopy;
use euphrates_device::disk::Disk;

/// The location of a file while it is staged, and in the collection.
pub struct Spot {
    /// The disk of this process that holds it.
    pub disk: Disk,
    /// Its path while the collection is staged.
    pub path: PathBuf,
    /// Its final location, relative to the disk's folder.
    pub final_path: String,
}

/// A mirror that this process keeps for another.
pub(super) struct StoredMirror {
    sender: Sender<(MirrorMessage, Buffer)>,
    thread: JoinHandle<()>,
}

/// Sends a message about the mirror to the process that owns it.
pub(super) type OwnerReply = Box<dyn Fn(&MirrorMessage) + Send>;

impl StoredMirror {
    /// Creates the file and starts its thread.
    pub fn start(reply: OwnerReply, spot: Result<Spot>) -> Result<StoredMirror> {
        let (sender, taken) = channel();
        let thread = spawn_named("mirror", move || {
            if let Err(error) = keep(&reply, spot, &taken) {
                reply(&MirrorMessage::Failed { error });
            }
        })?;
        Ok(StoredMirror { sender, thread })
    }

    /// Queues a message, to be handled after all before it.
    pub fn post(&self, message: MirrorMessage, body: Buffer) {
        // A mirror that failed accepts no more messages.
        let _ = self.sender.send((message, body));
    }

    /// Closes the message channel, and waits until the file is finished or removed.
    pub fn end(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

/// The loop of the thread. Removes a file that is not finished.
fn keep(
    reply: &OwnerReply,
    spot: Result<Spot>,
    messages: &Receiver<(MirrorMessage, Buffer)>,
) -> Result<()> {
    let Spot { disk, path, final_path } = spot?;
    let copy = FileCopy::create(&disk, path, None)?;
    let done = write(reply, &copy, messages);
    match done {
        Ok(true) => reply(&MirrorMessage::Kept { path: final_path }),
        Ok(false) | Err(_) => copy.abandon(),
    }
    done.map(drop)
}

/// Handles the messages of a mirror. Returns whether it was finished.
fn write(
    reply: &OwnerReply,
    copy: &FileCopy,
    messages: &Receiver<(MirrorMessage, Buffer)>,
) -> Result<bool> {
    for (message, body) in messages {
        match message {
            MirrorMessage::Write { offset, crc } => {
                check(&body, crc)?;
                let bytes = body.len() as u64;
                copy.write(offset, &[body])?;
                reply(&MirrorMessage::Written { bytes });
            }
            MirrorMessage::Finish { bytes, crc } => {
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
