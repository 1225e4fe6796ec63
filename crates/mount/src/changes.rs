//! Changes of names: folders are made and removed, files are removed and renamed.

use euphrates_store::catalog::check_name;
use fuser::{Errno, FileAttr};

use super::operations::{Done, FoundPath, Mounted};
use super::tree::is_below;

impl Mounted {
    /// Makes a folder, which this mount remembers.
    pub fn make_folder(&self, name: &str) -> Done<FileAttr> {
        if self.find(name).is_ok() || self.home.is_taken(name)? {
            return Err(Errno::EEXIST);
        }
        self.tree.lock().made.insert(name.to_string());
        self.look_up(name)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &str) -> Done<()> {
        match self.find(name)? {
            FoundPath::Folder if self.has_entries(name)? => Err(Errno::ENOTEMPTY),
            FoundPath::Folder => {
                let mut tree = self.tree.lock();
                tree.made.remove(name);
                tree.remove(name);
                tree.keep_parent(name);
                Ok(())
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn has_entries(&self, folder: &str) -> Done<bool> {
        let is_below = |name: &String| is_below(name, folder);
        let has_made = self.tree.lock().made.iter().any(is_below);
        let has_live = self.live_names().iter().any(is_below);
        Ok(has_made || has_live || !self.home.below(folder)?.is_empty())
    }

    /// Removes a file. Programs that have it open keep it.
    pub fn remove(&self, name: &str) -> Done<()> {
        if matches!(self.find(name)?, FoundPath::Folder) {
            return Err(Errno::EISDIR);
        }
        if let Some((_, live)) = self.live_of(name) {
            live.detach(&self.home);
        }
        if self.home.find(name)?.is_some() {
            self.home.remove(name)?;
        }
        let mut tree = self.tree.lock();
        tree.remove(name);
        tree.keep_parent(name);
        Ok(())
    }

    /// Renames a file or a folder, in place of a file or an empty folder.
    pub fn rename(&self, from: &str, to: &str, may_replace: bool) -> Done<()> {
        let source = self.find(from)?;
        let target = match self.find(to) {
            Ok(_) if !may_replace => return Err(Errno::EEXIST),
            Ok(found) => Some(found),
            Err(errno) if errno.code() == libc::ENOENT => None,
            Err(errno) => return Err(errno),
        };
        if from == to {
            return Ok(());
        }
        match (&source, &target) {
            (FoundPath::Folder, Some(FoundPath::Folder)) if self.has_entries(to)? => {
                return Err(Errno::ENOTEMPTY);
            }
            (FoundPath::Folder, Some(FoundPath::Folder) | None) => self.rename_below(from, to)?,
            (FoundPath::Folder, Some(_)) => return Err(Errno::ENOTDIR),
            (_, Some(FoundPath::Folder)) => return Err(Errno::EISDIR),
            _ => self.rename_file(from, to)?,
        }
        let mut tree = self.tree.lock();
        tree.rename(from, to);
        if matches!(source, FoundPath::Folder) {
            tree.made.insert(to.to_string());
        }
        tree.keep_parent(from);
        Ok(())
    }

    /// Renames the files of a folder, one after the other.
    fn rename_below(&self, from: &str, to: &str) -> Done<()> {
        let live = self.live_names().into_iter().filter(|name| is_below(name, from));
        let mut names: Vec<String> = live.chain(self.home.below(from)?).collect();
        names.sort();
        names.dedup();
        for name in names {
            let new = format!("{to}{}", &name[from.len()..]);
            check_name(&new).map_err(|_| Errno::ENAMETOOLONG)?;
            self.rename_file(&name, &new)?;
        }
        Ok(())
    }

    fn rename_file(&self, from: &str, to: &str) -> Done<()> {
        if let Some((_, replaced)) = self.live_of(to) {
            replaced.detach(&self.home);
        }
        let rename = || self.home.rename(from, to);
        match self.live_of(from) {
            Some((_, live)) => live.rename(&self.home, to, rename),
            None => rename().map(drop),
        }
    }
}
