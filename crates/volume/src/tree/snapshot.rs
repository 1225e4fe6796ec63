//! The whole tree as bytes, for checkpoints.

use std::collections::BTreeMap;

use super::codec::{BytesIn, BytesOut};
use super::extents::{DataPlace, ExtentMap};
use super::inode::{Inode, InodeContent, InodeKind, Times};
use super::{ROOT, VolumeTree};

impl VolumeTree {
    /// Appends all inodes, also those without a name: later records may change them.
    pub fn encode(&self, out: &mut BytesOut) {
        out.u64(self.next);
        out.u64(self.inodes.len() as u64);
        for (number, inode) in &self.inodes {
            out.u64(*number);
            encode_inode(inode, out);
        }
    }

    /// Reads a tree; `None` if it is malformed.
    pub fn decode(from: &mut BytesIn<'_>) -> Option<VolumeTree> {
        let (next, count) = (from.u64()?, from.u64()?);
        let (mut inodes, mut live) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..count {
            let number = from.u64()?;
            let inode = decode_inode(from)?;
            if let InodeContent::File { extents, .. } = &inode.content {
                for (_, extent) in extents.iter() {
                    *live.entry(extent.place.chunk).or_default() += u64::from(extent.bytes);
                }
            }
            inodes.insert(number, inode);
        }
        inodes.get(&ROOT).filter(|root: &&Inode| root.is_folder())?;
        Some(VolumeTree { inodes, next, live })
    }
}

fn encode_inode(inode: &Inode, out: &mut BytesOut) {
    for one in [inode.mode, inode.uid, inode.gid, inode.device, inode.links] {
        out.u32(one);
    }
    let Times { accessed, modified, changed } = inode.times;
    for one in [accessed, modified, changed] {
        out.i64(one);
    }
    out.u32(inode.attributes.len() as u32);
    for (name, value) in &inode.attributes {
        out.bytes(name);
        out.bytes(value);
    }
    match &inode.content {
        InodeContent::File { bytes, extents } => {
            out.u64(*bytes);
            out.u64(extents.len() as u64);
            for (start, extent) in extents.iter() {
                out.u64(start);
                out.u32(extent.bytes);
                out.u64(extent.place.chunk);
                out.u32(extent.place.at);
            }
        }
        InodeContent::Folder { parent, entries } => {
            out.u64(*parent);
            out.u64(entries.len() as u64);
            for (name, number) in entries {
                out.bytes(name);
                out.u64(*number);
            }
        }
        InodeContent::Symlink(target) => out.bytes(target),
        InodeContent::Special => {}
    }
}

fn decode_inode(from: &mut BytesIn<'_>) -> Option<Inode> {
    let mode = from.u32()?;
    let kind = InodeKind::of_mode(mode)?;
    let [uid, gid, device, links] = [from.u32()?, from.u32()?, from.u32()?, from.u32()?];
    let times = Times { accessed: from.i64()?, modified: from.i64()?, changed: from.i64()? };
    let mut attributes = BTreeMap::new();
    for _ in 0..from.u32()? {
        attributes.insert(from.bytes()?.to_vec(), from.bytes()?.to_vec());
    }
    let content = match kind {
        InodeKind::File => {
            let (bytes, mut extents) = (from.u64()?, ExtentMap::default());
            for _ in 0..from.u64()? {
                let (start, count) = (from.u64()?, from.u32()?);
                extents.insert(start, count, DataPlace { chunk: from.u64()?, at: from.u32()? });
            }
            InodeContent::File { bytes, extents }
        }
        InodeKind::Folder => {
            let (parent, mut entries) = (from.u64()?, BTreeMap::new());
            for _ in 0..from.u64()? {
                entries.insert(from.bytes()?.to_vec(), from.u64()?);
            }
            InodeContent::Folder { parent, entries }
        }
        InodeKind::Symlink => InodeContent::Symlink(from.bytes()?.to_vec()),
        _ => InodeContent::Special,
    };
    Some(Inode { mode, uid, gid, device, links, times, attributes, content })
}
