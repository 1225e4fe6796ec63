//! A mount from its beginning to its end.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::{Error, Result};
use euphrates_store::striped::{StripedOptions, StripedWriter};
use euphrates_volume::{Volume, VolumeOptions};
use fuser::{Config, MountOption, SessionACL};

use super::deadlines::Deadlines;
use super::filesystem::StripedFilesystem;
use super::home::{Home, Say};
use super::operations::Mounted;
use super::serving::{MountPoint, SOURCE, THREADS};
use super::volume::{MountedVolume, VolumeFilesystem};

const DEVICE: &str = "/dev/fuse";

/// What to mount, and how.
pub struct MountOptions {
    /// The folder over which the files appear. It must be empty.
    pub folder: PathBuf,
    /// The home of the files.
    pub home: PathBuf,
    /// The volume to mount, in place of the striped files of the home.
    pub volume: Option<String>,
    /// Layout and disks of new files, or of a new volume.
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

/// Mounts the striped files of a home, or a volume, and serves them until the folder is unmounted.
/// Unmounts it itself when `ends` returns true; programs that have files open keep them until they
/// close them, or `ends` returns true again. Fails if the folder cannot be mounted, or the home is
/// silent.
pub fn mount(mut options: MountOptions, ends: impl FnMut() -> bool) -> Result<()> {
    check_device()?;
    check_folder(&options.folder)?;
    let home = std::path::absolute(&options.home);
    options.home = home.map_err(|error| Error::os("find", &options.home, &error))?;
    match options.volume.take() {
        Some(name) => mount_volume(options, name, ends),
        None => mount_files(options, ends),
    }
}

fn mount_files(options: MountOptions, ends: impl FnMut() -> bool) -> Result<()> {
    let shown = options.home.display().to_string();
    let config = config_of(&options, &shown);
    let MountOptions { folder, home, striped, read_only, deadline, new_run_id, say, .. } = options;
    // Errors of the layout are told now, not to the first program that writes.
    if !read_only {
        try_layout(&home, &striped, &say)?;
    }
    let deadlines = Deadlines::new(deadline);
    let mounted = Arc::new(Mounted::new(Home::open(home, striped, new_run_id, say)?));
    let filesystem = StripedFilesystem { mounted: mounted.clone(), deadlines: deadlines.clone() };
    let say = |text: &str| mounted.home.tell(text);
    let point = MountPoint { folder, shown, deadline, deadlines };
    point.serve(filesystem, &config, &*mounted, &say, ends)
}

fn mount_volume(options: MountOptions, name: String, ends: impl FnMut() -> bool) -> Result<()> {
    let shown = format!("{}, volume {name}", options.home.display());
    let config = config_of(&options, &shown);
    let MountOptions { folder, home, striped, read_only, deadline, say, .. } = options;
    let StripedOptions { data, parity, disks, .. } = striped;
    let say: Arc<dyn Fn(&str) + Send + Sync> = Arc::from(say);
    let opened = VolumeOptions { home, name, data, parity, disks, read_only, say: say.clone() };
    let mounted = Arc::new(MountedVolume::new(Volume::open(opened)?));
    let deadlines = Deadlines::new(deadline);
    let filesystem = VolumeFilesystem { mounted: mounted.clone(), deadlines: deadlines.clone() };
    let point = MountPoint { folder, shown, deadline, deadlines };
    let served = point.serve(filesystem, &config, &*mounted, &*say, ends);
    let closed = mounted.volume.close();
    served.and(closed)
}

fn config_of(options: &MountOptions, shown: &str) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE}{shown}").replace([',', ' '], "_")),
        MountOption::Subtype("euphrates".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    (config.n_threads, config.clone_fd) = (Some(THREADS), true);
    config
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
