//! Attributes as `fuser` has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use euphrates_volume::{AttributeChange, Attributes, InodeKind};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// What the kernel tells programs as the best length of a request.
const BLOCK_BYTES: u32 = 128 << 10;

pub fn kind_of(kind: InodeKind) -> FileType {
    match kind {
        InodeKind::File => FileType::RegularFile,
        InodeKind::Folder => FileType::Directory,
        InodeKind::Symlink => FileType::Symlink,
        InodeKind::Fifo => FileType::NamedPipe,
        InodeKind::Socket => FileType::Socket,
        InodeKind::CharDevice => FileType::CharDevice,
        InodeKind::BlockDevice => FileType::BlockDevice,
    }
}

pub fn to_fuse(found: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(found.number),
        size: found.bytes,
        blocks: found.stored_bytes.div_ceil(512),
        atime: time_of(found.times.accessed),
        mtime: time_of(found.times.modified),
        ctime: time_of(found.times.changed),
        crtime: UNIX_EPOCH,
        kind: kind_of(found.kind),
        perm: found.permissions,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: found.device,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The answer that a name is not there, which the kernel remembers.
pub fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// A change of attributes that the kernel asks for.
pub fn change_of(
    mode: Option<u32>,
    owner: (Option<u32>, Option<u32>),
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
) -> AttributeChange {
    let (uid, gid) = owner;
    let (accessed, modified) = (accessed.map(nanoseconds), modified.map(nanoseconds));
    AttributeChange { mode, uid, gid, accessed, modified }
}

fn nanoseconds(time: TimeOrNow) -> i64 {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

fn time_of(nanoseconds: i64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time =
        if nanoseconds < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_kept() {
        for time in [-1, 0, 1, -1_500_000_000, i64::MAX / 2] {
            assert_eq!(nanoseconds(TimeOrNow::SpecificTime(time_of(time))), time);
        }
    }
}
