//! The thread that reads: what comes, that something comes at all, and how it ends.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use euphrates_flow::{Error, Result};

use super::signs::Signs;
use super::{Phase, Shared};
use crate::frame::{HEADER_BYTES, Header, Kind};
use crate::handshake::refused;
use crate::link::{Frame, Receiver, lost};
use crate::silence;
use crate::stream::ReadHalf;

/// An end that says nothing for so long is lost from now on, and so is one that dribbles.
pub(super) fn suspect(
    receiver: &mut Receiver<ReadHalf>,
    whom: &str,
    patience: Duration,
) -> io::Result<()> {
    receiver.stream_mut().suspect(whom, patience)?;
    receiver.watch_pace(patience);
    Ok(())
}

impl Shared {
    pub(super) fn read(
        &self,
        (mut receiver, mut signs): (Receiver<ReadHalf>, Signs),
        writer: JoinHandle<()>,
        mut on_frame: impl FnMut(Frame),
        on_end: impl FnOnce(Result<()>),
    ) {
        let reading =
            AssertUnwindSafe(|| self.read_frames(&mut receiver, &mut signs, &mut on_frame));
        let read = catch_unwind(reading).unwrap_or_else(|panic| Err(panicked(&*panic)));
        let outcome = self.heard(read);
        // What comes next may be the end of the process: first, the other end shall hear Bye.
        let _ = writer.join();
        // Frames that wait behind a handle in the closure would keep the lane alive.
        drop(on_frame);
        on_end(outcome.map_err(|error| error.at(format!("connection to {}", self.peer.name))));
    }

    /// Nothing more is read. Whoever is the last of the two threads hangs up.
    fn heard(&self, read: Result<()>) -> Result<()> {
        self.stop(read.is_ok());
        let mut outbox = self.lock();
        outbox.heard = true;
        if read.is_err() || outbox.phase != Phase::Closing {
            self.closer.close();
        }
        match (read, outbox.cause.take()) {
            (Err(_), Some(cause)) => Err(cause),
            (read, _) => read,
        }
    }

    fn read_frames(
        &self,
        receiver: &mut Receiver<ReadHalf>,
        signs: &mut Signs,
        on_frame: &mut impl FnMut(Frame),
    ) -> Result<()> {
        loop {
            let Some(frame) = receiver.receive()? else {
                let name = &self.peer.name;
                let error = Error::resource(format!("`{name}` hung up without saying Bye"));
                return Err(error.remedy(format!("look at why `{name}` ended")));
            };
            let Header { kind, meta_bytes, body_bytes, .. } = frame.header;
            let bytes = HEADER_BYTES as u64 + u64::from(meta_bytes) + body_bytes;
            self.received_bytes.fetch_add(bytes, Relaxed);
            let told = match kind {
                Kind::Beat => silence::decode(&frame.meta)?,
                _ => None,
            };
            if let Some(patience) = signs.on_frame(told) {
                suspect(receiver, &self.peer.name, patience).map_err(lost)?;
                self.lock().patience = Some(patience);
            }
            match kind {
                Kind::Beat => {}
                Kind::Bye if frame.meta.is_empty() => return Ok(()),
                Kind::Bye => return Err(refused(&frame.meta)),
                Kind::Hello | Kind::Welcome => {
                    return Err(Error::corrupt("a greeting from one who has greeted before"));
                }
                Kind::Letter | Kind::Batch | Kind::Control | Kind::Launch => on_frame(frame),
            }
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    Error::failed(format!("what a frame was handed to panicked: {text}"))
}
