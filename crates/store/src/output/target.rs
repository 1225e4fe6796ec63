//! The target of an output: its folder, and the errors when its name is taken.

use std::path::Path;

use euphrates_flow::Error;
use euphrates_flow::error::REMEDY_TAKEN;

pub(super) fn exists_already(name: &str) -> Error {
    Error::usage(format!("{name} exists already")).remedy(REMEDY_TAKEN)
}

/// The error when the name was taken after the flow was checked.
pub(super) fn appeared(name: &str) -> Error {
    Error::failed(format!("{name} has appeared while the flow ran, and may not be replaced"))
        .remedy(REMEDY_TAKEN)
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
