//! A staged object: an upload in parts, completed when it is published.

use std::collections::BTreeMap;

use arrow::buffer::Buffer;
use bytes::Bytes;
use euphrates_flow::sync::{Mutex, MutexGuard};
use euphrates_flow::{Error, Result};
use object_store::MultipartId;
use object_store::multipart::PartId;

use super::object::{ObjectContent, ObjectOutput, to_hex};
use super::target::{appeared, exists_already};
use crate::append::StagedOutput;
use crate::commit::PreparedOutput;
use euphrates_device::blob::Owned;
use euphrates_device::remote::RemoteObject;

/// A smaller object is put with one request, and needs no upload.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Checks that an object may be written; changes nothing.
pub(super) fn check(object: &RemoteObject, overwrite: bool) -> Result<()> {
    if !overwrite && object.bytes()?.is_some() {
        return Err(exists_already(&object.name()));
    }
    Ok(())
}

/// An object that is being uploaded in parts.
pub(super) struct Upload {
    object: RemoteObject,
    overwrite: bool,
    state: Mutex<UploadState>,
}

#[derive(Default)]
struct UploadState {
    /// Bytes that arrived out of order, by offset: bytes before them are still missing.
    early: BTreeMap<u64, Vec<Bytes>>,
    /// The end of the bytes that have arrived without a gap.
    contiguous: u64,
    /// Contiguous bytes that do not fill a part yet.
    tail: Vec<Bytes>,
    tail_bytes: usize,
    upload: Option<MultipartId>,
    /// It has been abandoned: late writers start no upload.
    is_abandoned: bool,
    /// The parts, by number; `None` while one is in flight.
    parts: Vec<Option<PartId>>,
}

/// The size of an upload's part in bytes. It grows, so that the 10,000 parts that S3 allows hold
/// 859 GiB while small objects do not wait for large parts.
fn part_bytes(index: usize) -> usize {
    (16 << 20) * (1 + index / 1000)
}

impl Upload {
    /// An upload without parts; sends no request yet.
    pub fn new(object: RemoteObject, overwrite: bool) -> Upload {
        Upload { object, overwrite, state: Mutex::default() }
    }

    /// Uploads the tail as the next part; the lock is not held meanwhile.
    fn send_tail(&self, mut state: MutexGuard<'_, UploadState>) -> Result<()> {
        if state.is_abandoned {
            return Err(Error::interrupted());
        }
        let upload = match &state.upload {
            Some(upload) => upload.clone(),
            None => state.upload.insert(self.object.begin()?).clone(),
        };
        let index = state.parts.len();
        state.parts.push(None);
        let tail = std::mem::take(&mut state.tail);
        state.tail_bytes = 0;
        drop(state);
        let part = self.object.put_part(&upload, index, tail)?;
        self.state.lock().parts[index] = Some(part);
        Ok(())
    }
}

impl StagedOutput for Upload {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let bytes = |part: &Buffer| Bytes::from_owner(Owned(part.clone()));
        let parts: Vec<Bytes> = parts.iter().filter(|part| !part.is_empty()).map(bytes).collect();
        let mut state = self.state.lock();
        if !parts.is_empty() {
            state.early.insert(offset, parts);
        }
        loop {
            let at = state.contiguous;
            let Some(parts) = state.early.remove(&at) else { return Ok(()) };
            let bytes: usize = parts.iter().map(Bytes::len).sum();
            state.contiguous += bytes as u64;
            state.tail_bytes += bytes;
            state.tail.extend(parts);
            if state.tail_bytes >= part_bytes(state.parts.len()) {
                self.send_tail(state)?;
                state = self.state.lock();
            }
        }
    }

    fn sync_contents(&self, bytes: u64) -> Result<()> {
        let state = self.state.lock();
        if state.contiguous != bytes {
            let message = format!("{} of {bytes} bytes arrived", state.contiguous);
            return Err(Error::corrupt(message).at(self.object.name()));
        }
        match state.upload.is_some() && state.tail_bytes > 0 {
            true => self.send_tail(state),
            false => Ok(()),
        }
    }

    fn reserve(&self) -> Result<Option<PreparedOutput>> {
        let mut state = self.state.lock();
        if state.is_abandoned {
            return Err(Error::interrupted());
        }
        if state.upload.is_none() && state.contiguous > SMALL_BYTES_MAX as u64 {
            self.send_tail(state)?;
            state = self.state.lock();
        }
        let before = self.object.identity()?;
        if !self.overwrite && before.is_some() {
            return Err(appeared(&self.object.name()));
        }
        let content = match &state.upload {
            None => ObjectContent::Small(to_hex(&state.tail.concat())),
            Some(id) => {
                let part = |part: &Option<PartId>| Some(part.as_ref()?.content_id.clone());
                let parts = state.parts.iter().map(part).collect::<Option<_>>();
                let parts = parts.ok_or_else(|| {
                    Error::failed("a part of the upload is missing").at(self.object.name())
                })?;
                ObjectContent::Upload { id: id.clone(), parts }
            }
        };
        Ok(Some(PreparedOutput::Object(ObjectOutput {
            url: self.object.name(),
            storage: self.object.options().clone(),
            replaces: self.overwrite,
            content,
            bytes: state.contiguous,
            before,
            object: Some(self.object.clone()),
        })))
    }

    fn leave(&self) {
        self.state.lock().upload = None;
    }

    fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_abandoned = true;
        if let Some(upload) = state.upload.take() {
            // The bucket's own rule for unfinished uploads removes what cannot be aborted.
            let _ = self.object.abort(&upload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;
    use euphrates_policy::commit::OutputState;

    fn upload(object: &RemoteObject, overwrite: bool) -> Upload {
        Upload::new(object.clone(), overwrite)
    }

    fn publish(target: &Upload) -> Result<()> {
        let output = target.reserve()?.expect("an object is an output of its own");
        output.publish()?;
        target.leave();
        Ok(())
    }

    #[test]
    fn object_of_any_size_appears_atomically_for_any_order_of_pieces() {
        let store = euphrates_device::remote::Store::in_memory();
        for (name, piece_bytes, pieces) in
            [("small", 7, 6), ("part", 50_000, 6), ("large", 3 << 20, 15)]
        {
            let object = store.object(name).unwrap();
            let target = upload(&object, false);
            // 2, 1, 0, 5, 4, 3, …
            let order = (0..pieces).map(|at| at / 3 * 3 + 2 - at % 3);
            for piece in order {
                let bytes = Buffer::from_vec(vec![piece as u8; piece_bytes]);
                target.write_at((piece * piece_bytes) as u64, &[bytes]).unwrap();
            }
            let bytes = (pieces * piece_bytes) as u64;
            assert_eq!(target.sync_contents(bytes + 1).unwrap_err().kind(), Kind::Corrupt);
            target.sync_contents(bytes).unwrap();
            assert_eq!(object.bytes().unwrap(), None, "nothing is visible before the commit");
            publish(&target).unwrap();
            target.abandon();
            assert_eq!(object.bytes().unwrap(), Some(bytes));
            let read = object.read(0, bytes as usize).unwrap();
            assert!(read.iter().enumerate().all(|(at, byte)| *byte == (at / piece_bytes) as u8));

            let other = Buffer::from(b"other");
            let late = upload(&object, false);
            late.write_at(0, std::slice::from_ref(&other)).unwrap();
            late.sync_contents(5).unwrap();
            assert_eq!(publish(&late).unwrap_err().kind(), Kind::Failed);
            let replacing = upload(&object, true);
            replacing.write_at(0, std::slice::from_ref(&other)).unwrap();
            replacing.sync_contents(5).unwrap();
            publish(&replacing).unwrap();
            assert_eq!(object.bytes().unwrap(), Some(5));
        }
    }

    #[test]
    fn abandoned_upload_leaves_nothing() {
        let store = euphrates_device::remote::Store::in_memory();
        let object = store.object("gone").unwrap();
        let target = upload(&object, false);
        target.write_at(0, &[Buffer::from_vec(vec![0; 20 << 20])]).unwrap();
        target.abandon();
        assert_eq!(store.list("").unwrap().len(), 0);
    }

    #[test]
    fn late_writer_starts_no_upload_after_abandonment() {
        let store = euphrates_device::remote::Store::in_memory();
        let object = store.object("gone").unwrap();
        let target = upload(&object, false);
        target.abandon();
        let late = target.write_at(0, &[Buffer::from_vec(vec![0_u8; 20 << 20])]);
        assert_eq!(late.unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(target.state.lock().upload, None, "parts that nobody drops cost money");
        assert_eq!(target.reserve().unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(object.bytes().unwrap(), None);
    }

    #[test]
    fn published_object_counts_as_success_despite_a_store_error() {
        let store = euphrates_device::remote::Store::in_memory();
        for (name, bytes) in [("small", 5), ("large", 20 << 20)] {
            let object = store.object(name).unwrap();
            let prepared = |byte: u8, overwrite: bool| {
                let target = upload(&object, overwrite);
                target.write_at(0, &[Buffer::from_vec(vec![byte; bytes])]).unwrap();
                target.sync_contents(bytes as u64).unwrap();
                target.reserve().unwrap().unwrap()
            };
            // The store has completed it, the response was lost, and the request is repeated.
            let output = prepared(1, false);
            assert_eq!(output.state(), Some(OutputState::Ready));
            output.publish().unwrap();
            assert_eq!(output.state(), Some(OutputState::Published));
            output.publish().unwrap();
            // The object that existed before is not the expected one.
            let other = prepared(2, true);
            other.withdraw();
            assert_eq!(other.publish().is_err(), bytes > SMALL_BYTES_MAX);
        }
    }

    #[test]
    fn another_process_completes_a_prepared_upload() {
        let store = euphrates_device::remote::Store::in_memory();
        let object = store.object("large").unwrap();
        let target = upload(&object, false);
        target.write_at(0, &[Buffer::from_vec(vec![7_u8; 20 << 20])]).unwrap();
        target.sync_contents(20 << 20).unwrap();
        let Some(PreparedOutput::Object(output)) = target.reserve().unwrap() else {
            panic!("an object")
        };
        let text = serde_json::to_string(&output).unwrap();
        target.leave();
        target.abandon();
        let read: ObjectOutput = serde_json::from_str(&text).unwrap();
        ObjectOutput { object: Some(object.clone()), ..read }.publish().unwrap();
        assert_eq!(object.bytes().unwrap(), Some(20 << 20));
    }
}
