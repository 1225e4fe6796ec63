//! The stripes that a writer of a session writes to disks, itself or by the threads that receive
//! pieces of others.

use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;

use super::folder::{SessionFolder, begin_writer};
use crate::striped::dirty::DirtyStripe;
use crate::striped::writer::StripedWriter;

/// The writer of filled stripes, from the first on.
#[derive(Debug)]
pub(super) struct FilledStripes {
    session: SessionFolder,
    run_id: String,
    writer: Mutex<Option<StripedWriter>>,
}

impl FilledStripes {
    pub fn new(session: SessionFolder, run_id: &str) -> FilledStripes {
        FilledStripes { session, run_id: run_id.to_string(), writer: Mutex::new(None) }
    }

    /// Whether a stripe has been written, or has changes in memory.
    pub fn has(&self, stripe: usize) -> bool {
        self.writer.lock().as_ref().is_some_and(|writer| writer.has_stripe(stripe))
    }

    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.with(|writer| writer.write_at(offset, from))
    }

    /// Writes a stripe that its caller has filled.
    pub fn put(&self, stripe: usize, filled: DirtyStripe) -> Result<()> {
        self.with(|writer| writer.put_stripe(stripe, filled))
    }

    fn with<T>(&self, act: impl FnOnce(&mut StripedWriter) -> Result<T>) -> Result<T> {
        let mut writer = self.writer.lock();
        match &mut *writer {
            Some(writer) => act(writer),
            empty => act(empty.insert(begin_writer(&self.session, &self.run_id, false)?)),
        }
    }

    /// As `with`, unless no stripe was ever filled.
    pub fn with_any<T>(
        &self,
        act: impl FnOnce(&mut StripedWriter) -> Result<T>,
    ) -> Result<Option<T>> {
        self.writer.lock().as_mut().map(act).transpose()
    }
}

impl StripedWriter {
    /// Whether a stripe has been written, or has changes in memory.
    fn has_stripe(&self, stripe: usize) -> bool {
        let written = self.version.map.stripes.get(stripe);
        self.dirty.has(stripe) || written.is_some_and(|entry| !entry.blocks.is_empty())
    }
}
