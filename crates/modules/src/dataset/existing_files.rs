//! What a folder holds before more files are saved to it.

use std::fs::read_dir;
use std::path::Path;

use euphrates_flow::{Error, Result};
use euphrates_formats::FORMATS;
use euphrates_formats::dataset::hive::parse_folder;

/// Whether a file of this name holds rows: it ends like one of a known format.
pub(crate) fn is_data(name: &str) -> bool {
    let endings = FORMATS.iter().flat_map(|format| format.about().extensions);
    endings.into_iter().any(|ending| {
        let packed = |packing: &str| name.ends_with(&format!(".{ending}{packing}"));
        ["", ".gz", ".bz2", ".zst"].into_iter().any(packed)
    })
}

/// Refuses to add files in folders of these columns to files in folders of others: a scan could not
/// read them together. Looks at one file.
pub(crate) fn check_partitions(folder: &Path, by: &[String]) -> Result<()> {
    let Some(existing) = partitions_of(folder) else { return Ok(()) };
    if existing == by {
        return Ok(());
    }
    let named = |columns: &[String]| match columns {
        [] => "no column".to_string(),
        _ => format!("`{}`", columns.join("`, `")),
    };
    let message = format!(
        "the files in {} are partitioned by {}, not by {}",
        folder.display(),
        named(&existing),
        named(by)
    );
    let columns = existing.iter().map(|column| format!("{column:?}")).collect::<Vec<_>>();
    let remedy = match existing.is_empty() {
        true => "leave out `partition_by`, or save to another folder".to_string(),
        false => {
            format!("write partition_by=[{}], or save to another folder", columns.join(", "))
        }
    };
    Err(Error::usage(message).remedy(remedy))
}

/// The columns of the folders around the first file with rows, the outermost first.
fn partitions_of(folder: &Path) -> Option<Vec<String>> {
    for entry in read_dir(folder).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let column = parse_folder(&name).map(|(column, _)| column);
        if name.starts_with('.') || (name.starts_with('_') && column.is_none()) {
            continue;
        }
        let path = entry.path();
        let found = match path.is_dir() {
            true => partitions_of(&path),
            false => is_data(&name).then(Vec::new),
        };
        if let Some(inner) = found {
            let own = column.filter(|_| path.is_dir());
            return Some(own.into_iter().chain(inner).collect());
        }
    }
    None
}
