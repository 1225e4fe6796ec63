//! A staged striped file: a writer of stripes, whose manifest is published with the other outputs
//! of the flow.

use std::path::PathBuf;

use arrow::buffer::Buffer;
use euphrates_device::storage_options::StorageOptions;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_policy::commit::OutputState;

use crate::append::StagedOutput;
use crate::catalog::Catalog;
use crate::collection::{NameReservation, NewVersion, reclaim};
use crate::commit::PreparedOutput;
use crate::striped::{StripedOptions, StripedWriter, name_of_path, options_of};

/// Checks that a striped file may be written; changes nothing.
pub(super) fn check(path: &str, overwrite: bool, storage: &StorageOptions) -> Result<()> {
    let options = StripedOptions { overwrite, ..options_of(storage)? };
    StripedWriter::check(storage.striped()?.home(), &name_of_path(path.as_bytes()), &options)
}

/// The folder with the reservation of a file's name, if there is one.
pub(super) fn reserved_in(path: &str, storage: &StorageOptions) -> Option<PathBuf> {
    let catalog = Catalog::of(storage.striped().ok()?.home()).ok()?;
    catalog.reserves_in(&name_of_path(path.as_bytes()))
}

/// Removes what dead processes have staged on the disks of a home.
pub(super) fn reclaim_home(storage: &StorageOptions) {
    // The next start, or `euphrates gc`, removes the rest.
    let _ = storage.striped().and_then(|files| reclaim(files.home()));
}

/// A striped file that is being written.
pub(super) struct StripedOutput {
    state: Mutex<StagedStripes>,
    decision: Option<DecisionRef>,
}

struct StagedStripes {
    /// `None` after the publication, or when it has been abandoned or left.
    writer: Option<StripedWriter>,
    prepared: Option<(NewVersion, NameReservation)>,
}

impl StripedOutput {
    pub fn create(
        path: &str,
        overwrite: bool,
        storage: &StorageOptions,
        (run_id, decision): (&str, Option<DecisionRef>),
    ) -> Result<StripedOutput> {
        let options =
            StripedOptions { overwrite, run_id: run_id.to_string(), ..options_of(storage)? };
        let name = name_of_path(path.as_bytes());
        let writer = StripedWriter::create(storage.striped()?.home(), &name, options)?;
        let state = StagedStripes { writer: Some(writer), prepared: None };
        Ok(StripedOutput { state: Mutex::new(state), decision })
    }

    fn with<T>(&self, act: impl FnOnce(&mut StripedWriter) -> Result<T>) -> Result<T> {
        act(self.state.lock().writer.as_mut().ok_or_else(Error::interrupted)?)
    }
}

impl StagedOutput for StripedOutput {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let mut offset = offset;
        // One after the other: writers encode in parallel, and disks have queues of their own.
        self.with(|writer| {
            parts.iter().try_for_each(|part| {
                writer.write_at(offset, part)?;
                offset += part.len() as u64;
                Ok(())
            })
        })
    }

    fn sync_contents(&self, bytes: u64) -> Result<()> {
        self.with(|writer| {
            if writer.bytes() != bytes {
                let message = format!("{} bytes were written of {bytes}", writer.bytes());
                return Err(Error::corrupt(message));
            }
            writer.sync_stripes()
        })
    }

    fn reserve(&self) -> Result<Option<PreparedOutput>> {
        let mut state = self.state.lock();
        let writer = state.writer.as_mut().ok_or_else(Error::interrupted)?;
        let prepared = writer.prepare(self.decision.as_ref())?;
        let version = prepared.0.clone();
        state.prepared = Some(prepared);
        Ok(Some(PreparedOutput::Collection(Box::new(version))))
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        let Some((version, _)) = state.prepared.take() else { return };
        let Some(mut writer) = state.writer.take() else { return };
        match version.state() {
            OutputState::Published => writer.forget_staged(),
            // The note in its staging folder records for the next start what is left.
            _ => writer.leave_staged(),
        }
    }

    fn abandon(&self) {
        let mut state = self.state.lock();
        let prepared = state.prepared.take();
        let Some(mut writer) = state.writer.take() else { return };
        if let Some((version, named)) = prepared {
            match version.state() {
                OutputState::Published => return writer.forget_staged(),
                OutputState::OutOfReach => return writer.leave_staged(),
                _ => named.release(),
            }
        }
        drop(writer);
    }
}

impl Drop for StripedOutput {
    fn drop(&mut self) {
        self.abandon();
    }
}
