//! Checking a segment without decoding it: every byte is under one of its checksums.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use euphrates_flow::Result;
use euphrates_policy::device::Way;

use super::Segment;
use crate::disk::DiskFile;

/// Read at a time.
const STEP_BYTES: u64 = 4 << 20;

/// Something that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The block, if it is one.
    pub block: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            Some(block) => write!(f, "{}: block {block}: {}", self.path.display(), self.what),
            None => write!(f, "{}: {}", self.path.display(), self.what),
        }
    }
}

impl Segment {
    /// Compares every byte with the checksums. Fails only if the file cannot be read; what is
    /// read and wrong is returned.
    pub fn verify(&self) -> Result<Vec<Damage>> {
        let file = self.file()?;
        let mut damages = vec![];
        let mut found = |block, what: &str| {
            damages.push(Damage { path: self.path().into(), block, what: what.into() });
        };
        let mut rest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut end = 0;
        for (index, block) in self.blocks().iter().enumerate() {
            self.digest(&file, end, block.offset, &mut rest)?;
            end = block.end();
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            self.digest(&file, block.offset, end, &mut digest)?;
            if digest.finalize() as u32 != block.crc {
                found(Some(index), "its checksum is wrong");
            }
        }
        self.digest(&file, end, self.bytes(), &mut rest)?;
        if rest.finalize() as u32 != self.toc().rest_crc {
            found(None, "its header or footer is damaged; its blocks can still be read");
        }
        Ok(damages)
    }

    fn digest(&self, file: &Arc<DiskFile>, from: u64, to: u64, digest: &mut Digest) -> Result<()> {
        let mut at = from;
        while at < to {
            let step = (to - at).min(STEP_BYTES);
            let bytes = self.disk().read_at(file, at, step as usize, Way::Buffered)?.wait()?;
            digest.update(&bytes);
            at += step;
        }
        Ok(())
    }
}
