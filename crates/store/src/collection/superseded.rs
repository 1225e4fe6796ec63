//! What older versions of a collection have left: their segments go once a newer version is there.
//!
//! Usually whoever shows a version removes what it replaces. If that was killed in between, the
//! next writer of the collection does, or `euphrates rm`, or `gc`. The catalog keeps the manifests
//! of all versions, so it is known what belonged to each. Where a manifest is damaged its segments
//! are known by their place: by the tag of this home, and because nothing else refers to them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, CopyEntry, Manifest, SegmentEntry, remove_empty, tag};
use crate::commit::is_promised;
use crate::segment::toc_path;
use euphrates_device::disk::{Disks, HOME};
use euphrates_device::durable::Durability;
use euphrates_device::scratch::is_held;

use super::reclaim::STAGING;

/// How far back to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Up to the youngest version of which nothing is left.
    LastVersions,
    /// All versions.
    All,
}

/// The disk and the path of each file that is to stay.
type Kept = BTreeSet<(String, String)>;

/// Removes what versions before the newest have left, but what that has in common with them.
/// Returns how many files went; what cannot be removed now is found the next time. Nothing goes
/// before the newest version is durable: after a loss of power the last one would need it.
pub(super) fn sweep(home: &Path, catalog: &Catalog, newest: &Manifest, depth: Depth) -> usize {
    let Ok(versions) = catalog.versions_before(newest) else { return 0 };
    let mut versions = versions.peekable();
    if versions.peek().is_none() || matches!(catalog.sync(&newest.name), Durability::Unknown(_)) {
        return 0;
    }
    let kept = newest.segments.iter().flat_map(SegmentEntry::copies);
    let kept: Kept = kept.map(|copy| (copy.disk, copy.path)).collect();
    let (mut removed, mut has_unreadable) = (0, false);
    for version in versions {
        let Some(older) = version else {
            has_unreadable = true;
            continue;
        };
        let files = remove_files(home, &older, &kept);
        removed += files;
        if files == 0 && !older.segments.is_empty() && depth == Depth::LastVersions {
            break;
        }
    }
    if has_unreadable {
        removed += remove_unknown(home, catalog, newest, &kept);
    }
    removed
}

/// Removes the files of a version, but those to keep.
pub(super) fn remove_files(home: &Path, manifest: &Manifest, kept: &Kept) -> usize {
    let Ok(disks) = Disks::of(home) else { return 0 };
    let mut removed = 0;
    for CopyEntry { disk, path } in manifest.segments.iter().flat_map(SegmentEntry::copies) {
        if kept.contains(&(disk.clone(), path.clone())) {
            continue;
        }
        // There may be a table of contents at home, too.
        for disk in [disk.as_str(), HOME] {
            let Some(disk) = disks.named().iter().find(|named| named.name == disk) else {
                continue;
            };
            let path = disk.folder.join(&path);
            for file in [toc_path(&path), path.clone()] {
                removed += usize::from(fs::remove_file(file).is_ok());
            }
            remove_empty(&disk.folder, path.parent().unwrap_or(&disk.folder));
        }
    }
    removed
}

/// Removes folders of segments of this home to which no version refers, and which nobody makes.
fn remove_unknown(home: &Path, catalog: &Catalog, newest: &Manifest, kept: &Kept) -> usize {
    let Ok(disks) = Disks::of(home) else { return 0 };
    let suffix = format!(".{}", tag(home));
    let mut unknown = vec![];
    for disk in disks.named() {
        let entries = fs::read_dir(disk.folder.join(&newest.name)).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let attempt =
                file.to_str().and_then(|file| file.strip_prefix('@')?.strip_suffix(&suffix));
            let Some(attempt) = attempt else { continue };
            let place = format!("{}/@{attempt}{suffix}/", newest.name);
            let is_kept =
                kept.iter().any(|(on, path)| *on == disk.name && path.starts_with(&place));
            let is_needed = is_kept || is_promised(home, place.trim_end_matches('/'));
            if !is_needed && !is_held(&disk.folder.join(STAGING), attempt) {
                unknown.push((disk.folder.clone(), entry.path()));
            }
        }
    }
    // Whoever has let go of its segments since may have shown them in a newer version.
    match catalog.newest(&newest.name) {
        Ok(Some(still)) if still.version == newest.version => {}
        _ => return 0,
    }
    let is_removed = |(root, folder): &&(PathBuf, PathBuf)| {
        let removed = fs::remove_dir_all(folder).is_ok();
        remove_empty(root, folder);
        removed
    };
    unknown.iter().filter(is_removed).count()
}
