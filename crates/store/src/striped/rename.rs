//! Renaming a striped file without copying its blocks.
//!
//! The new name gets hard links to the segments, and a manifest that lists them; then the old name
//! is removed, with its links. A crash in between leaves both names, with the same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use euphrates_device::disk::{Disk, Disks, at_once};
use euphrates_device::durable::Durability;
use euphrates_device::folder::HeldFolder;
use euphrates_flow::error::REMEDY_TAKEN;
use euphrates_flow::{Error, Result};

use crate::catalog::folders::STAGING;
use crate::catalog::{Catalog, CopyEntry, Existence, Manifest, SegmentEntry, check_name};
use crate::collection::{
    CommitIntent, NameReservation, NewVersion, attempt, expect_durable, final_folder_of, now,
    reclaim_disk, remove_named, remove_segments, segments_folder,
};

/// Gives a striped file another name. With `overwrite` it may replace a file of that name, whose
/// readers see either the old bytes or the new ones. Returns the number of the new name's version.
/// Fails, and changes nothing, if a disk of the file is missing, or another writer was faster.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter, rename_file};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut writer = StripedWriter::create(home.path(), "draft", options)?;
/// writer.write_at(0, b"text")?;
/// writer.commit()?;
/// rename_file(home.path(), "draft", "final", false, "run")?;
/// assert!(StripedReader::open(home.path(), "draft").is_err(), "it has another name");
/// assert_eq!(StripedReader::open(home.path(), "final")?.bytes(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rename_file(
    home: &Path,
    from: &str,
    to: &str,
    overwrite: bool,
    run_id: &str,
) -> Result<u64> {
    check_name(to)?;
    let catalog = Catalog::of(home)?;
    if from == to {
        return Ok(catalog.find_file(from)?.version);
    }
    // No writer may replace the file before its old name is removed.
    let named = NameReservation::take(&catalog, from, run_id, None)?;
    let linked = link(home, &catalog, from, to, overwrite, run_id).inspect_err(|_| named.release());
    let version = linked.map_err(|error| error.at(format!("striped file {from}")))?;
    remove_named(home, &catalog, from, run_id, &named)?;
    Ok(version)
}

/// Publishes a version of the new name, of links to the segments of the old one.
fn link(
    home: &Path,
    catalog: &Catalog,
    from: &str,
    to: &str,
    overwrite: bool,
    run_id: &str,
) -> Result<u64> {
    let source = catalog.find_file(from)?.current()?;
    let before = catalog.predecessor_of_next(to)?;
    before.as_ref().map_or(Ok(()), Manifest::expect_file)?;
    if !overwrite && before.as_ref().is_some_and(|before| before.life == Existence::Live) {
        let error = Error::usage(format!("there is a striped file `{to}` already"));
        return Err(error.remedy(REMEDY_TAKEN));
    }
    let attempt = attempt(run_id);
    let final_folder = final_folder_of(home, to, &attempt);
    let mut files: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let segments = source.segments.iter().enumerate().map(|(number, segment)| {
        let file = if number == 0 { "map".to_string() } else { format!("{number}.blocks") };
        let mut copies = segment.copies().into_iter().map(|copy| {
            let path = format!("{final_folder}/{file}");
            files.entry(copy.disk.clone()).or_default().push((copy.path, file.clone()));
            CopyEntry { disk: copy.disk, path }
        });
        let primary = copies.next().expect("a segment has a primary copy");
        let mirrors = copies.collect();
        SegmentEntry { disk: primary.disk, path: primary.path, mirrors, ..segment.clone() }
    });
    let segments: Vec<SegmentEntry> = segments.collect();
    let manifest = Manifest {
        name: to.to_string(),
        version: before.as_ref().map_or(0, |before| before.version) + 1,
        run_id: run_id.to_string(),
        created: now().max(source.created),
        segments,
        ..source
    };
    let note = CommitIntent::of(home, to, &final_folder, None)?;
    let mut linked = LinkedSegments { final_folder, disks: vec![] };
    let disks = Disks::of(home)?;
    for (disk, files) in &files {
        linked.stage(home, catalog, (&disks, disk), files, (&attempt, &note))?;
    }
    at_once(linked.disks.iter(), |(disk, held)| {
        let to = Path::new(&linked.final_folder);
        let moved = disk.files().move_folder(&segments_folder(held.path()), to);
        moved.map_err(|error| Error::os("move the segments to", disk.folder().join(to), &error))
    })?;
    let (version, named) = NewVersion::reserve(home, catalog, manifest, before.as_ref(), None)?;
    let published = version.publish();
    named.release();
    let durability = published?;
    let is_durable = matches!(durability, Durability::Durable);
    for (_, held) in linked.disks.drain(..).filter(|_| is_durable) {
        held.remove();
    }
    if is_durable {
        version.clean();
    }
    expect_durable(durability, &version.manifest.title())?;
    Ok(version.manifest.version)
}

/// The links on each disk, which are removed unless they are published.
struct LinkedSegments {
    final_folder: String,
    disks: Vec<(Disk, Box<dyn HeldFolder>)>,
}

impl LinkedSegments {
    /// Links the files of a disk in a staging folder there.
    fn stage(
        &mut self,
        home: &Path,
        catalog: &Catalog,
        (disks, name): (&Disks, &str),
        files: &[(String, String)],
        (attempt, note): (&str, &CommitIntent),
    ) -> Result<()> {
        if disks.folder(name).is_none_or(|(_, folder)| folder.facts().is_err()) {
            let error = Error::resource(format!("disk `{name}` is missing"));
            return Err(error.remedy("bring it back, or repair the file without it, first"));
        }
        let disk = disks.open(name)?;
        reclaim_disk(home, &disk, catalog);
        let held = disk.files().hold(Path::new(STAGING), attempt)?;
        let folder = segments_folder(held.path());
        self.disks.push((disk.clone(), held));
        let (_, held) = self.disks.last().expect("it has just been added");
        note.write_within(&**disk.files(), held.path(), true)?;
        for (old, new) in files {
            let linked = disk.files().link(Path::new(old), &folder.join(new));
            linked.map_err(|error| Error::os("link", disk.folder().join(old), &error))?;
        }
        Ok(())
    }
}

impl Drop for LinkedSegments {
    fn drop(&mut self) {
        for (disk, held) in self.disks.drain(..) {
            // The note in its folder records for the next start what is left.
            if remove_segments(&disk, &self.final_folder).is_ok() {
                held.remove();
            }
        }
    }
}
