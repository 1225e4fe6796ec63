//! A session: several writers fill one new version of a striped file, and one process commits it.
//!
//! Writers are processes or threads that see the home and its disks. In a collective session they
//! also send pieces of stripes to each other, over sockets in the session's folder (`service.rs`).
//! The process that begins the session holds a lock in the home as long as the session is open.
//! Each writer has segments of its own on the disks, and leaves a share in the session's folder
//! when it ends (`share.rs`). The commit combines the shares (`combine.rs`): it adopts their
//! stripes, and writes the other stripes from their pieces. If the process that began the session
//! dies, the lock is free, and the next reclaim removes what the writers have left.

mod assembly;
mod attribution;
mod combine;
mod exchange;
mod filled;
mod folder;
mod frames;
mod partial;
mod piece_log;
mod ranges;
mod sender;
mod service;
mod share;
mod share_writer;

use std::collections::BTreeMap;
use std::path::{Path, absolute};
use std::sync::Arc;

use euphrates_device::disk::{Disks, at_once};
use euphrates_device::scratch::{self, LockedFolder, hold};
use euphrates_flow::{Error, Owner, Result};

use super::begin::plan;
use super::map::StripeEntry;
use super::options::StripedOptions;
use super::placement::SegmentPurpose;
use super::reader::RangeReader;
use super::version::StripedVersion;
use super::writer::StripedWriter;
use crate::catalog::{Catalog, Manifest};
use crate::collection::{SESSIONS, attempt, reclaim_disk};
use combine::{CombinedShares, combine, missing_error};
use folder::{SessionFolder, SessionPlan, ended_error};
use share::{SharePiece, WriterShare};
pub use share_writer::ShareWriter;

/// Stripes of a writer's log that the commit reads ahead, and of all logs.
const LOG_STRIPES_MAX: usize = 4;
const ALL_LOGS_STRIPES_MAX: usize = 64;

/// An open session. Dropping it before the commit abandons it.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedReader, StripedSession};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut session = StripedSession::begin(home.path(), "letters", options, 2, true)?;
/// for (number, letters) in [(1, b"cd"), (0, b"ab")] {
///     let id = session.id();
///     let mut writer = StripedSession::join(home.path(), id, number, "run")?;
///     writer.write_at(2 * number as u64, letters)?;
///     if number == 1 {
///         writer.end()?;
///         assert!(session.commit().is_err(), "writer 0 has not ended");
///     } else {
///         writer.end()?;
///     }
/// }
/// session.commit()?;
/// let mut read = [0; 4];
/// StripedReader::open(home.path(), "letters")?.read_at(0, &mut read)?;
/// assert_eq!(&read, b"abcd");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StripedSession {
    folder: SessionFolder,
    before: Option<Manifest>,
    run_id: String,
    held: Option<LockedFolder>,
    owner: Owner,
}

impl StripedSession {
    /// Begins a session of this number of writers. If it is collective, writers send pieces of
    /// stripes that they do not fill to the writers that own the stripes.
    pub fn begin(
        home: &Path,
        name: &str,
        options: StripedOptions,
        writers: usize,
        is_collective: bool,
    ) -> Result<StripedSession> {
        if writers == 0 {
            return Err(Error::usage("a session needs a writer").remedy("let `writers` be 1"));
        }
        let (before, layout) = plan(home, name, &options)?;
        let home = absolute(home).map_err(|error| Error::os("find", home, &error))?;
        let (parent, id) = (home.join(SESSIONS), attempt(&options.run_id));
        scratch::reclaim(&parent);
        let held = hold(&parent, &id)?;
        let plan = SessionPlan { name: name.to_string(), layout, writers, is_collective };
        let folder = SessionFolder { home, id, plan };
        folder.write()?;
        let (held, owner) = (Some(held), Owner::here());
        Ok(StripedSession { folder, before, run_id: options.run_id, held, owner })
    }

    /// Begins one of the writers of a session, which another process may have begun.
    pub fn join(home: &Path, id: &str, number: usize, run_id: &str) -> Result<ShareWriter> {
        ShareWriter::begin(SessionFolder::find(home, id)?, number, run_id)
    }

    /// Distinguishes this session from all others of its home.
    pub fn id(&self) -> &str {
        &self.folder.id
    }

    /// The number of writers.
    pub fn writers(&self) -> usize {
        self.folder.plan.writers
    }

    /// The writers that have not ended.
    pub fn missing(&self) -> Vec<usize> {
        let folder = self.folder.folder();
        let is_missing = |number: &usize| !share::share_path(&folder, *number).exists();
        (0..self.writers()).filter(is_missing).collect()
    }

    /// Publishes what the writers have written, as one version, and ends the session. Fails if a
    /// writer has not ended, if two have written the same byte, or if another version was published
    /// since the session began; after such an error the session is still open.
    pub fn commit(&mut self) -> Result<u64> {
        self.owner.check("the session")?;
        let name = &self.folder.plan.name;
        let version = self.publish().map_err(|error| error.at(format!("striped file {name}")))?;
        self.end();
        Ok(version)
    }

    fn publish(&self) -> Result<u64> {
        if self.held.is_none() {
            return Err(ended_error());
        }
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(missing_error(&missing, self.writers()));
        }
        let SessionFolder { home, plan, .. } = &self.folder;
        let (folder, layout) = (self.folder.folder(), plan.layout.clone());
        let mut version = StripedVersion::empty(home, &plan.name, layout.clone())?;
        let stripe_bytes = version.stripe_bytes();
        let read = |number: usize| {
            let share = WriterShare::read(&folder, number, stripe_bytes)?;
            share.ok_or_else(|| missing_error(&[number], plan.writers))
        };
        let mut shares: Vec<WriterShare> = (0..plan.writers).map(read).collect::<Result<_>>()?;
        let combined = combine(&shares, stripe_bytes)?;
        for (number, share) in shares.iter_mut().enumerate() {
            for (stripe, entry) in share.stripes.map.stripes.iter_mut().enumerate() {
                if combined.adopted.get(&stripe).is_none_or(|writer| *writer != number) {
                    *entry = StripeEntry::default();
                }
            }
            version.adopt(&share.stripes)?;
        }
        let bytes = shares.iter().map(|share| share.bytes).max().unwrap_or(0);
        version.map.bytes = bytes;
        let (disks, before) = (&layout.disks[..], self.before.clone());
        let (disks, purpose) = ((disks, &self.run_id[..]), SegmentPurpose::Version);
        let mut writer = StripedWriter::begin(home, before, version, disks, purpose)?;
        self.write_pieces(&mut writer, &shares, &combined)?;
        if writer.bytes() > bytes {
            // A dead incarnation had written behind the end.
            writer.truncate(bytes)?;
        }
        writer.commit()
    }

    /// Writes what is not in adopted stripes.
    fn write_pieces(
        &self,
        writer: &mut StripedWriter,
        shares: &[WriterShare],
        combined: &CombinedShares,
    ) -> Result<()> {
        let SessionFolder { home, plan, .. } = &self.folder;
        let ahead = (ALL_LOGS_STRIPES_MAX / plan.writers).clamp(1, LOG_STRIPES_MAX) as u32;
        let mut logs: BTreeMap<usize, RangeReader> = BTreeMap::new();
        for (number, share) in shares.iter().enumerate() {
            if let Some(log) = &share.log {
                let mut all = StripedVersion::empty(home, &plan.name, plan.layout.clone())?;
                all.adopt_log(log)?;
                logs.insert(number, RangeReader::new(Arc::new(all), Some(ahead)));
            }
        }
        for range in combined.cleared.values().flatten() {
            writer.write_at(range.start, &vec![0; (range.end - range.start) as usize])?;
        }
        let mut buffer = vec![];
        for (number, all) in combined.pieces.values().flatten() {
            let log = logs.get(number).ok_or_else(|| Error::corrupt("a share has no log"))?;
            // Pieces that a writer has spilled together lie together.
            for run in all.chunk_by(|one, next| one.at + one.bytes == next.at) {
                buffer.resize(run.iter().map(|piece| piece.bytes as usize).sum(), 0);
                if log.read_at(run[0].at, &mut buffer)? < buffer.len() {
                    return Err(Error::corrupt("the log of a share is too short"));
                }
                let mut rest = &buffer[..];
                for SharePiece { offset, bytes, .. } in run {
                    let (now, later) = rest.split_at(*bytes as usize);
                    writer.write_at(*offset, now)?;
                    rest = later;
                }
            }
        }
        Ok(())
    }

    /// Ends the session, and removes what has not been published.
    pub fn abandon(&mut self) {
        if self.owner.is_here() {
            self.end();
        }
    }

    fn end(&mut self) {
        let Some(held) = self.held.take() else { return };
        held.remove();
        let home = &self.folder.home;
        // The next start finds what cannot be removed now, by the notes on the disks.
        if let (Ok(catalog), Ok(disks)) = (Catalog::of(home), Disks::of(home)) {
            let names = &self.folder.plan.layout.disks;
            let reclaimed = at_once(names.iter().filter_map(|it| disks.open(it).ok()), |disk| {
                reclaim_disk(home, &disk, &catalog);
                Ok(())
            });
            drop(reclaimed);
        }
    }
}

impl Drop for StripedSession {
    fn drop(&mut self) {
        self.abandon();
    }
}
