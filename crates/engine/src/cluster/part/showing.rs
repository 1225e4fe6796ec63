//! Rows of queues, shown to the master for as long as somebody there looks at them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::row::last_texts;
use euphrates_flow::tap::{ROWS_MAX, Tap};

use crate::cluster::control::{self, Tell};
use crate::cluster::sender::ControlSender;

/// How often they are told.
const TELL: Duration = Duration::from_millis(500);
/// Bytes of rows that are told at once; of wider ones, fewer are.
const ROWS_BYTES_MAX: usize = 1 << 20;

/// The queues whose rows are shown.
#[derive(Default)]
pub(super) struct Showing {
    edges: BTreeSet<usize>,
    told: Option<Instant>,
}

impl Showing {
    /// The rows of a queue are shown, or no longer.
    pub fn keep(&mut self, taps: &[Arc<Tap>], edge: usize, is_kept: bool) {
        let Some(tap) = taps.get(edge) else { return };
        tap.open(is_kept);
        match is_kept {
            true => self.edges.insert(edge),
            false => self.edges.remove(&edge),
        };
    }

    /// Tells the rows of all of them, if it is time to.
    pub fn tell(&mut self, taps: &[Arc<Tap>], master: &ControlSender<Tell>) {
        if self.edges.is_empty() || self.told.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        self.told = Some(Instant::now());
        for edge in self.edges.iter().copied() {
            let kept = taps[edge].rows();
            // What cannot be shown as text is not worth a flow.
            let Ok(mut rows) = last_texts(&kept, ROWS_MAX) else { continue };
            if rows.is_empty() {
                continue;
            }
            let bytes = control::write(&rows).len();
            let most = rows.len() * ROWS_BYTES_MAX / bytes.max(ROWS_BYTES_MAX);
            rows.drain(..rows.len() - most);
            master.send(&Tell::Rows { edge }, vec![Buffer::from_vec(control::write(&rows))]);
        }
    }
}
