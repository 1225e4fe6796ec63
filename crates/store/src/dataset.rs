//! Datasets: folders of files that are published together, by one rename.
//!
//! Each process stages its files in a hidden folder beside the target (`staged_part.rs`). At the
//! end they become one folder, with hard links to the files of the target that stay
//! (`assembly.rs`). It takes the name of the target in one step (`folder_output.rs`): by a rename
//! if there is no such folder, else by an exchange of both names. So a reader that opens the folder
//! sees all files of before or all of after, whatever the mode; the price is one link for each file
//! that stays.

mod assembly;
mod folder_output;
mod journal;
mod kept_files;
mod staged_part;
mod tree;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_device::location::{Destination, destination};
use euphrates_device::storage_options::StorageOptions;
use euphrates_device::striped::path_of_address;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

pub use assembly::{Assembly, assemble};
pub use folder_output::FolderOutput;
pub use kept_files::{KeptFiles, adopt_files, discard_all_files, discard_files};
pub use staged_part::{DataFile, StagedPart};
pub(crate) use tree::remove_staged;

/// What becomes of the files that a dataset has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveMode {
    /// A folder that is not empty is refused.
    #[default]
    Error,
    /// They stay; a new file with the name of one is refused.
    Append,
    /// Data files are removed. Files that are no data stay: hidden ones, and unknown extensions.
    Overwrite,
    /// Data files are removed from the folders that get new ones.
    OverwritePartitions,
}

impl SaveMode {
    const NAMES: [(&str, SaveMode); 4] = [
        ("error", SaveMode::Error),
        ("append", SaveMode::Append),
        ("overwrite", SaveMode::Overwrite),
        ("overwrite_partitions", SaveMode::OverwritePartitions),
    ];

    /// The mode of this name: `error`, `append`, `overwrite`, `overwrite_partitions`.
    ///
    /// ```
    /// use euphrates_store::dataset::SaveMode;
    ///
    /// assert_eq!(SaveMode::named("append")?, SaveMode::Append);
    /// assert!(SaveMode::named("apend").is_err());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<SaveMode> {
        let found = SaveMode::NAMES.iter().find(|(known, _)| *known == name);
        let names = SaveMode::NAMES.iter().map(|(known, _)| *known);
        found.map(|(_, mode)| *mode).ok_or_else(|| unknown("mode", name, names))
    }
}

/// The folder that a dataset is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetTarget {
    /// Absolute, with links followed; the folder need not exist.
    pub path: PathBuf,
    /// What becomes of its files.
    pub mode: SaveMode,
}

impl DatasetTarget {
    /// The target of a path. A usage error if it is no local folder, if it may not be written in
    /// this mode, or if no folder can take its name.
    ///
    /// ```
    /// use euphrates_store::dataset::{DatasetTarget, SaveMode};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let sales = folder.path().join("sales");
    /// let check = |mode| DatasetTarget::check(&format!("{}/", sales.display()), mode);
    /// assert!(check(SaveMode::Error)?.path.ends_with("sales"));
    /// std::fs::create_dir(&sales)?;
    /// std::fs::write(sales.join("part.csv"), "n\n1\n")?;
    /// assert!(check(SaveMode::Error).is_err(), "it is not empty");
    /// assert!(check(SaveMode::Append).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(path: &str, mode: SaveMode) -> Result<DatasetTarget> {
        let plain = path.trim_end_matches('/');
        if plain.is_empty() {
            return Err(Error::usage(format!("{path:?} names no folder")).remedy("add a name"));
        }
        if path_of_address(plain).is_some() {
            let error = Error::usage(format!("{path} is a folder of striped files"));
            return Err(error.remedy("save a folder on a file system, or one striped file"));
        }
        let target = match destination(plain, &StorageOptions::default())? {
            Destination::Local(local) => whole_path(path, &local)?,
            Destination::Remote(_) | Destination::Striped(..) => {
                let message = format!("{path} is in an object store, whose folders have no rename");
                let error = Error::usage(message);
                return Err(error.remedy("save a folder on a file system, or one object"));
            }
        };
        let target = DatasetTarget { path: target, mode };
        match fs::metadata(&target.path) {
            Ok(about) => target.check_existing(&about)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::os("look at", &target.path, &error)),
        }
        Ok(target)
    }

    fn check_existing(&self, about: &fs::Metadata) -> Result<()> {
        let name = self.path.display();
        if !about.is_dir() {
            let error = Error::usage(format!("{name} is a file, not a folder"));
            return Err(error.remedy("name a folder; for one file, leave out the `/` behind it"));
        }
        let above = fs::metadata(self.folder());
        let above = above.map_err(|error| Error::os("look at", self.folder(), &error))?;
        if above.dev() != about.dev() {
            let error = Error::usage(format!("{name} is where a file system is mounted"));
            return Err(error.remedy("name a folder in it, which can be renamed"));
        }
        if self.mode == SaveMode::Error && !tree::is_empty(&self.path)? {
            return Err(not_empty(&self.path));
        }
        Ok(())
    }

    /// The folder above the target, in which it is staged.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The absolute path of a target, of which at least the folder above exists.
fn whole_path(given: &str, local: &Path) -> Result<PathBuf> {
    let failed = |error: io::Error| Error::os("find", local, &error);
    if let Ok(found) = fs::canonicalize(local) {
        return match found.parent() {
            Some(_) => Ok(found),
            None => Err(Error::usage("`/` cannot be replaced").remedy("name a folder in it")),
        };
    }
    let absolute = std::path::absolute(local).map_err(failed)?;
    let (Some(above), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::usage(format!("{given:?} names no folder")).remedy("add a name"));
    };
    match fs::canonicalize(above) {
        Ok(above) => Ok(above.join(name)),
        Err(_) => Err(Error::usage(format!("there is no folder {above:?}"))
            .remedy("create it, or check the path")),
    }
}

fn not_empty(path: &Path) -> Error {
    let error = Error::usage(format!("{} is not empty", path.display()));
    error.remedy(
        "choose another folder, or say what becomes of its files: `mode=\"append\"`, or \
         `mode=\"overwrite\"`",
    )
}
