//! The files that earlier runs of a flow have processed, kept by name in the home folder.
//!
//! The next state is an output of the flow: it is staged, and published together with the others,
//! so a flow that fails reads its files again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use euphrates_device::location::Destination;
use euphrates_flow::module::Sink;
use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_store::append::StagedOutput;
use euphrates_store::commit::PreparedOutput;
use euphrates_store::output;
use parking_lot::Mutex;
use serde_json::Value;

/// Versions of files by name.
type Versions = BTreeMap<String, String>;

/// Where the state of this name is.
pub(crate) fn path(home: &Path, name: &str) -> Result<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
        let error = Error::usage(format!("`{name}` is not a name of a state")).at("only_new");
        return Err(error.remedy("use letters, digits, `-`, `_` and `.`"));
    }
    Ok(home.join("processed").join(format!("{name}.json")))
}

fn load(path: &Path) -> Result<Versions> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Versions::new()),
        Err(error) => Err(Error::os("read", path, &error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let error = Error::corrupt(format!("the state of processed files: {error}"));
            error.at(path.display()).remedy("remove it to process all files again")
        }),
    }
}

/// The files that have not been processed. One that has changed since is an error.
pub(crate) fn new_files(
    home: &Path,
    name: &str,
    files: Vec<(String, String)>,
) -> Result<BTreeSet<String>> {
    let known = load(&path(home, name)?)?;
    let mut new = BTreeSet::new();
    for (file, version) in files {
        match known.get(&file) {
            None => drop(new.insert(file)),
            Some(before) if *before == version => {}
            Some(_) => {
                let error = Error::usage(format!("{file} has changed since it was processed"));
                return Err(error.at("only_new").remedy(format!(
                    "put new rows into new files, or read it again: eu.forget(\"{name}\", [path])"
                )));
            }
        }
    }
    Ok(new)
}

/// Publishes the state with the files of this run.
pub(crate) struct ProcessedFiles {
    pub(crate) home: PathBuf,
    pub(crate) name: String,
    /// What this run processes.
    pub(crate) files: Versions,
    pub(crate) staged: Mutex<Option<Box<dyn StagedOutput>>>,
}

impl ProcessedFiles {
    /// Removes what is staged.
    pub(crate) fn abandon(&self) {
        self.staged.lock().take().into_iter().for_each(|staged| staged.abandon());
    }
}

impl Sink for ProcessedFiles {
    fn target(&self) -> String {
        format!("the processed files of `{}`", self.name)
    }

    fn staging_folder(&self) -> Option<PathBuf> {
        let folder = self.home.join("processed");
        fs::create_dir_all(&folder).ok()?;
        Some(folder)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn staged(&self) -> Result<Value> {
        // The process of the master writes the state, whoever reads the files.
        Ok(Value::Bool(true))
    }

    fn output(&self, _: Vec<Value>, run_id: &str, decision: Option<&DecisionRef>) -> Result<Value> {
        if self.files.is_empty() {
            return Ok(Value::Null);
        }
        let path = path(&self.home, &self.name)?;
        let folder = self.home.join("processed");
        fs::create_dir_all(&folder).map_err(|error| Error::os("create", &folder, &error))?;
        let run_id = format!("{run_id}-{}", self.name);
        let place = Destination::Local(path.clone());
        let staged = output::create(place, true, &run_id, decision.cloned())?;
        let prepared = extended(&*staged, &path, &self.files);
        *self.staged.lock() = Some(staged);
        serde_json::to_value(prepared?).map_err(Error::failed)
    }

    fn on_committed(&self) {
        *self.staged.lock() = None;
    }

    fn on_orphaned(&self) {
        self.staged.lock().take().into_iter().for_each(|staged| staged.leave());
    }

    fn reclaim(&self) {
        output::reclaim(&self.home.join("processed"));
    }
}

/// Adds files to the state of a path, and reserves its name.
fn extended(
    staged: &dyn StagedOutput,
    path: &Path,
    files: &Versions,
) -> Result<Option<PreparedOutput>> {
    // Another run with this name may have ended since the check.
    let mut all = load(path)?;
    if let Some(file) = files.keys().find(|file| all.contains_key(*file)) {
        let error = Error::failed(format!("another run has processed {file} meanwhile"));
        return Err(error.remedy("run the flow again"));
    }
    all.extend(files.iter().map(|(name, version)| (name.clone(), version.clone())));
    reserved(staged, &all)
}

fn reserved(staged: &dyn StagedOutput, state: &Versions) -> Result<Option<PreparedOutput>> {
    let bytes = serde_json::to_vec(state).map_err(Error::failed)?;
    let length = bytes.len() as u64;
    staged.write_at(0, &[Buffer::from(bytes)])?;
    staged.sync_contents(length)?;
    staged.reserve()
}

/// Forgets files, or all of them, so that the next run reads them; returns how many.
pub fn forget(home: &Path, name: &str, files: Option<&[String]>) -> Result<usize> {
    let path = path(home, name)?;
    let mut known = load(&path)?;
    let before = known.len();
    match files {
        None => known.clear(),
        Some(files) => {
            for file in files {
                let absolute = std::path::absolute(file).unwrap_or_else(|_| file.into());
                known.remove(file);
                known.remove(&absolute.display().to_string());
            }
        }
    }
    let forgotten = before - known.len();
    if forgotten > 0 {
        let run_id = format!("forget-{}", std::process::id());
        let staged = output::create(Destination::Local(path.clone()), true, &run_id, None)?;
        match reserved(&*staged, &known) {
            Ok(Some(prepared)) => drop(prepared.publish()?),
            Ok(None) => {}
            Err(error) => {
                staged.abandon();
                return Err(error);
            }
        }
    }
    Ok(forgotten)
}
