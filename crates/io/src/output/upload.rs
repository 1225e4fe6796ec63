//! An object in the making: an upload in parts, completed at the commit.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use arrow::buffer::Buffer;
use bytes::Bytes;
use euphrates_flow::{Error, Result};
use object_store::MultipartId;
use object_store::multipart::PartId;

use super::exists_already;
use crate::append::Target;
use crate::blob::Owned;
use crate::remote::{Identity, Object};

/// Checks that an object may be written; touches nothing.
pub(super) fn check(object: &Object, overwrite: bool) -> Result<()> {
    if !overwrite && object.bytes()?.is_some() {
        return Err(exists_already(&object.name()));
    }
    Ok(())
}

/// An object uploaded in parts. What is smaller than one part is put whole at the commit.
pub(super) struct Upload {
    object: Object,
    overwrite: bool,
    state: Mutex<UploadState>,
}

#[derive(Default)]
struct UploadState {
    /// What came before its turn, by offset.
    early: BTreeMap<u64, Vec<Bytes>>,
    /// Up to where everything has come.
    contiguous: u64,
    /// What has come in turn but does not fill a part yet.
    tail: Vec<Bytes>,
    tail_bytes: usize,
    upload: Option<MultipartId>,
    /// It is to be no object: whoever still writes begins nothing any more.
    is_abandoned: bool,
    /// The parts, by number; `None` while one is on its way.
    parts: Vec<Option<PartId>>,
}

/// The size of an upload's part. Grows, so that the 10,000 parts S3 allows hold 880 GB while
/// small objects do not wait for large parts.
fn part_bytes(index: usize) -> usize {
    (16 << 20) * (1 + index / 1000)
}

impl Upload {
    /// Nothing is uploaded yet.
    pub fn new(object: Object, overwrite: bool) -> Upload {
        Upload { object, overwrite, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, UploadState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        self.lock().parts[index] = Some(part);
        Ok(())
    }
}

impl Target for Upload {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let bytes = |part: &Buffer| Bytes::from_owner(Owned(part.clone()));
        let parts: Vec<Bytes> = parts.iter().filter(|part| !part.is_empty()).map(bytes).collect();
        let mut state = self.lock();
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
                state = self.lock();
            }
        }
    }

    fn settle(&self, bytes: u64) -> Result<()> {
        let state = self.lock();
        if state.contiguous != bytes {
            let message = format!("{} bytes came of {bytes}", state.contiguous);
            return Err(Error::corrupt(message).at(self.object.name()));
        }
        match state.upload.is_some() && state.tail_bytes > 0 {
            true => self.send_tail(state),
            false => Ok(()),
        }
    }

    fn commit(&self) -> Result<()> {
        let mut state = self.lock();
        if state.is_abandoned {
            return Err(Error::interrupted());
        }
        let Some(upload) = state.upload.clone() else {
            return self.put(std::mem::take(&mut state.tail));
        };
        let before = self.object.identity()?;
        if !self.overwrite && before.is_some() {
            return Err(exists_already(&self.object.name()));
        }
        let parts: Option<Vec<PartId>> = std::mem::take(&mut state.parts).into_iter().collect();
        let parts = parts.ok_or_else(|| {
            Error::failed("a part of the upload is missing").at(self.object.name())
        })?;
        self.complete(&upload, parts, (state.contiguous, before))?;
        state.upload = None;
        Ok(())
    }

    fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        if let Some(upload) = state.upload.take() {
            // What cannot be aborted is removed by the bucket's own rule for unfinished uploads.
            let _ = self.object.abort(&upload);
        }
    }
}

// A store that fails may have done it all the same, and one that tries again by itself is then told
// that the object exists, or that the upload is gone: so a failure is looked into.
impl Upload {
    fn put(&self, parts: Vec<Bytes>) -> Result<()> {
        let Err(error) = self.object.put(parts.clone(), !self.overwrite) else { return Ok(()) };
        let bytes = parts.concat();
        if !matches!(self.object.bytes(), Ok(Some(there)) if there == bytes.len() as u64) {
            return Err(error);
        }
        match self.object.read(0, bytes.len()) {
            Ok(read) if read == bytes => Ok(()),
            _ => Err(error),
        }
    }

    /// What an upload holds is too much to be read again: an object that was not there `before`,
    /// and has its length, is taken for it.
    fn complete(
        &self,
        upload: &MultipartId,
        parts: Vec<PartId>,
        (bytes, before): (u64, Option<Identity>),
    ) -> Result<()> {
        let Err(error) = self.object.complete(upload, parts) else { return Ok(()) };
        match self.object.identity() {
            Ok(Some(now)) if now.bytes == bytes && before.as_ref() != Some(&now) => Ok(()),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    fn upload(object: &Object, overwrite: bool) -> Upload {
        Upload::new(object.clone(), overwrite)
    }

    #[test]
    fn an_object_appears_whole_at_the_commit_whatever_its_size_and_the_order_of_its_pieces() {
        let store = crate::remote::Store::in_memory();
        for (name, piece_bytes, pieces) in [("small", 7, 6), ("large", 3 << 20, 15)] {
            let object = store.object(name).unwrap();
            let target = upload(&object, false);
            // 2, 1, 0, 5, 4, 3, …
            let order = (0..pieces).map(|at| at / 3 * 3 + 2 - at % 3);
            for piece in order {
                let bytes = Buffer::from_vec(vec![piece as u8; piece_bytes]);
                target.write_at((piece * piece_bytes) as u64, &[bytes]).unwrap();
            }
            let bytes = (pieces * piece_bytes) as u64;
            assert_eq!(target.settle(bytes + 1).unwrap_err().kind(), Kind::Corrupt);
            target.settle(bytes).unwrap();
            assert_eq!(object.bytes().unwrap(), None, "nothing is visible before the commit");
            target.commit().unwrap();
            target.abandon();
            assert_eq!(object.bytes().unwrap(), Some(bytes));
            let read = object.read(0, bytes as usize).unwrap();
            assert!(read.iter().enumerate().all(|(at, byte)| *byte == (at / piece_bytes) as u8));

            let other = Buffer::from(b"other");
            let late = upload(&object, false);
            late.write_at(0, std::slice::from_ref(&other)).unwrap();
            late.settle(5).unwrap();
            assert_eq!(late.commit().unwrap_err().kind(), Kind::Usage);
            let replacing = upload(&object, true);
            replacing.write_at(0, std::slice::from_ref(&other)).unwrap();
            replacing.settle(5).unwrap();
            replacing.commit().unwrap();
            assert_eq!(object.bytes().unwrap(), Some(5));
        }
    }

    #[test]
    fn an_abandoned_upload_leaves_nothing() {
        let store = crate::remote::Store::in_memory();
        let object = store.object("gone").unwrap();
        let target = upload(&object, false);
        target.write_at(0, &[Buffer::from_vec(vec![0; 20 << 20])]).unwrap();
        target.abandon();
        assert_eq!(store.list("").unwrap().len(), 0);
    }

    #[test]
    fn whoever_still_writes_begins_nothing_after_it_was_abandoned() {
        let store = crate::remote::Store::in_memory();
        let object = store.object("gone").unwrap();
        let target = upload(&object, false);
        target.abandon();
        let late = target.write_at(0, &[Buffer::from_vec(vec![0_u8; 20 << 20])]);
        assert_eq!(late.unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(target.lock().upload, None, "parts that nobody drops cost money");
        assert_eq!(target.commit().unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(object.bytes().unwrap(), None);
    }

    #[test]
    fn an_object_that_has_appeared_is_no_failure_whatever_the_store_says() {
        let store = crate::remote::Store::in_memory();
        let object = store.object("small").unwrap();
        let target = upload(&object, false);
        target.write_at(0, &[Buffer::from(b"bytes")]).unwrap();
        target.settle(5).unwrap();
        // The store has done it, its answer was lost, and it tries again.
        object.put(vec![Bytes::from_static(b"bytes")], true).unwrap();
        target.commit().unwrap();
        let object = store.object("large").unwrap();
        let bytes = 20 << 20;
        let complete_again = |is_new: bool| {
            let target = upload(&object, !is_new);
            target.write_at(0, &[Buffer::from_vec(vec![0_u8; bytes])]).unwrap();
            target.settle(bytes as u64).unwrap();
            let state = target.lock();
            let id = state.upload.clone().unwrap();
            let parts = || state.parts.iter().map(|part| PartId::clone(part.as_ref().unwrap()));
            object.complete(&id, parts().collect()).unwrap();
            let before = if is_new { None } else { object.identity().unwrap() };
            target.complete(&id, parts().collect(), (bytes as u64, before))
        };
        complete_again(true).unwrap();
        // What was there before is not what was to come.
        assert_eq!(complete_again(false).unwrap_err().kind(), Kind::Resource);
    }
}
