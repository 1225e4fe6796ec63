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
        // `fuser` subtracts the nanoseconds of a time before 1970, which are to be added.
        Err(before) => {
            let seconds = i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX);
            let within = i64::from(before.duration().subsec_nanos());
            seconds.saturating_mul(-1_000_000_000).saturating_add(within)
        }
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

    /// As `fuser` reads what the kernel sends.
    fn sent(nanoseconds: i64) -> TimeOrNow {
        let seconds = nanoseconds.div_euclid(1_000_000_000);
        let within = nanoseconds.rem_euclid(1_000_000_000) as u32;
        let offset = Duration::new(seconds.unsigned_abs(), within);
        let time = if seconds < 0 { UNIX_EPOCH - offset } else { UNIX_EPOCH + offset };
        TimeOrNow::SpecificTime(time)
    }

    #[test]
    fn times_before_1970_are_kept() {
        for time in [-1, 0, 1, -1_500_000_001, -2_000_000_000, i64::MAX / 2] {
            assert_eq!(nanoseconds(sent(time)), time);
            let shown = time_of(time);
            let since = shown.duration_since(UNIX_EPOCH).map(|since| since.as_nanos() as i64);
            let before = |error: std::time::SystemTimeError| -(error.duration().as_nanos() as i64);
            assert_eq!(since.unwrap_or_else(before), time);
        }
    }
}
