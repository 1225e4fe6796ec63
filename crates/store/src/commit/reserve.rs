//! Reserves names of outputs, after it has published or rolled back what dead flows have prepared
//! under them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use euphrates_device::durable::is_at;
use euphrates_device::private;
use euphrates_flow::{Error, Result};
use euphrates_policy::commit::{Record, Reserved, reserved};
use rustix::fs::{FlockOperation, flock};

use super::reservation::{ReservationMark, ReservedName, read, reservations};
use super::{decision, resolve};
use crate::catalog::folders::remove_empty_versions;
use crate::dataset::remove_staged;

/// Reserves `name`: syncs the file if a record decides about the output, never its folder. First
/// completes or removes what a dead flow has prepared under it; fails if another flow needs it.
///
/// ```
/// use euphrates_store::commit::reservation::{ReservationMark, beside, release};
/// use euphrates_store::commit::reserve::reserve;
///
/// let folder = tempfile::tempdir()?;
/// let path = beside(&folder.path().join("days.csv"));
/// let mark = ReservationMark { run_id: "run".into(), staged: None, decision: None };
/// let reserved = reserve(path.clone(), "days.csv", &mark)?;
/// assert!(reserve(path.clone(), "days.csv", &mark).is_err(), "its holder lives");
/// release(&path, "run");
/// assert!(!reserved.path().exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reserve(path: PathBuf, name: &str, mark: &ReservationMark) -> Result<ReservedName> {
    let failed = |error: io::Error| Error::os("reserve", &path, &error);
    let folder = path.parent().unwrap_or(Path::new("."));
    loop {
        clear(&path, name)?;
        private::make_folders(folder).map_err(failed)?;
        let lock = match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(created) => created,
            // Another flow was faster, or has removed the folder.
            Err(error) if is_race(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        // Another process may have seen the file before it was locked, and removed it. Where a
        // file system has no locks, no process removes it.
        let has_locks = flock(&lock, FlockOperation::LockExclusive).is_ok();
        if has_locks && !is_at(&lock, &path) {
            continue;
        }
        let reservation = ReservedName { path, lock };
        return match reservation.write(mark) {
            Ok(()) => Ok(reservation),
            Err(error) => {
                reservation.remove();
                Err(Error::os("reserve", &reservation.path, &error))
            }
        };
    }
}

/// Resolves the reservations of dead flows among the hidden paths of a folder: completes what was
/// decided, and removes the rest. Returns the number of reservations that ended.
pub(crate) fn reclaim(hidden: &[PathBuf]) -> usize {
    reservations(hidden).filter(|path| clear(path, "").is_ok() && !path.exists()).count()
}

/// Ends a reservation that no living flow needs. An error gives the reason why it stays.
fn clear(path: &Path, name: &str) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::os("open", path, &error)),
    };
    let in_use = || {
        Error::failed(format!("{name} is being written by another flow"))
            .remedy("run it again when that has ended, or choose another name")
    };
    let owner_lives = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    // A truncated reservation was never synced, so no record has decided about it.
    let mark = read(path);
    let decision = mark.as_ref().and_then(|mark| mark.decision.as_ref());
    match reserved(owner_lives, decision.map_or(Record::NotNeeded, decision::look)) {
        Reserved::Stale => {
            if is_at(&file, path) {
                let staged = mark.and_then(|mark| mark.staged);
                staged.iter().for_each(|staged| drop(remove_staged(staged)));
                let _ = fs::remove_file(path);
                path.parent().into_iter().for_each(remove_empty_versions);
            }
            Ok(())
        }
        Reserved::Complete => {
            drop(file);
            let left = decision.and_then(resolve::resolve_run).and_then(|done| done.left);
            match (left, path.exists()) {
                (_, false) => Ok(()),
                (Some(error), true) => Err(error),
                (None, true) => Err(in_use()),
            }
        }
        Reserved::InUse => Err(in_use()),
        Reserved::InDoubt => {
            let home = decision.map(|decision| decision.folder.display().to_string());
            let home = home.unwrap_or_default();
            Err(Error::failed(format!(
                "{name} is reserved by a flow whose commit record, in {home}, cannot be seen from \
                 here"
            ))
            .remedy(format!("run `euphrates gc` where that folder is, or remove {path:?}")))
        }
    }
}

fn is_race(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}
