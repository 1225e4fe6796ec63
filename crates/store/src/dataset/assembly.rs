//! Makes one folder of what all processes have staged, and of the files of the target that stay.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use euphrates_device::private;
use euphrates_flow::{Error, Result};

use super::folder_output::{FolderIdentity, FolderOutput};
use super::tree::{self, Tree};
use super::{DatasetTarget, SaveMode, not_empty};
use crate::commit::reservation::{self, ReservationMark, ReservedName};
use crate::commit::reserve;

/// What a dataset is made of.
pub struct Assembly<'a> {
    /// Where it will be.
    pub target: &'a DatasetTarget,
    /// The hidden folders of all processes, at least one; the first becomes the dataset.
    pub parts: Vec<PathBuf>,
    /// Whether a file of this name holds rows.
    pub is_data: &'a dyn Fn(&str) -> bool,
    /// Writes a file without rows into this folder, if the dataset has no other data.
    pub write_empty: &'a dyn Fn(&Path) -> Result<()>,
}

/// Reserves the name of a dataset, and makes its folder complete and durable. Nothing is visible
/// yet. The `mark` need not name what is staged.
pub fn assemble(it: &Assembly, mark: ReservationMark) -> Result<(FolderOutput, ReservedName)> {
    let (target, staged) = (it.target, it.parts.first());
    let staged = staged.ok_or_else(|| Error::failed("a dataset without a folder"))?;
    check_seen(&it.parts)?;
    let run_id = mark.run_id.clone();
    let mark = ReservationMark { staged: Some(staged.clone()), ..mark };
    let name = target.path.display().to_string();
    let reserved = reserve::reserve(reservation::beside(&target.path), &name, &mark)?;
    let made = it.fill(staged).and_then(|(before, content)| {
        let identity = FolderIdentity::of(staged);
        Ok(FolderOutput {
            staged: staged.clone(),
            target: target.path.clone(),
            before,
            content,
            reservation: reserved.path().to_path_buf(),
            run_id,
            identity: identity.map_err(|error| Error::os("look at", staged, &error))?,
        })
    });
    match made {
        Ok(output) => Ok((output, reserved)),
        Err(error) => {
            reserved.remove();
            Err(error)
        }
    }
}

/// Fails if a process has staged its files where this one does not see them.
fn check_seen(parts: &[PathBuf]) -> Result<()> {
    match parts.iter().find(|part| !part.is_dir()) {
        None => Ok(()),
        Some(part) => {
            let message = format!("{} is on a disk of another machine", part.display());
            Err(Error::usage(message).remedy(
                "save to a folder that all workers and this program share, or with one worker",
            ))
        }
    }
}

impl Assembly<'_> {
    /// Fills the staged folder. Returns the fingerprints of the folder that it replaces, and of the
    /// staged one.
    fn fill(&self, staged: &Path) -> Result<(Option<u64>, u64)> {
        self.parts[1..].iter().try_for_each(|part| take_over(part, staged))?;
        let new = Tree::of(staged)?;
        let before = match self.target.path.is_dir() && !tree::is_empty(&self.target.path)? {
            true if self.target.mode == SaveMode::Error => {
                return Err(not_empty(&self.target.path));
            }
            true => Some(Tree::of(&self.target.path)?),
            false => None,
        };
        let kept = before.iter().map(|before| self.keep(before, &new, staged)).sum::<Result<_>>();
        let has_data: usize = kept?;
        if new.files.is_empty() && has_data == 0 {
            (self.write_empty)(staged)?;
        }
        let whole = Tree::of(staged)?;
        let content = whole.fingerprint;
        let changed = match before.is_some() || self.parts.len() > 1 || new.files.is_empty() {
            // Links and renames of files are entries of folders.
            true => [whole.folders, whole.files].concat(),
            false => whole.folders,
        };
        tree::sync(staged, &changed)?;
        self.give_permissions(staged)?;
        Ok((before.map(|before| before.fingerprint), content))
    }

    /// Links the files that stay into the staged folder. Returns how many of them hold rows.
    fn keep(&self, before: &Tree, new: &Tree, staged: &Path) -> Result<usize> {
        let from = &self.target.path;
        let taken: HashSet<&PathBuf> = new.files.iter().collect();
        let renewed: HashSet<&Path> = new.files.iter().filter_map(|file| file.parent()).collect();
        let mut data = 0;
        for file in &before.files {
            let is_data = self.is_data(file);
            let is_replaced = match self.target.mode {
                SaveMode::Error | SaveMode::Append => false,
                SaveMode::Overwrite => is_data,
                SaveMode::OverwritePartitions => {
                    is_data && file.parent().is_some_and(|folder| renewed.contains(folder))
                }
            };
            if is_replaced {
                continue;
            }
            if taken.contains(file) {
                let error = Error::failed(format!("{} exists already", from.join(file).display()));
                return Err(error.remedy("write `{run}` in `file_name`, which no other run has"));
            }
            link(&from.join(file), &staged.join(file))?;
            data += usize::from(is_data);
        }
        Ok(data)
    }

    /// Whether a file holds rows that a scan of the folder reads.
    fn is_data(&self, file: &Path) -> bool {
        let is_hidden =
            |part: &str| part.starts_with('.') || (part.starts_with('_') && !part.contains('='));
        let text = file.to_string_lossy();
        !text.split('/').any(is_hidden) && (self.is_data)(&text)
    }

    /// Gives the staged folder the permissions of the one that it replaces, or the usual ones.
    fn give_permissions(&self, staged: &Path) -> Result<()> {
        let old = fs::metadata(&self.target.path).map(|old| old.permissions());
        let permissions = old.unwrap_or_else(|_| {
            let files = private::usual().mode();
            // Whoever may read may enter.
            fs::Permissions::from_mode(files | (files & 0o444) >> 2)
        });
        let given = fs::set_permissions(staged, permissions);
        given.map_err(|error| Error::os("change the permissions of", staged, &error))
    }
}

/// Moves the files of a part into the staged folder, and removes what is left of the part.
fn take_over(part: &Path, staged: &Path) -> Result<()> {
    let tree = Tree::of(part)?;
    for folder in &tree.folders {
        let folder = staged.join(folder);
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| Error::os("make the folder", &folder, &error))?;
    }
    for file in &tree.files {
        let to = staged.join(file);
        fs::rename(part.join(file), &to).map_err(|error| Error::os("rename to", &to, &error))?;
    }
    fs::remove_dir_all(part).map_err(|error| Error::os("remove", part, &error))
}

/// Gives a file a second name, in a folder that is made if it is missing. A link is made again.
fn link(from: &Path, to: &Path) -> Result<()> {
    let make = || match fs::read_link(from) {
        Ok(points_to) => std::os::unix::fs::symlink(points_to, to),
        Err(_) => fs::hard_link(from, to),
    };
    let made = make().or_else(|error| match (error.kind(), to.parent()) {
        (io::ErrorKind::NotFound, Some(folder)) => {
            fs::create_dir_all(folder)?;
            make()
        }
        _ => Err(error),
    });
    made.map_err(|error| Error::os("link", from, &error))
}
