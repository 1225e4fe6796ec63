//! The writing thread of a lane: frames that had to wait, heartbeats, and the Bye.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use euphrates_flow::Error;

use super::outbox::{FrameWriter, Phase, WriterStep};
use super::shared::Shared;
use crate::frame::{Caps, FrameKind, HEADER_BYTES, Header};
use crate::heartbeat::{self, INTERVAL};
use crate::link::{FrameSender, Outgoing, lost};
use crate::stream::WriteHalf;

impl Shared {
    pub(super) fn write(&self) {
        while let Some((mut out, next)) = self.next() {
            let done = match next {
                WriterStep::Frames(frames) => self.write_frames(&mut out, frames),
                WriterStep::Rest => self.write_rest(&mut out),
                WriterStep::Heartbeat => write_heartbeat(&mut out.sender, self.advertised_min),
                WriterStep::Bye => return self.write_bye(&mut out.sender),
            };
            self.put_back(out, done);
        }
    }

    /// Waits until no other thread writes and there is something to do; `None` at the end.
    fn next(&self) -> Option<(FrameWriter, WriterStep)> {
        let mut outbox = self.outbox.lock();
        loop {
            if matches!(outbox.phase, Phase::ByeSent | Phase::Ended) {
                return None;
            }
            let left = INTERVAL.saturating_sub(outbox.last.elapsed());
            if let Some(mut out) = outbox.out.take() {
                if let Some(timeout) = outbox.timeout.take() {
                    // If the socket is gone, the next write reports it.
                    let _ = out.sender.stream_mut().half.set_timeout(&self.peer.name, timeout);
                }
                match outbox.next(&out, left.is_zero()) {
                    Some(next) => return Some((out, next)),
                    None => outbox.out = Some(out),
                }
            }
            outbox.idle = true;
            // A frame that another thread writes meanwhile counts as a heartbeat, too.
            let wait = if left.is_zero() { INTERVAL } else { left };
            let held = outbox.held();
            let wait = if held.is_zero() { wait } else { wait.min(held) };
            self.changed.wait_for(&mut outbox, wait);
            outbox.idle = false;
        }
    }

    pub(super) fn write_frames(
        &self,
        out: &mut FrameWriter,
        mut frames: Vec<Outgoing>,
    ) -> io::Result<()> {
        let files = frames.iter_mut().filter_map(Outgoing::take_files);
        files.for_each(|files| out.sender.stream_mut().pass(files));
        let bytes: usize = frames.iter().map(Outgoing::bytes).sum();
        let allowed = frames.iter().try_for_each(|frame| self.allow(frame));
        match allowed.and_then(|()| out.sender.begin(frames)) {
            Ok(sending) => {
                out.rest = Some(sending);
                self.write_rest(out)
            }
            Err(error) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
                Err(error)
            }
        }
    }

    /// Continues a write that has begun, as far as the socket takes it now.
    fn write_rest(&self, out: &mut FrameWriter) -> io::Result<()> {
        let Some(mut rest) = out.rest.take() else { return Ok(()) };
        let done = out.sender.go_on(&mut rest);
        let bytes = rest.bytes();
        match done {
            Ok(false) => out.rest = Some(rest),
            Ok(true) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
                self.sent_bytes.fetch_add(bytes as u64, Relaxed);
            }
            Err(_) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
            }
        }
        done.map(drop)
    }

    /// Refuses a frame above the agreed caps: the other end would refuse it without naming it.
    fn allow(&self, frame: &Outgoing) -> io::Result<()> {
        let Caps { meta_bytes_max, body_bytes_max } = self.peer.caps;
        let meta = (frame.meta.len() as u64, u64::from(meta_bytes_max));
        let body = ((frame.bytes() - HEADER_BYTES - frame.meta.len()) as u64, body_bytes_max);
        let Some((bytes, bytes_max)) = [meta, body].into_iter().find(|(bytes, max)| bytes > max)
        else {
            return Ok(());
        };
        let message = format!("a frame of {bytes} bytes, where {bytes_max} were agreed on");
        Err(io::Error::other(Error::failed(message).remedy("make batches smaller")))
    }

    /// Sends Bye. If it does not arrive, the reading thread notices.
    fn write_bye(&self, sender: &mut FrameSender<WriteHalf>) {
        let sent = sender.send(Header::of(FrameKind::Bye), &[], &[]);
        let mut outbox = self.outbox.lock();
        if outbox.phase == Phase::Closing {
            outbox.phase = Phase::ByeSent;
        }
        if outbox.has_read_all || sent.is_err() {
            self.closer.close();
        }
    }

    /// Stops sending after a failed write. If the other end has hung up, the reading thread still
    /// reads the reason.
    pub(super) fn write_failed(&self, error: io::Error) {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.stop(false),
            _ => self.fail(lost(error)),
        }
    }
}

/// Sends a heartbeat with the timeout that this end needs.
fn write_heartbeat(
    sender: &mut FrameSender<WriteHalf>,
    advertised_min: Duration,
) -> io::Result<()> {
    let timeout = heartbeat::advertised_timeout().max(advertised_min);
    sender.send(Header::of(FrameKind::Beat), &heartbeat::encode(timeout), &[])
}
