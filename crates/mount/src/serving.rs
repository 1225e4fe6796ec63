//! Serves the requests of a mount until it is unmounted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use fuser::{Config, Filesystem};

use super::deadlines::Deadlines;

/// Threads that serve requests: more than cores, because most of them wait for disks.
pub const THREADS: usize = 8;
/// Between two looks at signals and deadlines.
const INTERVAL: Duration = Duration::from_millis(50);
/// What the source of our mounts begins with, in the list of mounts.
pub const SOURCE: &str = "euphrates:";

/// What programs have open.
pub trait MountUse {
    /// Whether programs have files open, for reading or writing.
    fn is_in_use(&self) -> bool;

    /// The number of files that are open for writing.
    fn writing_count(&self) -> usize;
}

/// A folder over which files appear.
pub struct MountPoint {
    pub folder: PathBuf,
    /// What is mounted, for messages.
    pub shown: String,
    pub deadline: Duration,
    pub deadlines: Arc<Deadlines>,
}

impl MountPoint {
    /// Mounts a file system, and serves it until it is unmounted, or `ends` has returned true
    /// twice.
    pub fn serve(
        self,
        filesystem: impl Filesystem + 'static,
        config: &Config,
        used: &dyn MountUse,
        say: &dyn Fn(&str),
        mut ends: impl FnMut() -> bool,
    ) -> Result<()> {
        let MountPoint { folder, shown, deadline, deadlines } = self;
        let session = fuser::spawn_mount(filesystem, &folder, config)
            .map_err(|error| mount_error(&folder, &error))?;
        let connection = fs::metadata(&folder).map(|found| found.dev()).unwrap_or(0);
        say(&format!("{shown} is mounted at {}; `umount` or Ctrl-C ends it", folder.display()));
        let mut has_ended = false;
        while !session.guard.is_finished() {
            std::thread::sleep(INTERVAL);
            for what in deadlines.refuse_overdue(Instant::now()) {
                let seconds = deadline.as_secs_f64();
                say(&format!("{what}: no answer from the home or its disks in {seconds} s"));
            }
            let is_unmounted = || has_ended || !is_listed(connection);
            if deadlines.are_all_stuck() && !used.is_in_use() && is_unmounted() {
                // Their programs have got an error, and no others will come. The number of the
                // connection may be that of another mount by now.
                return Ok(());
            }
            if deadlines.stuck() >= THREADS {
                abort(&folder, connection);
                let error = Error::resource(format!("the home {shown} does not answer"));
                return Err(
                    error.remedy("see that its folders and disks can be read, and mount again")
                );
            }
            if ends() {
                if has_ended {
                    // Programs get an error when this process closes the device.
                    abort(&folder, connection);
                    return Ok(());
                }
                has_ended = true;
                end(&folder, used.writing_count(), say);
            }
        }
        match session.join() {
            Err(error) if !is_end_of_connection(&error) => Err(Error::os("serve", &folder, &error)),
            _ => Ok(()),
        }
    }
}

/// Whether a thread has read a request while the kernel closed the connection. The kernel then
/// drops the request, which only says that a file was closed, and answers ECONNABORTED in place of
/// ENODEV.
fn is_end_of_connection(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNABORTED)
}

/// Unmounts the folder. With open files it disappears at once, and is served until they are closed.
fn end(folder: &Path, writing: usize, say: &dyn Fn(&str)) {
    if unmount(folder, 0) {
        return;
    }
    if unmount(folder, libc::MNT_DETACH) || fusermount(folder) {
        say(&format!(
            "{} is unmounted, but in use: {writing} files are open for writing; it ends when \
             programs have closed their files, or at the next signal, which drops what they have \
             written",
            folder.display()
        ));
    }
}

fn unmount(folder: &Path, flags: i32) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a string that ends with a zero, and lives until the call returns.
    unsafe { libc::umount2(path.as_ptr(), flags) == 0 }
}

/// Unmounts as a user that may not.
fn fusermount(folder: &Path) -> bool {
    ["fusermount3", "fusermount"].iter().any(|program| {
        let done = Command::new(program).args(["-u", "-z", "--"]).arg(folder).output();
        done.is_ok_and(|done| done.status.success())
    })
}

/// Ends the connection to the kernel: programs that wait, or come later, get an error.
fn abort(folder: &Path, connection: u64) {
    let number = libc::minor(connection);
    let aborted = fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1").is_ok();
    let _ = aborted || unmount(folder, libc::MNT_FORCE | libc::MNT_DETACH);
    let _ = unmount(folder, libc::MNT_DETACH) || fusermount(folder);
}

/// Whether a device is among the mounts that this process sees.
fn is_listed(device: u64) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if device == 0 || mounts.is_empty() {
        // Unknown: the mount ends by a signal only.
        return true;
    }
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(&number))
}

fn mount_error(folder: &Path, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "mount as root, or install fusermount3 (package fuse3); `--allow-other` needs \
             `user_allow_other` in /etc/fuse.conf"
        }
        _ => "users other than root need fusermount3 (package fuse3)",
    };
    Error::os("mount at", folder, error).remedy(remedy)
}
