//! Sends the last rows of queues to the master while a user views them there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::row::last_texts;
use euphrates_flow::tap::{ROWS_MAX, Tap};

use crate::cluster::control::{self, ControlEvent};
use crate::cluster::sender::ControlSender;

/// The interval between two messages.
const SEND_INTERVAL: Duration = Duration::from_millis(500);
/// The most bytes of rows in one message; of wide rows, fewer are sent.
const ROWS_BYTES_MAX: usize = 1 << 20;

/// The queues whose rows are sent.
#[derive(Default)]
pub(super) struct RowSampler {
    edges: BTreeSet<usize>,
    sent: Option<Instant>,
}

impl RowSampler {
    /// Starts or stops keeping the rows of a queue.
    pub fn keep(&mut self, taps: &[Arc<Tap>], edge: usize, is_kept: bool) {
        let Some(tap) = taps.get(edge) else { return };
        tap.set_open(is_kept);
        match is_kept {
            true => self.edges.insert(edge),
            false => self.edges.remove(&edge),
        };
    }

    /// Sends the rows of all these queues, if the interval has passed.
    pub fn send(&mut self, taps: &[Arc<Tap>], master: &ControlSender<ControlEvent>) {
        if self.edges.is_empty() || self.sent.is_some_and(|sent| sent.elapsed() < SEND_INTERVAL) {
            return;
        }
        self.sent = Some(Instant::now());
        for edge in self.edges.iter().copied() {
            let kept = taps[edge].rows();
            // Rows that cannot be shown as text are skipped.
            let Ok(mut rows) = last_texts(&kept, ROWS_MAX) else { continue };
            if rows.is_empty() {
                continue;
            }
            let bytes = control::write(&rows).len();
            let most = rows.len() * ROWS_BYTES_MAX / bytes.max(ROWS_BYTES_MAX);
            rows.drain(..rows.len() - most);
            master
                .send(&ControlEvent::Rows { edge }, vec![Buffer::from_vec(control::write(&rows))]);
        }
    }
}
