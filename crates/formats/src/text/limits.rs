//! How long a record of a text may be, and what a reader may hold.
//!
//! A record is held whole, several times over (its text, its fields, the column), and what is
//! decompressed may be a thousand times as large as its file. So its length is bounded before it is
//! read to its end, by the memory of the flow where that is known.

use euphrates_flow::sample_limit::sample_bytes_max;
use euphrates_flow::turns::{Turn, turn};
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result};

/// A batch of records that are longer than expected ends when it has this many bytes.
pub const TEXT_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;

/// What is held of a text at a time where records are of a usual length: less than two batches.
pub const USUAL_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;

/// The longest record of an input without a memory budget.
pub const RECORD_BYTES_MAX: usize = 32 << 20;

/// With a budget of 512 MiB records may be longer.
const SHORT_BYTES: usize = 64 << 20;

/// Offsets into a batch have 31 bits.
const OFFSET_MAX: usize = 1 << 30;

/// What a reader of a split may hold.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Bytes beyond a few batches, of formats that unpack pages or messages.
    pub held_bytes_max: usize,
    /// The longest record of a text. Longer ones than usual are decoded in turns.
    pub record_bytes_max: usize,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { held_bytes_max: usize::MAX, record_bytes_max: usize::MAX }
    }
}

/// Watches what is held of a text.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimit {
    bytes_max: usize,
    in_turns: bool,
}

impl RecordLimit {
    /// For a pipe. Its reader may wait for another instance that writes to it, so it takes no
    /// turns.
    pub fn of_pipe() -> RecordLimit {
        RecordLimit { bytes_max: RECORD_BYTES_MAX, in_turns: false }
    }

    /// For a file.
    pub fn of_file(limits: &ReadLimits) -> RecordLimit {
        RecordLimit { bytes_max: limits.record_bytes_max.min(OFFSET_MAX), in_turns: true }
    }

    /// Whether there is so little memory that a split of a file is a good part of it.
    pub fn is_short(&self) -> bool {
        self.bytes_max < SHORT_BYTES
    }

    /// Called with the bytes of the batch in the making: takes the turn for a long one.
    pub fn hold(&self, bytes: usize, held: &mut Option<Turn>) {
        if self.in_turns && bytes > USUAL_BYTES_MAX && held.is_none() {
            *held = Some(turn());
        }
    }

    /// Whether a record is too long that has not ended within these bytes of a batch, in which
    /// whole records may stand before it.
    pub fn is_passed(&self, bytes: usize) -> bool {
        bytes > self.bytes_max.saturating_add(TEXT_BYTES_MAX)
    }

    /// The error of a record that is.
    pub fn error(&self) -> Error {
        let message = format!("a record is longer than {} MiB", self.bytes_max.div_ceil(1 << 20));
        let remedy = match self.in_turns && self.bytes_max < OFFSET_MAX {
            true => "give the flow more memory (`memory=`), or check the format and its options",
            false => "check the format and its options; a file may have longer records than a pipe",
        };
        Error::resource(message).remedy(remedy)
    }
}

/// How much to look at next if no record ends within a sample; fails if that is too much.
pub fn longer_sample(bytes: u64) -> Result<u64> {
    let bytes_max = sample_bytes_max() as u64;
    if bytes < bytes_max {
        return Ok((bytes * 2).min(bytes_max));
    }
    let message = format!("the first record is longer than {} MiB", bytes_max >> 20);
    Err(Error::resource(message)
        .remedy("give the flow more memory (`memory=`), or check the format and its options"))
}
