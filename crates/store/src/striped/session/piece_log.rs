//! The log of a writer of a session: pieces of stripes that are not complete, for the commit.

use std::ops::Range;

use euphrates_flow::Result;

use super::folder::{SessionFolder, begin_writer};
use super::share::SharePiece;
use crate::striped::writer::StripedWriter;

/// A log, from the first piece on.
#[derive(Debug)]
pub(super) struct PieceLog {
    session: SessionFolder,
    run_id: String,
    pub writer: Option<StripedWriter>,
    pub pieces: Vec<SharePiece>,
}

impl PieceLog {
    pub fn new(session: SessionFolder, run_id: &str) -> PieceLog {
        PieceLog { session, run_id: run_id.to_string(), writer: None, pieces: vec![] }
    }

    /// Appends pieces of a stripe, each with the number of its sender. Their bytes lie one after
    /// the other in `content`.
    pub fn append(
        &mut self,
        stripe: usize,
        pieces: impl Iterator<Item = (Range<usize>, u32)>,
        content: &[u8],
    ) -> Result<()> {
        let start = stripe as u64 * self.session.plan.layout.stripe_bytes();
        let log = match &mut self.writer {
            Some(log) => log,
            empty => empty.insert(begin_writer(&self.session, &self.run_id, true)?),
        };
        let mut at = log.bytes();
        log.write_at(at, content)?;
        for (range, sender) in pieces {
            let (offset, bytes) = (start + range.start as u64, range.len() as u64);
            self.pieces.push(SharePiece { offset, bytes, at, sender });
            at += bytes;
        }
        Ok(())
    }
}
