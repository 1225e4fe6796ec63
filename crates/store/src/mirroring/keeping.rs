//! A mirror kept for another process: its file is written by a thread of its own, since letters
//! must not wait for a disk.

use std::sync::Weak;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};

use super::message::Word;
use super::{Spot, Writers};
use crate::segment::FileCopy;

/// One of them.
pub(super) struct Kept {
    letters: Sender<(Word, Buffer)>,
    thread: JoinHandle<()>,
}

/// For whom: the process, and its number for the mirror.
type Whom = (Weak<Writers>, usize, u32);

impl Kept {
    /// Has the file made.
    pub fn start(whom: Whom, spot: Result<Spot>) -> Result<Kept> {
        let (letters, taken) = channel();
        let thread = std::thread::Builder::new().name("mirror".into());
        let thread = thread.spawn(move || {
            if let Err(error) = keep(&whom, spot, &taken) {
                tell(&whom, &Word::Failed { error });
            }
        });
        let thread =
            thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        Ok(Kept { letters, thread })
    }

    /// Something is to be done, when all before it is.
    pub fn post(&self, word: Word, body: Buffer) {
        // Who failed takes no more.
        let _ = self.letters.send((word, body));
    }

    /// Nothing comes any more; returns when it is done, or gone.
    pub fn end(self) {
        drop(self.letters);
        let _ = self.thread.join();
    }
}

/// The life of the thread. A file that is not finished does not stay.
fn keep(whom: &Whom, spot: Result<Spot>, letters: &Receiver<(Word, Buffer)>) -> Result<()> {
    let Spot { disk, path, place } = spot?;
    let copy = FileCopy::create(&disk, path, None)?;
    let done = write(whom, &copy, letters);
    match done {
        Ok(true) => tell(whom, &Word::Kept { place }),
        Ok(false) | Err(_) => copy.abandon(),
    }
    done.map(drop)
}

/// Whether it was finished.
fn write(whom: &Whom, copy: &FileCopy, letters: &Receiver<(Word, Buffer)>) -> Result<bool> {
    for (word, body) in letters {
        match word {
            Word::Write { offset, crc } => {
                check(&body, crc)?;
                let bytes = body.len() as u64;
                copy.write(offset, &[body])?;
                tell(whom, &Word::Written { bytes });
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

/// A copy is made to be read on the day the other is lost: what comes is compared before it is one.
fn check(body: &Buffer, crc: u32) -> Result<()> {
    if crc_fast::crc32_iscsi(body) == crc {
        return Ok(());
    }
    let message = format!("{} bytes of a mirror are not what was sent", body.len());
    Err(Error::corrupt(message).remedy("run the flow again, and look at the network between"))
}

fn tell((writers, process, number): &Whom, word: &Word) {
    if let Some(writers) = writers.upgrade() {
        writers.tell(*process, *number, word, vec![]);
    }
}
