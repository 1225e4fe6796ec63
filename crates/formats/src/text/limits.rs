//! Limits on the length of text records and on the memory of readers.
//!
//! A record is held whole, several times over (its text, its fields, the column), and decompressed
//! text may be a thousand times as large as its file. So the length of a record is limited before
//! its end is read, by the memory of the flow where that is known.

use euphrates_flow::long_rows::{LongRowTurn, turn};
use euphrates_flow::sample_limit::sample_bytes_max;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result};

/// A batch of records that are longer than expected ends at this many bytes.
pub const TEXT_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;

/// The most bytes of text held at a time while records have a usual length.
pub const HELD_TEXT_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;

/// The longest record of an input without a memory budget.
pub const RECORD_BYTES_MAX: usize = 32 << 20;

/// Below this record limit, splits are read in pieces of about 1 MiB to save memory.
const PIECEWISE_BYTES_MAX: usize = 64 << 20;

/// Offsets into a batch have 31 bits.
const OFFSET_MAX: usize = 1 << 30;

/// The most that a reader of a split may hold.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Bytes beyond a few batches, for formats that decompress pages or messages.
    pub held_bytes_max: usize,
    /// The longest record of a text in bytes. Readers decode longer records than usual one at a
    /// time.
    pub record_bytes_max: usize,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { held_bytes_max: usize::MAX, record_bytes_max: usize::MAX }
    }
}

/// Enforces the record limit of a text.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimit {
    bytes_max: usize,
    one_at_a_time: bool,
}

impl RecordLimit {
    /// The limit of a pipe. Its reader may wait for another instance that writes to it, so readers
    /// do not decode long records one at a time.
    pub fn of_pipe() -> RecordLimit {
        RecordLimit { bytes_max: RECORD_BYTES_MAX, one_at_a_time: false }
    }

    /// The limit of a file; the `i32` offsets of a batch bound it too.
    pub fn of_file(limits: &ReadLimits) -> RecordLimit {
        RecordLimit { bytes_max: limits.record_bytes_max.min(OFFSET_MAX), one_at_a_time: true }
    }

    /// Whether memory is so short that a split of a file is a considerable part of it.
    pub fn is_short(&self) -> bool {
        self.bytes_max < PIECEWISE_BYTES_MAX
    }

    /// Acquires the process-wide turn if the current batch of `bytes` is longer than usual.
    pub fn hold(&self, bytes: usize, held: &mut Option<LongRowTurn>) {
        if self.one_at_a_time && bytes > HELD_TEXT_BYTES_MAX && held.is_none() {
            *held = Some(turn());
        }
    }

    /// Whether an unfinished record is too long, given the bytes of its batch, which may include
    /// complete records before it.
    pub fn is_passed(&self, bytes: usize) -> bool {
        bytes > self.bytes_max.saturating_add(TEXT_BYTES_MAX)
    }

    /// The error of a record that is too long.
    pub fn error(&self) -> Error {
        let message = format!("a record is longer than {} MiB", self.bytes_max.div_ceil(1 << 20));
        let remedy = match self.one_at_a_time && self.bytes_max < OFFSET_MAX {
            true => "give the flow more memory (`memory=`), or check the format and its options",
            false => "check the format and its options; a file may have longer records than a pipe",
        };
        Error::resource(message).remedy(remedy)
    }
}

/// The next sample size if no record ends within this one; fails above the limit.
pub fn longer_sample(bytes: u64) -> Result<u64> {
    let bytes_max = sample_bytes_max() as u64;
    if bytes < bytes_max {
        return Ok((bytes * 2).min(bytes_max));
    }
    let message = format!("the first record is longer than {} MiB", bytes_max >> 20);
    Err(Error::resource(message)
        .remedy("give the flow more memory (`memory=`), or check the format and its options"))
}
