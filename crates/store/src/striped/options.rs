//! The options of a new striped file, and the choice of its disks.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use euphrates_device::disk::{Disk, Disks, HOME, LOCAL, NamedDisk};
use euphrates_device::folder::DiskFolder;
use euphrates_flow::{Error, Result};

use crate::catalog::Catalog;

/// Length of the blocks of full stripes: one request keeps a disk busy for a few milliseconds.
pub const BLOCK_BYTES: usize = 1 << 20;

/// How to create a striped file.
#[derive(Clone, Debug)]
pub struct StripedOptions {
    /// Data blocks of a stripe.
    pub data: usize,
    /// Parity blocks of a stripe.
    pub parity: usize,
    /// Length of a block of a full stripe, in bytes.
    pub block_bytes: usize,
    /// The names of the disks. Empty for all of this machine in `disks.json`, or the home's own
    /// disk if it has no others.
    pub disks: Vec<String>,
    /// Whether it may replace an existing file.
    pub overwrite: bool,
    /// The identifier of the program's run; no other has it.
    pub run_id: String,
}

impl Default for StripedOptions {
    fn default() -> StripedOptions {
        StripedOptions {
            data: 4,
            parity: 1,
            block_bytes: BLOCK_BYTES,
            disks: vec![],
            overwrite: true,
            run_id: "run".into(),
        }
    }
}

/// The disks of a new file, or of a volume.
pub fn disks_for(home: &Path, options: &StripedOptions) -> Result<Vec<String>> {
    let all = Disks::of(home)?;
    let mut disks = options.disks.clone();
    if disks.is_empty() {
        let is_here = |(disk, folder): &(&NamedDisk, &Arc<dyn DiskFolder>)| {
            disk.worker == LOCAL || folder.local().is_none_or(|folder| folder.is_dir())
        };
        let here = all.folders().filter(is_here).map(|(disk, _)| disk.name.clone());
        disks = here.filter(|name| name != HOME).collect();
        if disks.is_empty() {
            disks.push(HOME.to_string());
        }
    }
    let mut unusable = None;
    let mut usable = vec![];
    for (at, disk) in disks.iter().enumerate() {
        if disks[..at].contains(disk) {
            return Err(Error::usage(format!("disk `{disk}` is named twice")));
        }
        match open_usable(home, &all, disk) {
            Ok(_) => usable.push(disk.clone()),
            Err(error) if all.named().iter().all(|named| named.name != *disk) => return Err(error),
            Err(error) => drop(unusable.get_or_insert(error)),
        }
    }
    let width = options.data + options.parity;
    // A disk that cannot be used now does not keep a file from the others.
    if let Some(error) = unusable {
        if usable.len() < width.min(disks.len()) {
            return Err(error);
        }
        disks = usable;
    }
    if width > disks.len() {
        let (data, parity, there) = (options.data, options.parity, disks.len());
        let disks = if there == 1 { "is 1 disk" } else { &format!("are {there} disks") };
        let error =
            format!("a stripe of {data} + {parity} blocks needs {width} disks, and there {disks}");
        let parity = usize::from(there > 1);
        let (data, listed) = (there - parity, home.join("disks.json"));
        return Err(Error::usage(error).remedy(format!(
            "list more disks in {}; or write fewer blocks, `data={data}` and `parity={parity}`, so \
             that {} may be lost",
            listed.display(),
            if parity == 1 { "one disk" } else { "no disk" },
        )));
    }
    Ok(disks)
}

/// Opens a disk. Makes the folder of one that has never been used; that of another is missing
/// because the disk is not mounted, and must not be made on the disk below.
pub(super) fn open_usable(home: &Path, disks: &Disks, name: &str) -> Result<Disk> {
    let folder = disks.folder(name).map(|(_, folder)| folder);
    let is_missing = |folder: &&Arc<dyn DiskFolder>| {
        folder.facts().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if let Some(folder) = folder.filter(is_missing)
        && Catalog::of(home)?.uses_disk(name)?
    {
        let folder = folder.place().display();
        let error = format!("the folder {folder} of disk `{name}`, which has files, is missing");
        let remedy = "mount the disk; if it is lost, make the folder for a new one, and repair";
        return Err(Error::resource(error).remedy(remedy));
    }
    disks.open(name)
}
