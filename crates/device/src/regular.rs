//! Opening of regular files, and of nothing else.
//!
//! Opening a named pipe waits for its writer, which may never come, so the file is opened without
//! waiting and its type checked afterwards: between a check before and the opening, another file
//! could take its place.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use euphrates_flow::{Error, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file for reading; any other type is a usage error that names the type. Never
/// waits for another program.
///
/// ```
/// use euphrates_device::regular::open;
/// use euphrates_flow::Kind;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a.csv");
/// std::fs::write(&path, "n\n1\n")?;
/// assert!(open(&path).is_ok());
/// assert_eq!(open(folder.path()).unwrap_err().kind(), Kind::Usage, "a folder");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        // Only a socket, or a device without a driver, exists and cannot be opened.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            return Err(other(path, "a socket or a device"));
        }
        Err(error) => return Err(Error::os("read", path, &error)),
    };
    let meta = file.metadata().map_err(|error| Error::os("read", path, &error))?;
    match what_is(meta.file_type()) {
        None => Ok(file),
        Some(what) => Err(other(path, what)),
    }
}

/// The name of a file type other than a regular file.
fn what_is(kind: std::fs::FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn other(path: &Path, what: &str) -> Error {
    let message = format!("{} is {what}, not a regular file", path.display());
    Error::usage(message).remedy("name a file; `copy_in` reads named pipes and devices in a run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;
    use std::os::unix::net::UnixListener;

    #[test]
    fn special_file_is_named_in_the_error_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        for (path, what) in [
            (at("pipe"), "a named pipe"),
            (at("socket"), "a socket"),
            (folder.path().to_path_buf(), "a folder"),
            ("/dev/null".into(), "a device"),
        ] {
            let error = open(&path).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.advice().is_some());
        }
        assert_eq!(std::io::read_to_string(open(&at("file")).unwrap()).unwrap(), "text");
    }
}
