//! Files that one end of a unix socket passes to the other with its bytes (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use euphrates_flow::Error;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Files that wait for the frame that they belong to, at most: a slab has two.
pub(super) const FILES_MAX: usize = 2;

/// Writes bytes, and passes the files with the first of them. They are kept if nothing could be
/// written now, and dropped if the system refuses to pass them: the other end then gets the bytes
/// alone.
pub(super) fn write(
    socket: &UnixStream,
    bytes: &[IoSlice<'_>],
    files: &mut Vec<OwnedFd>,
    flags: SendFlags,
) -> io::Result<usize> {
    let flags = flags | SendFlags::NOSIGNAL;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let has_room = control.push(SendAncillaryMessage::ScmRights(&borrowed));
    debug_assert!(has_room, "more files than a frame has");
    match sendmsg(socket, bytes, &mut control, flags) {
        Err(error) if [rustix::io::Errno::AGAIN, rustix::io::Errno::INTR].contains(&error) => {
            Err(error.into())
        }
        Ok(written) => {
            files.clear();
            Ok(written)
        }
        Err(_) => {
            files.clear();
            Ok(sendmsg(socket, bytes, &mut SendAncillaryBuffer::default(), flags)?)
        }
    }
}

/// Reads bytes, and appends the files that came with them.
pub(super) fn read(
    socket: &UnixStream,
    bytes: &mut [IoSliceMut<'_>],
    files: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            files.extend(passed);
        }
    }
    if files.len() > FILES_MAX {
        return Err(io::Error::other(Error::corrupt("files were passed that no frame is about")));
    }
    Ok(received.bytes)
}
