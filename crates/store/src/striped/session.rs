//! A session: several writers fill one new version of a striped file, and one process commits it.
//!
//! Writers are processes or threads that see the home and its disks; nothing else connects them.
//! The process that begins the session holds a lock in the home as long as the session is open.
//! Each writer has segments of its own on the disks, and leaves a share in the session's folder
//! when it ends (`share.rs`). The commit adopts the stripes of all shares, and writes the stripes
//! that several writers share from their pieces. If the process that began the session dies, the
//! lock is free, and the next reclaim removes what the writers have left.

mod folder;
mod partial;
mod ranges;
mod share;
mod share_writer;

use std::collections::BTreeMap;
use std::path::{Path, absolute};
use std::sync::Arc;

use euphrates_device::disk::{Disks, at_once};
use euphrates_device::scratch::{self, LockedFolder, hold};
use euphrates_flow::{Error, Owner, Result};

use super::begin::plan;
use super::options::StripedOptions;
use super::placement::SegmentPurpose;
use super::reader::RangeReader;
use super::version::StripedVersion;
use super::writer::StripedWriter;
use crate::catalog::{Catalog, Manifest};
use crate::collection::{SESSIONS, attempt, reclaim_disk};
use folder::{SessionFolder, SessionPlan, ended_error};
use ranges::Ranges;
use share::{SharePiece, WriterShare};
pub use share_writer::ShareWriter;

/// Stripes of a writer's log that the commit reads ahead, and of all logs.
const LOG_STRIPES_MAX: usize = 4;
const ALL_LOGS_STRIPES_MAX: usize = 64;
/// Writers that an error names, at most.
const NAMED_MAX: usize = 8;

/// An open session. Dropping it before the commit abandons it.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedReader, StripedSession};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut session = StripedSession::begin(home.path(), "letters", options, 2)?;
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

/// The pieces of one stripe that a writer has written, in the order of its log.
type WriterPieces = (usize, Vec<SharePiece>);

impl StripedSession {
    /// Begins a session of this number of writers.
    pub fn begin(
        home: &Path,
        name: &str,
        options: StripedOptions,
        writers: usize,
    ) -> Result<StripedSession> {
        if writers == 0 {
            return Err(Error::usage("a session needs a writer").remedy("let `writers` be 1"));
        }
        let (before, layout) = plan(home, name, &options)?;
        let home = absolute(home).map_err(|error| Error::os("find", home, &error))?;
        let (parent, id) = (home.join(SESSIONS), attempt(&options.run_id));
        scratch::reclaim(&parent);
        let held = hold(&parent, &id)?;
        let plan = SessionPlan { name: name.to_string(), layout, writers };
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
        let layout = plan.layout.clone();
        let mut version = StripedVersion::empty(home, &plan.name, layout.clone())?;
        let folder = self.folder.folder();
        let stripe_bytes = version.stripe_bytes();
        let mut bytes = 0;
        let mut owners: BTreeMap<usize, usize> = BTreeMap::new();
        let mut pieces: BTreeMap<usize, Vec<WriterPieces>> = BTreeMap::new();
        let mut logs: BTreeMap<usize, RangeReader> = BTreeMap::new();
        let ahead = (ALL_LOGS_STRIPES_MAX / plan.writers).clamp(1, LOG_STRIPES_MAX) as u32;
        for number in 0..plan.writers {
            let share = WriterShare::read(&folder, number, stripe_bytes)?;
            let share = share.ok_or_else(|| missing_error(&[number], plan.writers))?;
            bytes = bytes.max(share.bytes);
            for stripe in version.adopt(&share.stripes)? {
                if let Some(other) = owners.insert(stripe, number) {
                    return Err(overlap_error(other, number, stripe as u64 * stripe_bytes));
                }
            }
            if let Some(log) = &share.log {
                let mut all = StripedVersion::empty(home, &plan.name, layout.clone())?;
                all.adopt_log(log)?;
                logs.insert(number, RangeReader::new(Arc::new(all), Some(ahead)));
            }
            for piece in share.pieces {
                let of_stripe = pieces.entry((piece.offset / stripe_bytes) as usize).or_default();
                match of_stripe.last_mut().filter(|(writer, _)| *writer == number) {
                    Some((_, all)) => all.push(piece),
                    None => of_stripe.push((number, vec![piece])),
                }
            }
        }
        for (stripe, of_stripe) in &pieces {
            expect_disjoint(of_stripe, owners.get(stripe).copied())?;
        }
        version.map.bytes = bytes;
        let (disks, before) = (&layout.disks[..], self.before.clone());
        let (disks, purpose) = ((disks, &self.run_id[..]), SegmentPurpose::Version);
        let mut writer = StripedWriter::begin(home, before, version, disks, purpose)?;
        let mut buffer = vec![];
        for (number, all) in pieces.values().flatten() {
            let log = logs.get(number).ok_or_else(|| Error::corrupt("a share has no log"))?;
            // Pieces that a writer has spilled together lie together.
            for run in all.chunk_by(|one, next| one.at + one.bytes == next.at) {
                buffer.resize(run.iter().map(|piece| piece.bytes as usize).sum(), 0);
                if log.read_at(run[0].at, &mut buffer)? < buffer.len() {
                    return Err(Error::corrupt("the log of a share is too short"));
                }
                let mut rest = &buffer[..];
                for piece in run {
                    let (now, later) = rest.split_at(piece.bytes as usize);
                    writer.write_at(piece.offset, now)?;
                    rest = later;
                }
            }
        }
        writer.commit()
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

/// Fails if two writers have written the same byte of a stripe, which one of them may have filled.
fn expect_disjoint(of_stripe: &[WriterPieces], owner: Option<usize>) -> Result<()> {
    if let (Some(owner), Some((number, pieces))) = (owner, of_stripe.first()) {
        return Err(overlap_error(owner, *number, pieces[0].offset));
    }
    let mut before: Vec<(usize, Ranges)> = vec![];
    for (number, pieces) in of_stripe {
        let mut own = Ranges::default();
        for piece in pieces {
            let range = piece.offset..piece.offset + piece.bytes;
            for (other, known) in &before {
                if let Some(byte) = known.first_common(&range) {
                    return Err(overlap_error(*other, *number, byte));
                }
            }
            own.add(range);
        }
        before.push((*number, own));
    }
    Ok(())
}

fn overlap_error(one: usize, other: usize, byte: u64) -> Error {
    Error::usage(format!("writers {one} and {other} have both written byte {byte}"))
        .remedy("give each writer ranges of its own")
}

fn missing_error(missing: &[usize], writers: usize) -> Error {
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = missing.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (noun, verb) = if missing.len() == 1 { ("writer", "has") } else { ("writers", "have") };
    let named = named.join(", ");
    Error::usage(format!("{noun} {named}{more} of {writers} {verb} not ended"))
        .remedy("close the file of each writer before the commit, or abandon the session")
}
