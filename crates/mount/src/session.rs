//! A mount from its beginning to its end.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_store::striped::{StripedOptions, StripedWriter};
use fuser::{Config, MountOption, SessionACL};

use super::deadlines::Deadlines;
use super::filesystem::StripedFilesystem;
use super::home::{Home, Say};
use super::operations::Mounted;

/// Threads that serve requests: more than cores, because most of them wait for disks.
const THREADS: usize = 8;
/// Between two looks at signals and deadlines.
const INTERVAL: Duration = Duration::from_millis(50);
const DEVICE: &str = "/dev/fuse";
/// What the source of our mounts begins with, in the list of mounts.
const SOURCE: &str = "euphrates:";

/// What to mount, and how.
pub struct MountOptions {
    /// The folder over which the files appear. It must be empty.
    pub folder: PathBuf,
    /// The home of the files.
    pub home: PathBuf,
    /// Layout and disks of new files.
    pub striped: StripedOptions,
    /// Whether programs of other users may use the mount.
    pub allow_other: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// How long a program waits for a home or a disk that does not answer.
    pub deadline: Duration,
    /// Makes an identifier that no other run has.
    pub new_run_id: fn() -> String,
    /// Where messages go.
    pub say: Say,
}

/// Mounts the striped files of a home, and serves them until the folder is unmounted. Unmounts it
/// itself when `ends` returns true; programs that have files open keep them until they close them,
/// or `ends` returns true again. Fails if the folder cannot be mounted, or the home is silent.
pub fn mount(options: MountOptions, mut ends: impl FnMut() -> bool) -> Result<()> {
    let MountOptions { folder, home, striped, allow_other, read_only, deadline, new_run_id, say } =
        options;
    check_device()?;
    check_folder(&folder)?;
    let home = std::path::absolute(&home).map_err(|error| Error::os("find", &home, &error))?;
    // Errors of the layout are told now, not to the first program that writes.
    if !read_only {
        try_layout(&home, &striped, &say)?;
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE}{}", home.display()).replace(',', "_")),
        MountOption::Subtype("euphrates".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        if read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
    (config.n_threads, config.clone_fd) = (Some(THREADS), true);
    let (deadlines, shown) = (Deadlines::new(deadline), home.display().to_string());
    let mounted = Home::open(home, striped, new_run_id, say)?;
    let mounted = Arc::new(Mounted::new(mounted));
    let filesystem = StripedFilesystem { mounted: mounted.clone(), deadlines: deadlines.clone() };
    let session = fuser::spawn_mount(filesystem, &folder, &config)
        .map_err(|error| mount_error(&folder, &error))?;
    let connection = fs::metadata(&folder).map(|found| found.dev()).unwrap_or(0);
    let say = |text: &str| mounted.home.tell(text);
    say(&format!("{shown} is mounted at {}; `umount` or Ctrl-C ends it", folder.display()));
    let mut has_ended = false;
    while !session.guard.is_finished() {
        std::thread::sleep(INTERVAL);
        for what in deadlines.refuse_overdue(Instant::now()) {
            let seconds = deadline.as_secs_f64();
            say(&format!("{what}: no answer from the home or its disks in {seconds} s"));
        }
        let is_unmounted = || has_ended || !is_listed(connection);
        if deadlines.are_all_stuck() && !mounted.is_in_use() && is_unmounted() {
            // Their programs have got an error, and no others will come. The number of the
            // connection may be that of another mount by now.
            return Ok(());
        }
        if deadlines.stuck() >= THREADS {
            abort(&folder, connection);
            let error = Error::resource(format!("the home {shown} does not answer"));
            return Err(error.remedy("see that its folders and disks can be read, and mount again"));
        }
        if ends() {
            if has_ended {
                // Programs get an error when this process closes the device.
                abort(&folder, connection);
                return Ok(());
            }
            has_ended = true;
            end(&folder, mounted.live_count(), &say);
        }
    }
    session.join().map_err(|error| Error::os("serve", &folder, &error))
}

/// Unmounts the folder. With open files it disappears at once, and is served until they are closed.
fn end(folder: &Path, live: usize, say: &dyn Fn(&str)) {
    if unmount(folder, 0) {
        return;
    }
    if unmount(folder, libc::MNT_DETACH) || fusermount(folder) {
        say(&format!(
            "{} is unmounted, but in use: {live} files are open for writing; it ends when programs \
             have closed their files, or at the next signal, which drops what they have written",
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

fn check_device() -> Result<()> {
    match fs::metadata(DEVICE) {
        Ok(found) if found.file_type().is_char_device() => Ok(()),
        _ => Err(Error::resource(format!("{DEVICE} is missing")).remedy(
            "load the kernel module `fuse`; in a container, pass the device (`--device /dev/fuse \
             --cap-add SYS_ADMIN`)",
        )),
    }
}

/// The folder must be empty: what it has would be hidden, perhaps the home itself.
fn check_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            let error = Error::usage(format!("{shown} is the mount of a process that was killed"));
            return Err(error
                .remedy(format!("unmount it: `umount -l {shown}`, or `fusermount3 -u {shown}`")));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::usage(format!("there is no folder {shown}")).remedy("make it first"));
        }
        entries => entries.map_err(|error| Error::os("open the folder", folder, &error))?,
    };
    if is_mounted(folder) {
        let error = Error::usage(format!("{shown} is mounted already"));
        return Err(error.remedy(format!("unmount it: `umount {shown}`")));
    }
    match entries.count() {
        0 => Ok(()),
        _ => Err(Error::usage(format!("{shown} is not empty")).remedy("mount at an empty folder")),
    }
}

/// Whether a folder is the root of a mount of ours.
fn is_mounted(folder: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder) else { return false };
    // A path with a space or a backslash is escaped there, and not found.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ');
        let is_ours = words.next().is_some_and(|source| source.starts_with(SOURCE));
        is_ours && words.next() == folder.to_str()
    })
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

/// Begins a file of the layout, and drops it.
fn try_layout(home: &Path, striped: &StripedOptions, say: &Say) -> Result<()> {
    let writer = StripedWriter::create(home, "layout-of-mount", striped.clone())?;
    if writer.needs_every_disk() {
        say(
            "warning: stripes have as many blocks as there are disks, so writing goes at the pace \
             of the slowest disk; name one disk more, or fewer blocks",
        );
    }
    Ok(())
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
