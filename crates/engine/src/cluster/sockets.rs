//! Folders of worker sockets on this machine, and the removal of those that dead programs have
//! left.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getuid, test_kill_process};

/// The prefix of a folder's name; the run's name follows, which contains the process.
pub(super) const PREFIX: &str = "euphrates-";

/// Where folders of sockets are made, in the order tried.
pub(super) fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.into_iter().chain([std::env::temp_dir()]).collect()
}

/// Removes the folders of this user's dead programs. Returns the number removed.
pub fn reclaim() -> usize {
    folders().iter().map(|folder| reclaim_in(folder)).sum()
}

fn reclaim_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let is_own = entry.metadata().is_ok_and(|meta| {
            meta.is_dir() && meta.uid() == getuid().as_raw() && meta.mode() & 0o077 == 0
        });
        let program = entry.file_name().to_str().and_then(program_of);
        // The number may belong to a living process of another container, whose workers answer.
        is_own && program.is_some_and(|pid| !is_alive(pid)) && !is_answered(&entry.path())
    });
    left.filter(|entry| fs::remove_dir_all(entry.path()).is_ok()).count()
}

/// The process in the name of a folder: `euphrates-TIME-PROCESS-NUMBER`, in hexadecimal.
fn program_of(name: &str) -> Option<Pid> {
    let numbers: Option<Vec<u64>> = name
        .strip_prefix(PREFIX)?
        .split('-')
        .map(|number| u64::from_str_radix(number, 16).ok())
        .collect();
    let [_, process, _] = numbers?.try_into().ok()?;
    Pid::from_raw(process.try_into().ok()?)
}

fn is_alive(process: Pid) -> bool {
    test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

fn is_answered(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.any(|socket| UnixStream::connect(socket.path()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_folders_of_dead_programs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let dead = ended.id();
        ended.wait().unwrap();
        let make = |name: String| {
            let path = folder.path().join(name);
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            fs::write(path.join("token"), "x").unwrap();
            path
        };
        let left = make(format!("euphrates-123abc-{dead:x}-0"));
        drop(UnixListener::bind(left.join("w0")).unwrap());
        let answered = make(format!("euphrates-123abd-{dead:x}-0"));
        let _listener = UnixListener::bind(answered.join("w0")).unwrap();
        let own = make(format!("euphrates-123abc-{:x}-1", std::process::id()));
        let others = [make("euphrates-notes".into()), make(format!("other-123abc-{dead:x}-0"))];
        assert_eq!(reclaim_in(folder.path()), 1);
        assert!(!left.exists());
        assert!(answered.exists() && own.exists() && others.iter().all(|other| other.exists()));
    }
}
