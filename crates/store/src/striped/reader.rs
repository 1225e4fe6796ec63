//! An open striped file for reading: ranges at any offset, by any number of threads.
//!
//! Consecutive reads, and reads of more than a stripe, are served by a scan, which reads ahead;
//! others by reads of single blocks.

use std::path::Path;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

use super::blocks::copy_out;
use super::scan::StripeScan;
use super::single::SingleBlocks;
use super::version::StripedVersion;
use crate::catalog::{Catalog, FileEntry, Manifest};
use crate::segment::Damage;

/// An open version of a striped file. It stays readable when a newer version replaces it.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut writer = StripedWriter::create(home.path(), "greeting", options)?;
/// writer.write_at(0, b"hello world")?;
/// writer.commit()?;
/// let reader = StripedReader::open(home.path(), "greeting")?;
/// let mut word = [0; 9];
/// assert_eq!(reader.read_at(6, &mut word)?, 5, "the file ends there");
/// assert_eq!(&word[..5], b"world");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StripedReader {
    manifest: Manifest,
    version: Arc<StripedVersion>,
    warning: Option<String>,
    singles: SingleBlocks,
    state: Mutex<SequentialReads>,
}

/// The consecutive reads of a handle.
#[derive(Debug, Default)]
struct SequentialReads {
    /// Where the last read ended.
    end: u64,
    /// Bytes read consecutively until there.
    bytes: u64,
    scan: Option<ScanCursor>,
}

/// A scan, and the stripe that it has delivered last.
#[derive(Debug)]
struct ScanCursor {
    scan: StripeScan,
    current: Option<(usize, Vec<Buffer>)>,
    /// The stripe from which on it can be read.
    from: usize,
    /// The stripe before which it ends.
    to: usize,
    /// Whether a stripe that it has read ahead is lost; those before it may be readable.
    has_failed: bool,
}

impl StripedReader {
    /// Opens the newest version of a file.
    pub fn open(home: &Path, name: &str) -> Result<StripedReader> {
        let found = Catalog::of(home)?.find_file(name)?;
        let warning = found.warning();
        let manifest = found.current()?;
        let version = StripedVersion::open(home, &manifest)
            .map_err(|error| error.at(format!("striped file {name}")))?;
        Ok(StripedReader {
            manifest,
            version: Arc::new(version),
            warning,
            singles: SingleBlocks::default(),
            state: Mutex::default(),
        })
    }

    /// The description of this version in the catalog.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The layout of its stripes.
    pub fn layout(&self) -> &FileEntry {
        &self.version.layout
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.version.map.bytes
    }

    /// A warning for readers if the manifest is damaged.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The damages that were met so far: what was read in spite of them is right.
    pub fn damages(&self) -> Vec<Damage> {
        self.version.damages.lock().clone()
    }

    /// Fills `to` from an offset on. Returns the number of bytes, which is less than asked for only
    /// at the end of the file. Fails if a stripe has lost more blocks than parity restores.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        let left = self.bytes().saturating_sub(offset);
        let count = (to.len() as u64).min(left) as usize;
        if count == 0 {
            return Ok(0);
        }
        let stripe_bytes = self.version.stripe_bytes();
        let first = (offset / stripe_bytes) as usize;
        let end = offset + count as u64;
        let (mut taken, begins) = {
            let mut state = self.state.lock();
            let is_next = state.end == offset;
            state.bytes = if is_next { state.bytes } else { 0 } + count as u64;
            state.end = end;
            let taken = state.scan.take_if(|cursor| (cursor.from..cursor.to).contains(&first));
            // A read of all that is left goes on to the end; a large one elsewhere ends with it.
            let stripes = self.version.map.stripes.len();
            let to = if is_next { stripes } else { end.div_ceil(stripe_bytes) as usize };
            (taken, (state.bytes >= stripe_bytes).then_some(to))
        };
        if let (None, Some(to)) = (&taken, begins) {
            let scan = StripeScan::begin(&self.version, first..to)?;
            taken = Some(ScanCursor { scan, current: None, from: first, to, has_failed: false });
        }
        let done = self.copy(offset, &mut to[..count], taken.as_mut());
        if let Some(cursor) = taken {
            let mut state = self.state.lock();
            match cursor.has_failed {
                true => state.bytes = 0,
                false => state.scan = Some(cursor).filter(|cursor| cursor.from < cursor.to),
            }
        }
        done.map(|()| count).map_err(|error| self.placed(error))
    }

    /// As `read_at`, for readers of ranges in no order: reads nothing ahead.
    pub(crate) fn read_apart(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        let left = self.bytes().saturating_sub(offset);
        let count = (to.len() as u64).min(left) as usize;
        let stripe_bytes = self.version.stripe_bytes();
        let whole = offset.div_ceil(stripe_bytes)..(offset + count as u64) / stripe_bytes;
        let whole = whole.start as usize..whole.end as usize;
        let mut scan = match whole.is_empty() {
            true => None,
            false => {
                let (scan, to) = (StripeScan::begin(&self.version, whole.clone())?, whole.end);
                Some(ScanCursor { scan, current: None, from: whole.start, to, has_failed: false })
            }
        };
        let done = self.copy(offset, &mut to[..count], scan.as_mut());
        done.map(|()| count).map_err(|error| self.placed(error))
    }

    fn copy(&self, offset: u64, to: &mut [u8], mut scan: Option<&mut ScanCursor>) -> Result<()> {
        let stripe_bytes = self.version.stripe_bytes();
        let (mut offset, mut to) = (offset, to);
        while !to.is_empty() {
            let (stripe, at) = ((offset / stripe_bytes) as usize, (offset % stripe_bytes) as usize);
            let count = (stripe_bytes as usize - at).min(to.len());
            let (now, rest) = std::mem::take(&mut to).split_at_mut(count);
            match &mut scan {
                Some(cursor)
                    if (cursor.from..cursor.to).contains(&stripe) && !cursor.has_failed =>
                {
                    match cursor.copy(&self.version, stripe, at, now) {
                        Ok(()) if at + count == stripe_bytes as usize => cursor.from = stripe + 1,
                        Ok(()) => {}
                        Err(_) => {
                            cursor.has_failed = true;
                            self.singles.read(&self.version, stripe, at, now)?;
                        }
                    }
                }
                _ => self.singles.read(&self.version, stripe, at, now)?,
            }
            (offset, to) = (offset + count as u64, rest);
        }
        Ok(())
    }

    fn placed(&self, error: Error) -> Error {
        error.at(format!("striped file {}", self.version.name))
    }
}

impl ScanCursor {
    /// Copies a range of a stripe that the scan has not passed.
    fn copy(
        &mut self,
        version: &StripedVersion,
        stripe: usize,
        at: usize,
        to: &mut [u8],
    ) -> Result<()> {
        let entry = &version.map.stripes[stripe];
        if entry.blocks.is_empty() {
            to.fill(0);
            return Ok(());
        }
        while self.current.as_ref().is_none_or(|(number, _)| *number < stripe) {
            self.current = self.scan.next()?;
            if self.current.is_none() {
                return Err(Error::failed("a scan has ended before its last stripe"));
            }
        }
        let (_, blocks) = self.current.as_ref().expect("it has just been read");
        copy_out(blocks, 0, entry.block_bytes as usize, at, to);
        self.from = stripe;
        Ok(())
    }
}
