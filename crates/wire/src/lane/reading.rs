//! The reading thread of a lane: it delivers frames, tracks liveness, and ends the lane.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use euphrates_flow::{Error, Result};

use super::liveness::Liveness;
use super::outbox::Phase;
use super::shared::Shared;
use crate::frame::{FrameKind, HEADER_BYTES, Header};
use crate::handshake::refused;
use crate::heartbeat;
use crate::link::{Frame, FrameReceiver, lost};
use crate::shared_memory::SlabReceiver;
use crate::stream::ReadHalf;

/// Applies a timeout: the other end is lost if it sends nothing for that long, or sends a frame too
/// slowly.
pub(super) fn set_timeout(
    receiver: &mut FrameReceiver<ReadHalf>,
    peer: &str,
    timeout: Duration,
) -> io::Result<()> {
    receiver.stream_mut().half.set_timeout(peer, timeout)?;
    receiver.watch_pace(timeout);
    Ok(())
}

/// The receiving half, the slabs of the other end if both share memory, and its liveness.
type LaneReader = (FrameReceiver<ReadHalf>, Option<SlabReceiver>, Liveness);
type LaneReaderParts<'a> =
    (&'a mut FrameReceiver<ReadHalf>, &'a mut Option<SlabReceiver>, &'a mut Liveness);

impl Shared {
    pub(super) fn read(
        &self,
        (mut receiver, mut slabs, mut liveness): LaneReader,
        writer: JoinHandle<()>,
        mut on_frame: impl FnMut(Frame),
        on_end: impl FnOnce(Result<()>),
    ) {
        let reading = AssertUnwindSafe(|| {
            self.read_frames((&mut receiver, &mut slabs, &mut liveness), &mut on_frame)
        });
        let read = catch_unwind(reading).unwrap_or_else(|panic| Err(panicked(&*panic)));
        let outcome = self.end_reading(read);
        // The process may end in `on_end`, so Bye must have been sent before.
        let _ = writer.join();
        // A handle in the closure would keep the lane alive.
        drop(on_frame);
        on_end(outcome.map_err(|error| error.at(format!("connection to {}", self.peer.name))));
    }

    /// Ends reading. The later of the two threads hangs up.
    fn end_reading(&self, read: Result<()>) -> Result<()> {
        self.stop(read.is_ok());
        let mut outbox = self.outbox.lock();
        outbox.has_read_all = true;
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
        (receiver, slabs, liveness): LaneReaderParts<'_>,
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
            let advertised = match kind {
                FrameKind::Beat => heartbeat::decode(&frame.meta)?,
                _ => None,
            };
            if let Some(timeout) = liveness.on_frame(advertised) {
                set_timeout(receiver, &self.peer.name, timeout).map_err(lost)?;
                self.outbox.lock().timeout = Some(timeout);
            }
            match kind {
                FrameKind::Beat => {}
                FrameKind::Bye if frame.meta.is_empty() => return Ok(()),
                FrameKind::Bye => return Err(refused(&frame.meta)),
                FrameKind::Hello | FrameKind::Welcome => {
                    return Err(Error::corrupt("a greeting from one who has greeted before"));
                }
                FrameKind::Message
                | FrameKind::Batch
                | FrameKind::Control
                | FrameKind::Launch
                | FrameKind::Files
                | FrameKind::Active => on_frame(frame),
                FrameKind::Slab => {
                    let files = receiver.stream_mut().take_files();
                    slabs.as_mut().ok_or_else(unagreed)?.accept(&frame, files)?;
                }
                FrameKind::Placed => {
                    let frame = slabs.as_ref().ok_or_else(unagreed)?.resolve(frame)?;
                    self.received_bytes.fetch_add(frame.body.len() as u64, Relaxed);
                    on_frame(frame);
                }
            }
        }
    }
}

fn unagreed() -> Error {
    Error::corrupt("a frame about shared memory on a connection without it")
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    Error::failed(format!("what a frame was handed to panicked: {text}"))
}
