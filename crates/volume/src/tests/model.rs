//! A file system in memory whose files are arrays: what a volume has to equal.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::tree::{DataPlace, Errno, InodeContent, InodeKind, LogRecord, ROOT, VolumeTree};

/// Names from a folder to another, each one of few.
pub type Path = Vec<u8>;

/// An operation of a program.
#[derive(Clone, Debug)]
pub enum TreeStep {
    Make { path: Path, is_folder: bool },
    Write { path: Path, offset: u64, bytes: usize },
    Truncate { path: Path, bytes: u64 },
    Zero { path: Path, offset: u64, bytes: u64 },
    Remove { path: Path, is_folder: bool },
    Rename { from: Path, to: Path, exchange: bool },
    Link { from: Path, to: Path },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelNode {
    File(Vec<u8>),
    Folder(BTreeMap<u8, usize>),
}

/// The model. Nodes that have lost their names stay.
#[derive(Clone, Debug)]
pub struct Model(Vec<ModelNode>);

/// Path, content (`None` for a folder) and links of each name.
pub type Listing = Vec<(Path, Option<Vec<u8>>, u32)>;

pub fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(0_u8..4, 1..4)
}

pub fn step() -> impl Strategy<Value = TreeStep> {
    let bytes = prop_oneof![1_usize..5000, Just(70_000)];
    prop_oneof![
        4 => (path(), any::<bool>()).prop_map(|(path, is_folder)| {
            TreeStep::Make { path, is_folder }
        }),
        6 => (path(), 0_u64..9000, bytes).prop_map(|(path, offset, bytes)| {
            TreeStep::Write { path, offset, bytes }
        }),
        2 => (path(), 0_u64..9000).prop_map(|(path, bytes)| TreeStep::Truncate { path, bytes }),
        2 => (path(), 0_u64..9000, 0_u64..5000).prop_map(|(path, offset, bytes)| {
            TreeStep::Zero { path, offset, bytes }
        }),
        2 => (path(), any::<bool>()).prop_map(|(path, is_folder)| {
            TreeStep::Remove { path, is_folder }
        }),
        4 => (path(), path(), prop::bool::weighted(0.2)).prop_map(|(from, to, exchange)| {
            TreeStep::Rename { from, to, exchange }
        }),
        2 => (path(), path()).prop_map(|(from, to)| TreeStep::Link { from, to }),
    ]
}

/// The bytes that the write of a number writes.
pub fn data_of(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + number * 13 + 1) as u8).collect()
}

impl Model {
    pub fn new() -> Model {
        Model(vec![ModelNode::Folder(BTreeMap::new())])
    }

    fn find(&self, path: &[u8]) -> Option<usize> {
        path.iter().try_fold(0, |node, name| match &self.0[node] {
            ModelNode::Folder(entries) => entries.get(name).copied(),
            ModelNode::File(_) => None,
        })
    }

    /// The folder of a path, and the last name.
    fn folder(&mut self, path: &[u8]) -> Option<(usize, u8)> {
        let (name, above) = path.split_last()?;
        let folder = self.find(above)?;
        matches!(self.0[folder], ModelNode::Folder(_)).then_some((folder, *name))
    }

    fn entries(&mut self, folder: usize) -> &mut BTreeMap<u8, usize> {
        match &mut self.0[folder] {
            ModelNode::Folder(entries) => entries,
            ModelNode::File(_) => panic!("it is a folder"),
        }
    }

    fn file(&mut self, path: &[u8]) -> Option<&mut Vec<u8>> {
        let node = self.find(path)?;
        match &mut self.0[node] {
            ModelNode::File(bytes) => Some(bytes),
            ModelNode::Folder(_) => None,
        }
    }

    /// Does a step; `None`, and nothing is changed, if it is an error.
    pub fn apply(&mut self, number: usize, step: &TreeStep) -> Option<()> {
        match step {
            TreeStep::Make { path, is_folder } => {
                let (folder, name) = self.folder(path)?;
                let made = match is_folder {
                    true => ModelNode::Folder(BTreeMap::new()),
                    false => ModelNode::File(vec![]),
                };
                let node = self.0.len();
                if self.entries(folder).contains_key(&name) {
                    return None;
                }
                self.0.push(made);
                self.entries(folder).insert(name, node);
            }
            TreeStep::Write { path, offset, bytes } => {
                let (file, start) = (self.file(path)?, *offset as usize);
                file.resize(file.len().max(start + bytes), 0);
                file[start..start + bytes].copy_from_slice(&data_of(number, *bytes));
            }
            TreeStep::Truncate { path, bytes } => self.file(path)?.resize(*bytes as usize, 0),
            TreeStep::Zero { path, offset, bytes } => {
                let file = self.file(path)?;
                let end = (offset + bytes) as usize;
                let range = (*offset as usize).min(file.len())..end.min(file.len());
                file[range].fill(0);
            }
            TreeStep::Remove { path, is_folder } => {
                let node = self.find(path)?;
                let (folder, name) = self.folder(path)?;
                match (&self.0[node], is_folder) {
                    (ModelNode::Folder(entries), true) if entries.is_empty() => {}
                    (ModelNode::File(_), false) => {}
                    _ => return None,
                }
                self.entries(folder).remove(&name);
            }
            TreeStep::Rename { from, to, exchange } => return self.rename(from, to, *exchange),
            TreeStep::Link { from, to } => {
                let node = self.find(from)?;
                let (folder, name) = self.folder(to)?;
                if matches!(self.0[node], ModelNode::Folder(_))
                    || self.entries(folder).contains_key(&name)
                {
                    return None;
                }
                self.entries(folder).insert(name, node);
            }
        }
        Some(())
    }

    fn rename(&mut self, from: &[u8], to: &[u8], exchange: bool) -> Option<()> {
        let node = self.find(from)?;
        let ((folder, name), (to_folder, to_name)) = (self.folder(from)?, self.folder(to)?);
        let is_folder = matches!(self.0[node], ModelNode::Folder(_));
        let is_below =
            |above: &[u8], path: &[u8]| path.len() > above.len() && path.starts_with(above);
        if is_folder && is_below(from, to) {
            return None;
        }
        let other = self.find(to);
        if other == Some(node) {
            return Some(());
        }
        if exchange {
            let other = other?;
            if matches!(self.0[other], ModelNode::Folder(_)) && is_below(to, from) {
                return None;
            }
            self.entries(folder).insert(name, other);
            self.entries(to_folder).insert(to_name, node);
            return Some(());
        }
        match other.map(|other| &self.0[other]) {
            Some(ModelNode::Folder(entries)) if !is_folder || !entries.is_empty() => return None,
            Some(ModelNode::File(_)) if is_folder => return None,
            _ => {}
        }
        self.entries(folder).remove(&name);
        self.entries(to_folder).insert(to_name, node);
        Some(())
    }

    pub fn listing(&self) -> Listing {
        let mut names = vec![];
        self.list(0, &mut vec![], &mut names);
        let links = |node: usize| names.iter().filter(|(_, other)| *other == node).count() as u32;
        let one = |(path, node): &(Path, usize)| match &self.0[*node] {
            ModelNode::File(bytes) => (path.clone(), Some(bytes.clone()), links(*node)),
            ModelNode::Folder(_) => (path.clone(), None, 0),
        };
        names.iter().map(one).collect()
    }

    fn list(&self, folder: usize, path: &mut Path, names: &mut Vec<(Path, usize)>) {
        let ModelNode::Folder(entries) = &self.0[folder] else { return };
        for (name, node) in entries {
            path.push(*name);
            names.push((path.clone(), *node));
            self.list(*node, path, names);
            path.pop();
        }
    }
}

fn resolve(tree: &VolumeTree, path: &[u8]) -> Result<u64, Errno> {
    path.iter().try_fold(ROOT, |folder, name| tree.child(folder, &[b'a' + name]))
}

/// Does a step on a tree: `apply` receives the record.
pub fn apply(
    tree: &VolumeTree,
    number: usize,
    step: &TreeStep,
    apply: &mut dyn FnMut(&LogRecord<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let split = |path: &Path| -> Result<(u64, [u8; 1]), Errno> {
        let (name, above) = path.split_last().ok_or(Errno::INVAL)?;
        Ok((resolve(tree, above)?, [b'a' + name]))
    };
    let time = number as i64;
    match step {
        TreeStep::Make { path, is_folder } => {
            let (parent, name) = split(path)?;
            let kind = if *is_folder { InodeKind::Folder } else { InodeKind::File };
            apply(&LogRecord::Create {
                number: tree.next_number(),
                parent,
                name: &name,
                mode: kind.bits() | 0o700,
                owner: (1, 2),
                device: 0,
                target: b"",
                time,
            })
        }
        TreeStep::Write { path, offset, bytes } => {
            let (number, data) = (resolve(tree, path)?, data_of(number, *bytes));
            apply(&LogRecord::Write { number, offset: *offset, time, data: &data })
        }
        TreeStep::Truncate { path, bytes } => {
            apply(&LogRecord::Truncate { number: resolve(tree, path)?, bytes: *bytes, time })
        }
        TreeStep::Zero { path, offset, bytes } => {
            let (number, offset, bytes) = (resolve(tree, path)?, *offset, *bytes);
            apply(&LogRecord::Zero { number, offset, bytes, extends: false, time })
        }
        TreeStep::Remove { path, is_folder } => {
            let (parent, name) = split(path)?;
            apply(&LogRecord::Remove { parent, name: &name, is_folder: *is_folder, time })
        }
        TreeStep::Rename { from, to, exchange } => {
            let ((parent, name), (to_parent, to_name)) = (split(from)?, split(to)?);
            let (name, to_name, exchange) = (&name[..], &to_name[..], *exchange);
            apply(&LogRecord::Rename { parent, name, to_parent, to_name, exchange, time })
        }
        TreeStep::Link { from, to } => {
            let (number, (parent, name)) = (resolve(tree, from)?, split(to)?);
            apply(&LogRecord::Link { number, parent, name: &name, time })
        }
    }
}

/// What a tree contains; `read` reads bytes of the log.
pub fn listing(tree: &VolumeTree, read: &dyn Fn(DataPlace, usize) -> Vec<u8>) -> Listing {
    let mut listed = vec![];
    let mut open = vec![(ROOT, vec![])];
    while let Some((folder, path)) = open.pop() {
        for (name, number) in tree.entries(folder).unwrap() {
            let path: Path = path.iter().copied().chain([name[0] - b'a']).collect();
            let inode = tree.inode(*number).unwrap();
            match &inode.content {
                InodeContent::File { bytes, .. } => {
                    let pieces = tree.pieces(*number, 0, *bytes).unwrap();
                    let content = pieces.iter().flat_map(|piece| match piece.place {
                        Some(place) => read(place, piece.bytes as usize),
                        None => vec![0; piece.bytes as usize],
                    });
                    listed.push((path, Some(content.collect()), inode.links));
                }
                _ => {
                    open.push((*number, path.clone()));
                    listed.push((path, None, 0));
                }
            }
        }
    }
    listed.sort();
    listed
}
