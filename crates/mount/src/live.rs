//! A file that is open for writing: one session for all programs of the mount that write it.
//!
//! What they write is published when one of them closes or syncs the file; a later write begins
//! the next version. So processes that fill one file together (MPI-IO) see each other's bytes, and
//! none of them overwrites what another has published.

use std::sync::Arc;

use euphrates_store::striped::{StripedReader, StripedWriter};
use fuser::Errno;
use parking_lot::Mutex;

use super::home::{Home, PublishedFile, seconds_now};

/// A file that is open for writing.
pub struct LiveFile {
    state: Mutex<LiveState>,
}

struct LiveState {
    name: String,
    /// The published version that the content follows; `None` for a file that is new.
    base: Option<PublishedFile>,
    session: Option<StripedWriter>,
    /// The published version, open for reading.
    reader: Option<Arc<StripedReader>>,
    /// Whether the session has changes. A new file is one.
    is_changed: bool,
    /// Whether it was written since it was opened.
    is_written: bool,
    /// When it was changed last, in seconds since 1970.
    changed: u64,
    has_failed: bool,
    /// Whether its name was removed, or given to another file.
    is_removed: bool,
}

impl LiveFile {
    /// A file that begins empty: a new one, or one that replaces a version.
    pub fn create(home: &Home, name: &str, base: Option<PublishedFile>) -> Result<LiveFile, Errno> {
        let session = home.create(name, base.is_some())?;
        let mut state = LiveState::new(name, base);
        (state.session, state.is_changed) = (Some(session), true);
        Ok(LiveFile { state: Mutex::new(state) })
    }

    /// A published file, which is not changed yet.
    pub fn open(name: &str, base: PublishedFile) -> LiveFile {
        LiveFile { state: Mutex::new(LiveState::new(name, Some(base))) }
    }

    /// Its length, and when it was changed.
    pub fn facts(&self) -> (u64, u64) {
        let state = self.state.lock();
        let bytes = match (&state.session, &state.base) {
            (Some(session), _) => session.bytes(),
            (None, base) => base.map_or(0, |base| base.bytes),
        };
        (bytes, state.changed)
    }

    /// Fills a buffer from an offset on. Returns the number of bytes.
    pub fn read(&self, home: &Home, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let reader = {
            let mut state = self.state.lock();
            state.expect_sound()?;
            if let Some(session) = &mut state.session {
                return session.read_at(offset, to).map_err(|error| home.errno("read", &error));
            }
            state.reader(home)?
        };
        reader.read_at(offset, to).map_err(|error| home.errno("read", &error))
    }

    /// Writes at an offset, or at the end if there is none.
    pub fn write(&self, home: &Home, offset: Option<u64>, from: &[u8]) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let session = state.session(home)?;
        let offset = offset.unwrap_or_else(|| session.bytes());
        let written = session.write_at(offset, from);
        state.changed(home, "write", written)
    }

    /// Cuts the file, or extends it with zeros.
    pub fn truncate(&self, home: &Home, bytes: u64) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.session.is_none() && bytes == 0 {
            // The stripes before need not be read.
            let session = home.create(&state.name, true)?;
            state.begin(session)?;
        }
        let cut = state.session(home)?.truncate(bytes);
        state.changed(home, "truncate", cut)
    }

    /// Publishes what was written, at the `close` of a descriptor. A file that was not written yet
    /// is published when the last descriptor is closed: shells duplicate descriptors, and close the
    /// first, before a program writes.
    pub fn close(&self, home: &Home) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.is_written { state.publish(home) } else { state.expect_sound() }
    }

    /// Publishes the file as it is.
    pub fn publish(&self, home: &Home) -> Result<(), Errno> {
        self.state.lock().publish(home)
    }

    /// Publishes the file, gives it another name by `rename`, which returns the version there.
    pub fn rename(
        &self,
        home: &Home,
        to: &str,
        rename: impl FnOnce() -> Result<u64, Errno>,
    ) -> Result<(), Errno> {
        let mut state = self.state.lock();
        state.publish(home)?;
        let version = rename()?;
        state.name = to.to_string();
        state.reader = None;
        state.base = state.base.map(|base| PublishedFile { version, ..base });
        Ok(())
    }

    /// Prepares for the removal of its name: what is written from now on is never published.
    pub fn detach(&self, home: &Home) {
        let mut state = self.state.lock();
        if !state.has_failed && !state.is_removed {
            // A session keeps the segments of its version open.
            state.has_failed = state.session(home).is_err();
        }
        state.is_removed = true;
    }
}

impl LiveState {
    fn new(name: &str, base: Option<PublishedFile>) -> LiveState {
        LiveState {
            name: name.to_string(),
            base,
            session: None,
            reader: None,
            is_changed: false,
            is_written: false,
            changed: base.map_or_else(seconds_now, |base| base.created),
            has_failed: false,
            is_removed: false,
        }
    }

    fn expect_sound(&self) -> Result<(), Errno> {
        if self.has_failed { Err(Errno::EIO) } else { Ok(()) }
    }

    fn reader(&mut self, home: &Home) -> Result<Arc<StripedReader>, Errno> {
        if let Some(reader) = &self.reader {
            return Ok(reader.clone());
        }
        let reader = Arc::new(home.read(&self.name)?);
        let base = self.base.as_ref().map_or(0, |base| base.version);
        if reader.manifest().version > base {
            // Another program has published a version since.
            return Err(Errno::ESTALE);
        }
        Ok(self.reader.insert(reader).clone())
    }

    /// The session, which begins with the first change.
    fn session(&mut self, home: &Home) -> Result<&mut StripedWriter, Errno> {
        self.expect_sound()?;
        if self.session.is_none() {
            let session = home.update(&self.name)?;
            self.begin(session)?;
        }
        Ok(self.session.as_mut().expect("it has begun"))
    }

    fn begin(&mut self, session: StripedWriter) -> Result<(), Errno> {
        if self.base.is_some_and(|base| base.version != session.version_before()) {
            return Err(Errno::ESTALE);
        }
        self.session = Some(session);
        Ok(())
    }

    fn changed(
        &mut self,
        home: &Home,
        what: &str,
        done: euphrates_flow::Result<()>,
    ) -> Result<(), Errno> {
        (self.is_changed, self.is_written, self.changed) = (true, true, seconds_now());
        done.map_err(|error| {
            self.has_failed = true;
            self.session = None;
            home.errno(what, &error)
        })
    }

    fn publish(&mut self, home: &Home) -> Result<(), Errno> {
        self.expect_sound()?;
        if self.is_removed || !self.is_changed {
            return Ok(());
        }
        let Some(session) = self.session.take() else { return Ok(()) };
        (self.is_changed, self.reader) = (false, None);
        let published = home.publish(&self.name, session);
        self.base = Some(published.inspect_err(|_| self.has_failed = true)?);
        Ok(())
    }
}
