//! The inodes of the mount: numbers for the names that the kernel knows, and the folders that were
//! made here.
//!
//! Folders are what names have in common. One that was made, or whose last file was removed, has no
//! name in the home, so the mount remembers it until it ends.

use std::collections::{BTreeSet, HashMap};

/// The root's number.
pub const ROOT: u64 = 1;
/// A number for entries of a listing that the kernel has not looked up.
pub const UNKNOWN: u64 = 0xffff_ffff;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    File,
    Folder,
}

#[derive(Debug)]
struct InodeEntry {
    name: String,
    kind: NodeKind,
    /// How often the kernel has got the number, less what it has forgotten.
    lookups: u64,
    /// Whether the name has been removed or replaced since.
    is_removed: bool,
}

/// Numbers and names.
#[derive(Debug)]
pub struct InodeTree {
    nodes: HashMap<u64, InodeEntry>,
    numbers: HashMap<String, u64>,
    next: u64,
    /// Folders that need not have files.
    pub made: BTreeSet<String>,
}

impl InodeTree {
    pub fn new() -> InodeTree {
        let root = InodeEntry {
            name: String::new(),
            kind: NodeKind::Folder,
            lookups: 1,
            is_removed: false,
        };
        let (nodes, numbers) = ([(ROOT, root)].into(), [(String::new(), ROOT)].into());
        InodeTree { nodes, numbers, next: ROOT + 1, made: BTreeSet::new() }
    }

    /// The name of a number, unless it was removed.
    pub fn name(&self, number: u64) -> Option<&str> {
        let node = self.nodes.get(&number).filter(|node| !node.is_removed);
        node.map(|node| node.name.as_str())
    }

    /// The number of a name, if the kernel knows it.
    pub fn known(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    /// The number of a name, which the kernel gets.
    pub fn look_up(&mut self, name: &str, kind: NodeKind) -> u64 {
        let known = self.known(name).filter(|number| self.nodes[number].kind == kind);
        let number = known.unwrap_or_else(|| {
            self.remove(name);
            let number = self.next;
            self.next += 1;
            let node = InodeEntry { name: name.to_string(), kind, lookups: 0, is_removed: false };
            self.nodes.insert(number, node);
            self.numbers.insert(name.to_string(), number);
            number
        });
        self.nodes.get_mut(&number).expect("it is known").lookups += 1;
        number
    }

    /// Forgets a number that the kernel got some times.
    pub fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            let node = self.nodes.remove(&number).expect("it is there");
            if !node.is_removed {
                self.numbers.remove(&node.name);
            }
        }
    }

    /// Takes the number from a name, which may then stand for another file.
    pub fn remove(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name) {
            self.nodes.get_mut(&number).expect("its name is known").is_removed = true;
        }
    }

    /// Gives another name to a file, or to a folder and what is below.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.remove(to);
        let moved: Vec<(String, u64)> = self
            .numbers
            .iter()
            .filter(|(name, _)| is_below(name, from) || *name == from)
            .map(|(name, number)| (name.clone(), *number))
            .collect();
        for (name, number) in moved {
            let new = format!("{to}{}", &name[from.len()..]);
            self.numbers.remove(&name);
            self.nodes.get_mut(&number).expect("its name is known").name.clone_from(&new);
            self.numbers.insert(new, number);
        }
        let made: Vec<String> = self
            .made
            .iter()
            .filter(|name| is_below(name, from) || *name == from)
            .cloned()
            .collect();
        for name in made {
            self.made.remove(&name);
            self.made.insert(format!("{to}{}", &name[from.len()..]));
        }
    }

    /// Keeps a folder that has lost an entry.
    pub fn keep_parent(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.made.insert(parent.to_string());
        }
    }
}

/// Whether a name is that of a file or folder in a folder, or deeper.
pub fn is_below(name: &str, folder: &str) -> bool {
    match folder.is_empty() {
        true => !name.is_empty(),
        false => name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// The name of an entry of a folder.
pub fn child_name(folder: &str, part: &str) -> String {
    if folder.is_empty() { part.to_string() } else { format!("{folder}/{part}") }
}

/// The entry of a folder through which a name below it is reached, and whether it is a folder.
pub fn entry_towards<'a>(name: &'a str, folder: &str) -> Option<(&'a str, NodeKind)> {
    let rest = match folder.is_empty() {
        true => name,
        false => name.strip_prefix(folder)?.strip_prefix('/')?,
    };
    match rest.split_once('/') {
        Some((part, _)) => Some((part, NodeKind::Folder)),
        None => (!rest.is_empty()).then_some((rest, NodeKind::File)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_renames_and_end_with_their_names() {
        let mut tree = InodeTree::new();
        let folder = tree.look_up("a", NodeKind::Folder);
        let file = tree.look_up("a/x", NodeKind::File);
        tree.made.insert("a/empty".into());
        tree.rename("a", "b");
        assert_eq!((tree.name(folder), tree.name(file)), (Some("b"), Some("b/x")));
        assert!(tree.made.contains("b/empty") && tree.known("a").is_none());
        tree.remove("b/x");
        assert_eq!(tree.name(file), None);
        let other = tree.look_up("b/x", NodeKind::File);
        assert_ne!(other, file, "another file of the name has another number");
        tree.forget(file, 1);
        tree.forget(other, 1);
        assert!(tree.known("b/x").is_none() && tree.known("b") == Some(folder));
    }

    #[test]
    fn entries_of_a_folder_are_the_next_parts_of_names() {
        assert_eq!(entry_towards("a/b/c", "a"), Some(("b", NodeKind::Folder)));
        assert_eq!(entry_towards("a/b", "a"), Some(("b", NodeKind::File)));
        assert_eq!(entry_towards("ab/c", "a"), None);
        assert_eq!(entry_towards("a", ""), Some(("a", NodeKind::File)));
    }
}
