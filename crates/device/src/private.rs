//! Permissions of unpublished files: only their user can read them.
//!
//! Homes, scratch folders and staged files contain rows that belong to their user. Folders that are
//! created here have mode 0700, and files 0600. A published file gets the mode that the umask gives
//! to any new file.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const WRITE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Creates a folder and the missing ones above it. Only their user can enter them, unless the
/// folder in which they are created is shared: others may write there, as in a home of several
/// users, and it has no sticky bit, as `/tmp` has. There the umask decides.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    let above = folder.ancestors().find(|above| !above.as_os_str().is_empty() && above.exists());
    let mode = fs::metadata(above.unwrap_or(Path::new("."))).map_or(0, |about| about.mode());
    let is_shared = mode & WRITE_BY_OTHERS != 0 && mode & STICKY == 0;
    let mode = if is_shared { 0o777 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)
}

/// Creates a folder of mode 0700; fails if it exists.
///
/// ```
/// use euphrates_device::private::make_folder;
/// use std::os::unix::fs::PermissionsExt;
///
/// let parent = tempfile::tempdir()?;
/// let folder = parent.path().join("mine");
/// make_folder(&folder)?;
/// assert_eq!(folder.metadata()?.permissions().mode() & 0o777, 0o700);
/// assert!(make_folder(&folder).is_err(), "it exists");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Options that create a file of mode 0600.
///
/// ```
/// use euphrates_device::private::options;
/// use std::os::unix::fs::PermissionsExt;
///
/// let folder = tempfile::tempdir()?;
/// let file = options().write(true).create_new(true).open(folder.path().join("secret"))?;
/// assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o600);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Gives a file the mode that the umask leaves to any new file.
pub fn publish(file: &File) -> io::Result<()> {
    file.set_permissions(usual())
}

/// The permissions that the umask leaves to a new file.
pub fn usual() -> Permissions {
    // The system call that returns the umask also sets it, for all threads.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok());
    Permissions::from_mode(0o666 & !umask.unwrap_or(0o077))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn new_folder_is_private_unless_its_parent_is_shared() {
        let top = tempfile::tempdir().unwrap();
        let usual = usual().mode();
        for (above, expected) in [(0o755, 0o700), (0o700, 0o700), (0o1777, 0o700), (0o775, 0)] {
            let above_it = top.path().join(format!("{above:o}"));
            fs::create_dir(&above_it).unwrap();
            fs::set_permissions(&above_it, Permissions::from_mode(above)).unwrap();
            let home = above_it.join("home");
            make_folders(&home.join("data/x")).unwrap();
            let expected = if expected == 0 { 0o777 & (usual | 0o111) } else { expected };
            for made in [&home, &home.join("data"), &home.join("data/x")] {
                assert_eq!(mode(made), expected, "{above:o} {made:?}");
            }
        }
    }

    #[test]
    fn file_is_private_until_it_is_published() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = options().write(true).create_new(true).open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        publish(&file).unwrap();
        let other = folder.path().join("y");
        fs::write(&other, "").unwrap();
        assert_eq!(mode(&path), mode(&other));
    }
}
