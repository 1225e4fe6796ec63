//! The Python classes of open striped files, and functions on the catalog of striped files.

use std::path::PathBuf;

use euphrates_engine::machine;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Owner, Result};
use euphrates_store::catalog::{Catalog, Manifest};
use euphrates_store::segment::Damage;
use euphrates_store::striped::{
    StripedOptions, StripedReader, StripedWriter, name_of_path, path_of_name, remove_file,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use super::buffers::PinnedBytes;
use super::striped_views::{StridedViewHandle, home_of};
use crate::errors::OrRaise;

/// A striped file that is open for reading.
#[pyclass(frozen, module = "euphrates._euphrates", name = "StripedReader")]
pub struct StripedReaderHandle {
    reader: StripedReader,
    owner: Owner,
}

/// A new version of a striped file.
#[pyclass(frozen, module = "euphrates._euphrates", name = "StripedWriter")]
pub struct StripedWriterHandle {
    writer: Mutex<Option<StripedWriter>>,
    owner: Owner,
}

#[pymethods]
impl StripedReaderHandle {
    /// Opens the newest version.
    #[new]
    fn new(py: Python<'_>, name: &str, home: Option<PathBuf>) -> PyResult<StripedReaderHandle> {
        let home = home_of(home);
        let reader = py.detach(|| StripedReader::open(&home, name)).or_raise(py)?;
        Ok(StripedReaderHandle { reader, owner: Owner::here() })
    }

    /// Fills a buffer from an offset on. Returns the number of bytes.
    fn read_into(&self, py: Python<'_>, offset: u64, to: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.owner.check("the file").or_raise(py)?;
        let mut to = PinnedBytes::of(to, true)?;
        py.detach(|| self.reader.read_at(offset, to.bytes_mut())).or_raise(py)
    }

    /// Fills a buffer from an offset of a view on.
    fn read_view(
        &self,
        py: Python<'_>,
        view: &StridedViewHandle,
        at: u64,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.owner.check("the file").or_raise(py)?;
        let mut to = PinnedBytes::of(to, true)?;
        py.detach(|| self.reader.read_view(&view.0, at, to.bytes_mut())).or_raise(py)
    }

    /// The bytes from an offset on, as many as there are up to `size`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.owner.check("the file").or_raise(py)?;
        let left = self.reader.bytes().saturating_sub(offset);
        let count = (size as u64).min(left) as usize;
        // Nobody else knows the object before it is returned.
        PyBytes::new_with(py, count, |to| {
            py.detach(|| self.reader.read_at(offset, to)).or_raise(py).map(drop)
        })
    }

    /// The length of the file.
    fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// The description of the version, in JSON.
    fn description(&self) -> String {
        described(self.reader.manifest()).to_string()
    }

    /// A warning, if the manifest is damaged.
    fn warning(&self) -> Option<String> {
        self.reader.warning().map(String::from)
    }

    /// The damages that were met so far.
    fn damages(&self) -> Vec<String> {
        self.reader.damages().iter().map(Damage::to_string).collect()
    }
}

#[pymethods]
impl StripedWriterHandle {
    /// Begins a new file.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        name: &str,
        home: Option<PathBuf>,
        shape: (usize, usize),
        disks: Vec<String>,
        overwrite: bool,
    ) -> PyResult<StripedWriterHandle> {
        let home = home_of(home);
        let ((data, parity), run_id) = (shape, machine::run_id());
        let options =
            StripedOptions { data, parity, disks, overwrite, run_id, ..Default::default() };
        StripedWriterHandle::begin(py, || StripedWriter::create(&home, name, options))
    }

    /// Begins to change the newest version.
    #[staticmethod]
    fn update(py: Python<'_>, name: &str, home: Option<PathBuf>) -> PyResult<StripedWriterHandle> {
        let home = home_of(home);
        StripedWriterHandle::begin(py, || StripedWriter::update(&home, name, &machine::run_id()))
    }

    /// Writes a buffer at an offset.
    fn write_from(&self, py: Python<'_>, offset: u64, from: &Bound<'_, PyAny>) -> PyResult<usize> {
        let from = PinnedBytes::of(from, false)?;
        let count = from.bytes().len();
        self.with(py, |writer| writer.write_at(offset, from.bytes()))?;
        Ok(count)
    }

    /// Fills a buffer from an offset on. Returns the number of bytes.
    fn read_into(&self, py: Python<'_>, offset: u64, to: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut to = PinnedBytes::of(to, true)?;
        self.with(py, |writer| writer.read_at(offset, to.bytes_mut()))
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

    /// Fills a buffer from an offset of a view on.
    fn read_view(
        &self,
        py: Python<'_>,
        view: &StridedViewHandle,
        at: u64,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut to = PinnedBytes::of(to, true)?;
        self.with(py, |writer| writer.read_view(&view.0, at, to.bytes_mut()))
    }

    /// Cuts the file, or extends it with zeros.
    fn truncate(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.with(py, |writer| writer.truncate(bytes))
    }

    /// The length of the file now.
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.bytes()))
    }

    /// Sets the memory for changed stripes.
    fn set_memory(&self, py: Python<'_>, bytes: usize) -> PyResult<()> {
        self.with(py, |writer| {
            writer.set_memory(bytes);
            Ok(())
        })
    }

    /// Whether every stripe needs every disk of the file.
    fn needs_every_disk(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |writer| Ok(writer.needs_every_disk()))
    }

    /// A warning, if a lost machine takes more blocks of a stripe than parity restores.
    fn machine_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |writer| Ok(writer.machine_warning()))
    }

    /// Publishes the version, and returns its number.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        let writer = py.detach(|| self.take()).or_raise(py)?;
        py.detach(|| writer.commit()).or_raise(py)
    }

    /// Removes what was written. Does nothing after a commit, or in a forked child.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }
}

impl StripedWriterHandle {
    fn begin(
        py: Python<'_>,
        begin: impl FnOnce() -> Result<StripedWriter> + Send,
    ) -> PyResult<StripedWriterHandle> {
        let writer = Mutex::new(Some(py.detach(begin).or_raise(py)?));
        Ok(StripedWriterHandle { writer, owner: Owner::here() })
    }

    fn take(&self) -> Result<StripedWriter> {
        self.owner.check("the file")?;
        self.writer.lock().take().ok_or_else(closed)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut StripedWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.owner.check("the file").or_raise(py)?;
        let acted = py.detach(|| act(self.writer.lock().as_mut().ok_or_else(closed)?));
        acted.or_raise(py)
    }
}

fn closed() -> Error {
    Error::usage("the file has been closed").remedy("open it again")
}

fn described(manifest: &Manifest) -> Value {
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "created": manifest.created,
        "stored_bytes": manifest.bytes,
        "layout": manifest.file,
    })
}

/// Descriptions of the striped files in a folder of names, and the names of the folders in it, in
/// JSON.
#[pyfunction]
pub fn striped_folder(py: Python<'_>, folder: &str, home: Option<PathBuf>) -> PyResult<String> {
    let home = home_of(home);
    let (files, folders) = py.detach(|| Catalog::of(&home)?.list_folder(folder)).or_raise(py)?;
    let manifests = files.iter().filter_map(|found| found.manifest.as_ref());
    Ok(json!([manifests.map(described).collect::<Vec<_>>(), folders]).to_string())
}

/// The description of a striped file, in JSON; `None` if there is none.
#[pyfunction]
pub fn striped_find(py: Python<'_>, name: &str, home: Option<PathBuf>) -> PyResult<Option<String>> {
    let home = home_of(home);
    let found = py.detach(|| Catalog::of(&home)?.find(name)).or_raise(py)?;
    let found = found.filter(|found| found.exists() && found.is_file());
    let manifest = found.and_then(|found| found.manifest);
    Ok(manifest.map(|manifest| described(&manifest).to_string()))
}

/// Removes a striped file.
#[pyfunction]
pub fn striped_remove(py: Python<'_>, name: &str, home: Option<PathBuf>) -> PyResult<()> {
    let home = home_of(home);
    py.detach(|| remove_file(&home, name, &machine::run_id())).or_raise(py)
}

/// The name of the striped file of a path.
#[pyfunction]
pub fn striped_name(path: &[u8]) -> String {
    name_of_path(path)
}

/// The path of a striped file's name.
#[pyfunction]
pub fn striped_path<'py>(py: Python<'py>, name: &str) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &path_of_name(name))
}
