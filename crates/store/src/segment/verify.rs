//! Verification of a segment without decoding: one of its checksums covers every byte.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::buffer::Buffer;
use crc_fast::{CrcAlgorithm, Digest};
use euphrates_flow::Result;
use euphrates_policy::io_path::IoPath;

use super::{Block, Segment};
use euphrates_device::disk::DiskFile;

/// The bytes of one read.
const STEP_BYTES: u64 = 4 << 20;

/// A difference from what was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// The disk of the damaged file, by name.
    pub disk: String,
    /// The path of the damaged file: relative to the disk's folder if the copy could not be opened,
    /// else absolute.
    pub path: PathBuf,
    /// The damaged block; `None` for a manifest, a whole copy, or the bytes outside the blocks.
    pub block: Option<usize>,
    /// A description, for messages.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}: {}: ", self.disk, self.path.display())?;
        match self.block {
            Some(block) => write!(f, "block {block}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Segment {
    /// Compares every byte with the checksums, and returns the damages; bytes that cannot be read
    /// are damages as well. Fails only if the file cannot be opened.
    pub fn verify(&self) -> Result<Vec<Damage>> {
        let file = self.file()?;
        let mut damages = vec![];
        let mut found = |block, what: String| damages.push(self.damage(block, what));
        for (index, block) in self.blocks().iter().enumerate() {
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            match self.digest(&file, block.offset..block.end(), &mut digest) {
                Err(error) => found(Some(index), error.message().to_string()),
                Ok(()) if digest.finalize() as u32 != block.crc => {
                    found(Some(index), "its checksum is wrong".to_string());
                }
                Ok(()) => {}
            }
        }
        let mut rest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let read = self.gaps().try_for_each(|gap| self.digest(&file, gap, &mut rest));
        if read.is_err() || rest.finalize() as u32 != self.toc().rest_crc {
            let what = "its header or footer is damaged; its blocks can still be read";
            found(None, what.to_string());
        } else if let Err(error) = self.expect_length(file.bytes()) {
            found(None, error.message().to_string());
        }
        Ok(damages)
    }

    /// A damage of this file.
    pub(crate) fn damage(&self, block: Option<usize>, what: String) -> Damage {
        Damage { disk: self.disk().name().to_string(), path: self.path().into(), block, what }
    }

    /// The ranges outside all blocks: before, between and after them.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Range<u64>> {
        let starts = [0].into_iter().chain(self.blocks().iter().map(Block::end));
        let ends = self.blocks().iter().map(|block| block.offset).chain([self.bytes()]);
        starts.zip(ends).map(|(start, end)| start..end)
    }

    /// Splits a range of the file into pieces.
    pub(crate) fn pieces(
        &self,
        file: &Arc<DiskFile>,
        range: Range<u64>,
        mut each: impl FnMut(Buffer) -> Result<()>,
    ) -> Result<()> {
        for at in range.clone().step_by(STEP_BYTES as usize) {
            let step = (range.end - at).min(STEP_BYTES);
            each(self.disk().read_at(file, at, step as usize, IoPath::Buffered)?.wait()?)?;
        }
        Ok(())
    }

    fn digest(&self, file: &Arc<DiskFile>, range: Range<u64>, digest: &mut Digest) -> Result<()> {
        self.pieces(file, range, |bytes| {
            digest.update(&bytes);
            Ok(())
        })
    }
}
