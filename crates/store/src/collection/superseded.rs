//! Removal of superseded versions: removes the segments of older versions once a newer version is
//! durable.
//!
//! Usually the process that publishes a version removes what it replaces. If it was killed in
//! between, the next writer of the collection does, or `euphrates rm`, or `gc`. The catalog keeps
//! the manifests of all versions, which list the files of each. Where a manifest is damaged, its
//! segments are recognised by their folder, which has the tag of this home, and by the absence of
//! any other reference to them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::catalog::folders::STAGING;
use crate::catalog::{Catalog, CopyEntry, Manifest, SegmentEntry, tag};
use crate::commit::decision::is_decided;
use crate::segment::toc_path;
use euphrates_device::disk::{Disks, HOME};
use euphrates_device::durable::Durability;

/// How far back to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Stops at the first older version of which it removes no file.
    UntilNothingRemoved,
    /// Through all versions that the catalog has.
    All,
}

/// The disk and the path of each file that must stay.
type FilesToKeep = BTreeSet<(String, String)>;

/// Removes the files of versions before the newest, except those that the newest shares. Returns
/// the number of removed files; the next sweep finds what cannot be removed now. Nothing is removed
/// before the newest version is durable: after a loss of power the one before would be needed.
pub(super) fn sweep(home: &Path, catalog: &Catalog, newest: &Manifest, depth: Depth) -> usize {
    let Ok(versions) = catalog.versions_before(newest) else { return 0 };
    let mut versions = versions.peekable();
    if versions.peek().is_none() || !matches!(catalog.sync(&newest.name), Durability::Durable) {
        return 0;
    }
    let kept = newest.segments.iter().flat_map(SegmentEntry::copies);
    let kept: FilesToKeep = kept.map(|copy| (copy.disk, copy.path)).collect();
    let (mut removed, mut has_unreadable) = (0, false);
    for version in versions {
        let Some(older) = version else {
            has_unreadable = true;
            continue;
        };
        let files = remove_files(home, &older, &kept);
        removed += files;
        if files == 0 && !older.segments.is_empty() && depth == Depth::UntilNothingRemoved {
            break;
        }
    }
    if has_unreadable {
        removed += remove_unknown(home, catalog, newest, &kept);
    }
    removed
}

/// Removes the files of a version, except those to keep.
pub(super) fn remove_files(home: &Path, manifest: &Manifest, kept: &FilesToKeep) -> usize {
    let Ok(disks) = Disks::of(home) else { return 0 };
    let mut removed = 0;
    for CopyEntry { disk, path } in manifest.segments.iter().flat_map(SegmentEntry::copies) {
        if kept.contains(&(disk.clone(), path.clone())) {
            continue;
        }
        // The home's own disk may hold a copy of the table of contents.
        for disk in [disk.as_str(), HOME] {
            let Some((_, folder)) = disks.folder(disk) else { continue };
            let path = Path::new(&path);
            for file in [&toc_path(path), path] {
                removed += usize::from(folder.remove_file(file).is_ok());
            }
            path.parent().into_iter().for_each(|above| folder.remove_empty(above));
        }
    }
    removed
}

/// Removes folders of segments of this home that no version lists and no live attempt holds.
fn remove_unknown(home: &Path, catalog: &Catalog, newest: &Manifest, kept: &FilesToKeep) -> usize {
    let Ok(disks) = Disks::of(home) else { return 0 };
    let suffix = format!(".{}", tag(home));
    let mut unknown = vec![];
    for (disk, folder_of_disk) in disks.folders() {
        for entry in folder_of_disk.list(Path::new(&newest.name)).unwrap_or_default() {
            let file = entry.name.strip_prefix('@');
            let attempt = file.and_then(|file| file.strip_suffix(&suffix));
            let Some(attempt) = attempt else { continue };
            let folder = format!("{}/@{attempt}{suffix}/", newest.name);
            let is_kept =
                kept.iter().any(|(on, path)| *on == disk.name && path.starts_with(&folder));
            let is_needed = is_kept || is_decided(home, folder.trim_end_matches('/'));
            if !is_needed && !folder_of_disk.is_held(Path::new(STAGING), attempt) {
                unknown.push((folder_of_disk, folder));
            }
        }
    }
    // A writer that has released its segments since may have published them in a newer version.
    match catalog.newest(&newest.name) {
        Ok(Some(still)) if still.version == newest.version => {}
        _ => return 0,
    }
    let is_removed = unknown.iter().map(|(disk, folder)| {
        let removed = disk.remove_folder(Path::new(folder)).is_ok();
        disk.remove_empty(Path::new(folder));
        removed
    });
    is_removed.filter(|removed| *removed).count()
}
