//! `euphrates gc`: removes what killed processes have left. Every start does so where it writes;
//! this is for whoever does not want to wait for the next.

use std::path::PathBuf;

use clap::Args;
use euphrates_engine::machine;
use euphrates_flow::Result;
use euphrates_io::{collection, output, scratch};

use crate::print;

/// `euphrates gc`
#[derive(Debug, Args)]
pub struct Gc {
    /// Folders where files were being written, besides the home
    folders: Vec<PathBuf>,
}

/// Removes the leavings of the dead, and says how many there were.
pub fn run(command: Gc) -> Result<u8> {
    let home = machine::home();
    let collections = collection::reclaim(&home)?;
    let scratch: usize =
        machine::scratch(&home).iter().map(|folder| scratch::reclaim(folder)).sum();
    let files: usize = command.folders.iter().map(|folder| output::reclaim(folder)).sum();
    print(&format!(
        "removed: {collections} collections in the making, {scratch} scratch folders, \
         {files} files in the making\n"
    ))?;
    Ok(0)
}
