//! Striped files as inputs and outputs of flows: `euphrates://` addresses in a home.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use euphrates_device::storage_options::StorageOptions;
use euphrates_device::striped::{StripedBytes, StripedEntry, StripedFiles};
use euphrates_flow::secrets::STORAGE_OPTIONS;
use euphrates_flow::{Error, Result};

use super::names::{name_of_path, path_of_name};
use super::options::StripedOptions;
use super::reader::StripedReader;
use crate::catalog::{Catalog, FoundCollection, Manifest};

/// The striped files of a home.
struct FilesOfHome {
    home: PathBuf,
}

/// The options of a path that may be the address of a striped file: one of the home that the
/// options name, or else of this one.
///
/// ```
/// use euphrates_device::location::find;
/// use euphrates_device::storage_options::StorageOptions;
/// use euphrates_store::striped::{StripedOptions, StripedWriter, with_files_of};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut writer = StripedWriter::create(home.path(), "days.csv", options)?;
/// writer.write_at(0, b"n\n7\n")?;
/// writer.commit()?;
/// let storage = with_files_of(home.path(), StorageOptions::default());
/// let found = find(&["euphrates://*.csv".to_string()], &["csv"], &storage)?;
/// assert_eq!(found[0].open()?.read_at(2, 1)?, "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_files_of(home: &Path, storage: StorageOptions) -> StorageOptions {
    let home = storage.get("home").map_or_else(|| home.to_path_buf(), PathBuf::from);
    // Files on disks are marked with it.
    let home = absolute(&home).unwrap_or(home);
    storage.with_striped(Arc::new(FilesOfHome { home }))
}

/// The options of a new file at an address.
pub(crate) fn options_of(storage: &StorageOptions) -> Result<StripedOptions> {
    let usual = StripedOptions::default();
    let count = |name: &str, usual: usize| match storage.get(name) {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|_| {
            let error = Error::usage(format!("`{name}` is {text:?}, not a whole number"));
            error.at(STORAGE_OPTIONS)
        }),
    };
    let disks = storage.get("disks").unwrap_or_default().split(',').map(str::trim);
    Ok(StripedOptions {
        data: count("data", usual.data)?,
        parity: count("parity", usual.parity)?,
        disks: disks.filter(|disk| !disk.is_empty()).map(str::to_string).collect(),
        ..usual
    })
}

impl FilesOfHome {
    fn entry(found: FoundCollection) -> Result<StripedEntry> {
        let manifest = found.current()?;
        let path = String::from_utf8_lossy(&path_of_name(&manifest.name)).into_owned();
        let bytes = manifest.file.as_ref().map_or(0, |file| file.bytes);
        Ok(StripedEntry { path, bytes, version: version_of(&manifest) })
    }
}

impl StripedFiles for FilesOfHome {
    fn home(&self) -> &Path {
        &self.home
    }

    fn find(&self, path: &str) -> Result<Option<StripedEntry>> {
        let name = name_of_path(path.as_bytes());
        let found = Catalog::of(&self.home)?.find(&name)?;
        let found = found.filter(|found| found.exists() && found.is_file());
        found.map(FilesOfHome::entry).transpose()
    }

    fn list(&self) -> Result<Vec<StripedEntry>> {
        let files = Catalog::of(&self.home)?.list_files()?;
        let mut all: Vec<_> = files.into_iter().map(FilesOfHome::entry).collect::<Result<_>>()?;
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    fn open(&self, entry: &StripedEntry) -> Result<Arc<dyn StripedBytes>> {
        let name = name_of_path(entry.path.as_bytes());
        let reader = StripedReader::open(&self.home, &name)?;
        if version_of(reader.manifest()) != entry.version {
            let error = Error::failed(format!("striped file `{name}` has been replaced meanwhile"));
            return Err(error.remedy("run it again"));
        }
        Ok(Arc::new(reader))
    }
}

/// Many instances read ranges of one file, in no order.
impl StripedBytes for StripedReader {
    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.read_apart(offset, to)
    }
}

/// A name may be removed and used again, so the number alone is not enough.
fn version_of(manifest: &Manifest) -> String {
    format!("{} {}", manifest.version, manifest.run_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_an_address_are_those_of_new_files() {
        let of = |given: &[(&str, &str)]| {
            let one = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
            StorageOptions::new(given.iter().map(one).collect()).unwrap()
        };
        let options = options_of(&of(&[("data", "2"), ("disks", "d0, d1,d2")])).unwrap();
        assert_eq!((options.data, options.parity), (2, 1));
        assert_eq!(options.disks, ["d0", "d1", "d2"]);
        assert!(options_of(&of(&[("parity", "one")])).unwrap_err().to_string().contains("parity"));
        let error = of(&[("region", "x")]).striped().err().unwrap();
        assert!(error.message().contains("region") && error.advice().is_some(), "{error}");
    }
}
