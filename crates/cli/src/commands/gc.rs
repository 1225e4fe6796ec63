//! `gc`: completes the commits of killed flows, and removes their scratch and staged output.
//! Every flow does the same for the folders that it writes to; this command does it at once.

use std::path::{Path, PathBuf};

use clap::Args;
use euphrates_device::scratch;
use euphrates_engine::cluster::sockets;
use euphrates_engine::{machine, run::resume};
use euphrates_flow::{Error, Result};
use euphrates_store::commit::{self, Resolution};
use euphrates_store::dataset::discard_all_files;
use euphrates_store::{collection, output};

use crate::terminal::print;

/// Arguments of `euphrates gc`.
#[derive(Debug, Args)]
pub struct Gc {
    /// Folders where files were being written, besides the home
    folders: Vec<PathBuf>,
}

/// Removes the remains of dead processes, and prints how many there were.
pub fn run(command: Gc) -> Result<()> {
    if let Some(strange) = command.folders.iter().find(|folder| !folder.is_dir()) {
        let error = Error::usage(format!("{} is not a folder", strange.display()));
        return Err(error.remedy("name the folder in which files were being written"));
    }
    let home = machine::home();
    let left = resolve(&home)?;
    collection::reclaim_names(&home)?;
    let collections = collection::reclaim(&home)?;
    let replaced = collection::reclaim_superseded(&home)?;
    let scratch: usize =
        machine::scratch(&home).iter().map(|folder| scratch::reclaim(folder)).sum();
    let sockets = sockets::reclaim();
    let notes = resume::reclaim(&home);
    let reclaim = |folder: &PathBuf| discard_all_files(folder) + output::reclaim(folder);
    let files: usize = command.folders.iter().map(reclaim).sum();
    print(&format!(
        "removed: {collections} collections in the making, {replaced} files of replaced \
         collections, {scratch} scratch folders, {sockets} folders of workers, \
         {} files in the making\n",
        files + notes
    ))?;
    left.map_or(Ok(()), Err)
}

/// Completes decided commits and prints their outputs. Returns the first error, if a commit could
/// not be completed.
fn resolve(home: &Path) -> Result<Option<Error>> {
    let mut left = None;
    for Resolution { flow, published, left: why } in commit::resolve(home) {
        if !published.is_empty() {
            print(&format!("published, of flow {flow}: {}\n", published.join(", ")))?;
        }
        left = left.or(why.map(|error| error.at(format!("flow {flow}"))));
    }
    Ok(left)
}
