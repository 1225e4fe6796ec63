//! Reads of ranges through the device queue: aligned requests, and the bytes that were asked for.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::io_path::IoPath;

use super::file::DiskFile;
use super::lost_link::os_error;
use super::meter::Op;
use super::queue::{Completion, DeviceRequest};
use crate::buffer::pool;

/// The request for a range of a file, and the position of the range in its buffer.
pub(super) fn read_request(
    file: &Arc<DiskFile>,
    offset: u64,
    len: usize,
    path: IoPath,
) -> Result<(DeviceRequest, Range<usize>)> {
    let align = if path == IoPath::Direct { file.align_bytes().unwrap_or(1) } else { 1 };
    let lead = (offset % align as u64) as usize;
    let buffer = pool().take((lead + len).next_multiple_of(align))?;
    let (op, offset) = (Op::Read, offset - lead as u64);
    let request = DeviceRequest { op, file: file.clone(), offset, buffer, path, tag: 0 };
    Ok((request, lead..lead + len))
}

/// The requested range of the bytes that were read. A file that ends before it is corrupt.
pub(super) fn bytes(
    completion: Completion,
    file: &DiskFile,
    range: Range<usize>,
) -> Result<Buffer> {
    let failed = |error: &io::Error| os_error("read", file.path(), error);
    let read = completion.done.map_err(|error| failed(&error))?;
    if read < range.end {
        return Err(failed(&io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(completion.buffer.into_arrow().slice_with_length(range.start, range.len()))
}

/// A read that is in flight.
#[derive(Debug)]
pub struct PendingRead {
    completion: Receiver<Completion>,
    file: Arc<DiskFile>,
    range: Range<usize>,
}

impl PendingRead {
    pub(super) fn new(
        completion: Receiver<Completion>,
        file: Arc<DiskFile>,
        range: Range<usize>,
    ) -> PendingRead {
        PendingRead { completion, file, range }
    }

    /// Waits for the bytes. A file that ends before them is corrupt.
    pub fn wait(self) -> Result<Buffer> {
        let ended = |_| io::Error::other("the device queue ended");
        let completion = self.completion.recv().map_err(ended);
        let failed = |error| Error::os("read", self.file.path(), &error);
        bytes(completion.map_err(failed)?, &self.file, self.range)
    }
}
