//! The Python classes of sessions, in which several writers fill one version of a striped file.

use std::path::PathBuf;

use euphrates_engine::machine;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Owner, Result};
use euphrates_store::striped::{ShareWriter, StripedOptions, StripedSession};
use pyo3::prelude::*;

use super::buffers::PinnedBytes;
use super::striped_views::{StridedViewHandle, home_of};
use crate::errors::OrRaise;

/// A session that this process has begun.
#[pyclass(frozen, module = "euphrates._euphrates", name = "StripedSession")]
pub struct StripedSessionHandle {
    session: Mutex<Option<StripedSession>>,
    owner: Owner,
}

/// One of the writers of a session.
#[pyclass(frozen, module = "euphrates._euphrates", name = "StripedShare")]
pub struct StripedShareHandle {
    writer: Mutex<Option<ShareWriter>>,
    owner: Owner,
}

#[pymethods]
impl StripedSessionHandle {
    /// Begins a session.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        home: Option<PathBuf>,
        shape: (usize, usize),
        disks: Vec<String>,
        writers: (usize, bool),
    ) -> PyResult<StripedSessionHandle> {
        let home = home_of(home);
        let ((data, parity), (writers, is_collective)) = (shape, writers);
        let run_id = machine::run_id();
        let options = StripedOptions { data, parity, disks, run_id, ..Default::default() };
        let begin = || StripedSession::begin(&home, name, options, writers, is_collective);
        let begun = py.detach(begin);
        let session = Mutex::new(Some(begun.or_raise(py)?));
        Ok(StripedSessionHandle { session, owner: Owner::here() })
    }

    /// Distinguishes the session from others of its home.
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |session| Ok(session.id().to_string()))
    }

    /// The writers that have not ended.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        self.with(py, |session| Ok(session.missing()))
    }

    /// Publishes the version, and returns its number.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, StripedSession::commit)
    }

    /// Removes what was written. Does nothing after a commit, or in a forked child.
    fn abandon(&self, py: Python<'_>) {
        if self.owner.is_here() {
            py.detach(|| drop(self.session.lock().take()));
        }
    }
}

impl StripedSessionHandle {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut StripedSession) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.owner.check("the session").or_raise(py)?;
        let ended = || Error::usage("the session has ended").remedy("begin another one");
        let acted = py.detach(|| act(self.session.lock().as_mut().ok_or_else(ended)?));
        acted.or_raise(py)
    }
}

#[pymethods]
impl StripedShareHandle {
    /// Begins to write as this writer of a session.
    #[new]
    fn new(
        py: Python<'_>,
        home: Option<PathBuf>,
        id: &str,
        number: usize,
    ) -> PyResult<StripedShareHandle> {
        let home = home_of(home);
        let run_id = machine::run_id();
        let begun = py.detach(|| StripedSession::join(&home, id, number, &run_id));
        let writer = Mutex::new(Some(begun.or_raise(py)?));
        Ok(StripedShareHandle { writer, owner: Owner::here() })
    }

    /// Sets the memory for stripes of which it has pieces.
    fn set_memory(&self, py: Python<'_>, bytes: usize) -> PyResult<()> {
        self.with(py, |writer| {
            writer.set_memory(bytes);
            Ok(())
        })
    }

    /// Writes a buffer at an offset.
    fn write_from(&self, py: Python<'_>, offset: u64, from: &Bound<'_, PyAny>) -> PyResult<usize> {
        let from = PinnedBytes::of(from, false)?;
        let count = from.bytes().len();
        self.with(py, |writer| writer.write_at(offset, from.bytes()))?;
        Ok(count)
    }

    /// Writes a buffer at an offset of a view.
    fn write_view(
        &self,
        py: Python<'_>,
        view: &StridedViewHandle,
        at: u64,
        from: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let from = PinnedBytes::of(from, false)?;
        let count = from.bytes().len();
        self.with(py, |writer| writer.write_view(&view.0, at, from.bytes()))?;
        Ok(count)
    }

    /// The end of the last byte that it has written.
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.bytes()))
    }

    /// Gives what was written to the session.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let writer = py.detach(|| self.take()).or_raise(py)?;
        py.detach(|| writer.end()).or_raise(py)
    }

    /// Removes what was written. Does nothing after `commit`, or in a forked child.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }
}

impl StripedShareHandle {
    fn take(&self) -> Result<ShareWriter> {
        self.owner.check("the file")?;
        self.writer.lock().take().ok_or_else(closed)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut ShareWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.owner.check("the file").or_raise(py)?;
        let acted = py.detach(|| act(self.writer.lock().as_mut().ok_or_else(closed)?));
        acted.or_raise(py)
    }
}

fn closed() -> Error {
    Error::usage("the file has been closed").remedy("begin another session")
}
