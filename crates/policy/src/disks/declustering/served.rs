//! The state of one reader at a disk: its claims, progress and requests in flight.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::protocol::ReadProgress;

/// The state of one reader at a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct ReaderAtDisk {
    /// The number of this copy of the reader's segment; 0 is the primary.
    pub rank: usize,
    /// Memory of the order for this reader; its meaning depends on the order.
    pub memory: i64,
    /// Unused bandwidth of this reader, for `DiskShares`.
    pub credit: i64,
    /// Bytes left at the last comparison, for `DiskShares`.
    pub mark_bytes: u64,
    /// Waiting claims, oldest first.
    pub claims: VecDeque<WaitingClaim>,
    /// Requests of this reader in flight at the disk.
    pub begun: Vec<Begun>,
    progress: ReadProgress,
    /// Bytes that this disk has begun for the reader.
    pub begun_bytes: u64,
    /// Whether the reader has been told that the disk is idle.
    pub knows_idle: bool,
    /// Whether the reader has ended.
    pub is_gone: bool,
    /// Whether the reader is on another machine.
    pub is_far: bool,
    /// Whether too many blocks are in flight to the reader.
    pub is_held_up: bool,
}

/// A claim that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingClaim {
    pub block: u32,
    pub bytes: u64,
    pub arrival: u64,
    pub is_speculative: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub block: u32,
    pub is_wanted: bool,
}

impl ReaderAtDisk {
    /// A reader that has claimed nothing yet.
    pub fn new(rank: usize) -> ReaderAtDisk {
        ReaderAtDisk { rank, ..ReaderAtDisk::default() }
    }

    /// The next claim to begin for this reader, unless it is held up.
    pub fn next(&self) -> Option<WaitingClaim> {
        self.claims.front().copied().filter(|_| !self.is_held_up)
    }

    /// The latest progress that the reader has reported.
    pub fn progress(&self) -> ReadProgress {
        self.progress
    }

    /// Bytes of the segment that no disk has begun, as far as this disk knows.
    pub fn open_bytes(&self) -> u64 {
        self.progress.open_bytes.saturating_sub(self.begun_bytes - self.progress.seen_bytes)
    }

    /// Removes a waiting claim; false if there is none.
    pub fn drop_claim(&mut self, block: u32) -> bool {
        let at = self.claims.iter().position(|claim| claim.block == block);
        at.and_then(|at| self.claims.remove(at)).is_some()
    }

    /// The reader reports its progress.
    pub fn on_progress(&mut self, progress: ReadProgress) {
        if self.mark_bytes == 0 {
            self.mark_bytes = progress.left_bytes;
        }
        self.progress = progress;
    }
}
