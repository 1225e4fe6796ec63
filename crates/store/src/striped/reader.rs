//! An open striped file for reading: ranges at any offset, by any number of threads.
//!
//! Consecutive reads, and reads of more than a stripe, are served by a scan, which reads ahead;
//! others by reads of single blocks. A request of a view reads the stripes of which it needs most
//! blocks by a scan of these stripes.

use std::path::Path;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};

use super::blocks::copy_out;
use super::scan::StripeScan;
use super::single::SingleBlocks;
use super::version::StripedVersion;
use super::version::newest::NewestVersion;
use super::view::StridedView;
use crate::catalog::{FileEntry, Manifest};
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
    warning: Option<String>,
    ranges: RangeReader,
}

/// Ranges of a version, which need not be in the catalog.
#[derive(Debug)]
pub(super) struct RangeReader {
    version: Arc<StripedVersion>,
    /// Stripes that scans read ahead, if it is not as many as usual.
    window_stripes: Option<u32>,
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
        let NewestVersion { found, manifest, version } = NewestVersion::open(home, name)?;
        let warning = found.warning();
        let ranges = RangeReader::new(Arc::new(version), None);
        Ok(StripedReader { manifest, warning, ranges })
    }

    /// The description of this version in the catalog.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The layout of its stripes.
    pub fn layout(&self) -> &FileEntry {
        &self.ranges.version.layout
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    /// A warning for readers if the manifest is damaged.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The damages that were met so far: what was read in spite of them is right.
    pub fn damages(&self) -> Vec<Damage> {
        self.ranges.version.damages.lock().clone()
    }

    /// Fills `to` from an offset on. Returns the number of bytes, which is less than asked for only
    /// at the end of the file. Fails if a stripe has lost more blocks than parity restores.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.ranges.read_at(offset, to)
    }

    /// As `read_at`, for readers of ranges in no order: reads nothing ahead.
    pub(crate) fn read_apart(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.ranges.read_apart(offset, to)
    }

    /// Fills `to` with bytes of a view, from this one on. Fails if the view ends behind the file,
    /// or the request behind the view.
    pub fn read_view(&self, view: &StridedView, at: u64, to: &mut [u8]) -> Result<()> {
        self.ranges.read_view(view, at, to)
    }
}

impl RangeReader {
    pub fn new(version: Arc<StripedVersion>, window_stripes: Option<u32>) -> RangeReader {
        let (singles, state) = (SingleBlocks::default(), Mutex::default());
        RangeReader { version, window_stripes, singles, state }
    }

    fn bytes(&self) -> u64 {
        self.version.map.bytes
    }

    /// As [`StripedReader::read_at`].
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
            let scan = StripeScan::begin(&self.version, first..to, self.window_stripes)?;
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

    fn read_apart(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        let left = self.bytes().saturating_sub(offset);
        let count = (to.len() as u64).min(left) as usize;
        let stripe_bytes = self.version.stripe_bytes();
        let whole = offset.div_ceil(stripe_bytes)..(offset + count as u64) / stripe_bytes;
        let whole = whole.start as usize..whole.end as usize;
        let mut scan = match whole.is_empty() {
            true => None,
            false => {
                let scan = StripeScan::begin(&self.version, whole.clone(), None)?;
                let (from, to) = (whole.start, whole.end);
                Some(ScanCursor { scan, current: None, from, to, has_failed: false })
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

    fn read_view(&self, view: &StridedView, at: u64, to: &mut [u8]) -> Result<()> {
        view.check(at, to.len())?;
        view.expect_within(self.bytes()).map_err(|error| self.placed(error))?;
        let (version, stripe_bytes) = (&self.version, self.version.stripe_bytes());
        let parts = view.parts(at, to.len() as u64, stripe_bytes);
        // The blocks of each stripe that it needs.
        let mut stripes: Vec<(usize, Vec<usize>)> = vec![];
        for (stripe, at, count) in parts.clone() {
            let block_bytes = version.map.stripes[stripe].block_bytes.max(1) as usize;
            let places = at / block_bytes..(at + count).div_ceil(block_bytes);
            let places = places.start..places.end.min(version.layout.data);
            if stripes.last().is_none_or(|(last, _)| *last != stripe) {
                stripes.push((stripe, vec![]));
            }
            let (_, needed) = stripes.last_mut().expect("it has just been pushed");
            let last = needed.last().copied();
            needed.extend(places.filter(|place| last.is_none_or(|last| last < *place)));
        }
        let is_dense = |(_, needed): &&(usize, Vec<usize>)| 2 * needed.len() > version.layout.data;
        let dense: Vec<usize> =
            stripes.iter().filter(is_dense).map(|(stripe, _)| *stripe).collect();
        let mut scan = match dense.as_slice() {
            [first, .., last] => {
                let (from, to) = (*first, *last + 1);
                let scan = StripeScan::begin(version, dense.iter().copied(), self.window_stripes)?;
                Some(ScanCursor { scan, current: None, from, to, has_failed: false })
            }
            _ => None,
        };
        let (mut stripes, mut rest, mut warm) = (stripes.into_iter().peekable(), to, None);
        for (stripe, at, count) in parts {
            let (now, later) = rest.split_at_mut(count);
            while stripes.peek().is_some_and(|(next, _)| *next < stripe) {
                stripes.next();
            }
            let scanned = scan.as_mut().filter(|it| !it.has_failed);
            let scanned = scanned.filter(|_| dense.binary_search(&stripe).is_ok());
            let is_read = scanned.is_some_and(|cursor| {
                cursor.has_failed = cursor.copy(version, stripe, at, now).is_err();
                !cursor.has_failed
            });
            if !is_read {
                // All blocks of the stripe at once, then each piece from memory.
                if let Some((_, needed)) = stripes.peek().filter(|_| warm != Some(stripe)) {
                    let warmed = self.singles.warm(version, stripe, needed);
                    warmed.map_err(|error| self.placed(error))?;
                    warm = Some(stripe);
                }
                let read = self.singles.read(version, stripe, at, now);
                read.map_err(|error| self.placed(error))?;
            }
            rest = later;
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
