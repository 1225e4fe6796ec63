//! A prepared object, which any process with the credentials can publish by completing its upload.

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use euphrates_policy::commit::OutputState;
use object_store::multipart::PartId;
use serde::{Deserialize, Serialize};

use super::target::appeared;
use euphrates_device::durable::Durability;
use euphrates_device::location::{Destination, destination};
use euphrates_device::remote::{Identity, RemoteObject};
use euphrates_device::storage_options::StorageOptions;

/// An upload with all its parts, or the content of an object small enough for one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectOutput {
    /// The URL under which it will be visible.
    pub url: String,
    /// The options of its store; secrets are names of environment variables.
    #[serde(default, skip_serializing_if = "StorageOptions::is_empty")]
    pub(super) storage: StorageOptions,
    /// Whether it may replace an existing object.
    pub replaces: bool,
    pub(super) content: ObjectContent,
    /// The length in bytes.
    pub(super) bytes: u64,
    /// The identity of the object that existed when it was prepared.
    pub(super) before: Option<Identity>,
    /// Set by the process that uploads; another process opens it by its URL.
    #[serde(skip)]
    pub(super) object: Option<RemoteObject>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ObjectContent {
    Upload { id: String, parts: Vec<String> },
    Small(String),
}

impl ObjectOutput {
    fn object(&self) -> Result<RemoteObject> {
        if let Some(object) = &self.object {
            return Ok(object.clone());
        }
        match destination(&self.url, &self.storage)? {
            Destination::Remote(object) => Ok(object),
            Destination::Local(_) | Destination::Striped(..) => {
                Err(Error::corrupt(format!("{} is no object", self.url)))
            }
        }
    }

    /// Its state in the commit. A store does not record which upload made an object: one of this
    /// length that did not exist before counts as it.
    pub fn state(&self) -> OutputState {
        let found = self.object().and_then(|object| object.identity());
        match found {
            Err(_) => OutputState::OutOfReach,
            Ok(found) if found == self.before => OutputState::Ready,
            Ok(None) => OutputState::Ready,
            Ok(Some(found)) if found.bytes == self.bytes => OutputState::Published,
            // Written after the decision.
            Ok(Some(_)) if self.replaces => OutputState::Published,
            Ok(Some(_)) => OutputState::Refused,
        }
    }

    /// Completes the upload. A store may report a failure although it has completed it, and one
    /// that retries by itself then finds the upload gone: so the object is read again after a
    /// failure.
    pub fn publish(&self) -> Result<Durability> {
        let object = self.object()?;
        match &self.content {
            ObjectContent::Small(hex) => put(&object, vec![from_hex(hex)?.into()], !self.replaces)?,
            ObjectContent::Upload { id, parts } => {
                let found = object.identity()?;
                if !self.replaces && found.as_ref().is_some_and(|it| it.bytes != self.bytes) {
                    return Err(appeared(&self.url));
                }
                let ids = parts.iter().map(|id| PartId { content_id: id.clone() });
                if let Err(error) = object.complete(id, ids.collect()) {
                    match object.identity() {
                        Ok(Some(now)) if self.is_it(&now) => {}
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(Durability::Durable)
    }

    /// Whether an object is the upload's. An upload is too large to compare: an object that did not
    /// exist before, and has its length, counts as it.
    fn is_it(&self, found: &Identity) -> bool {
        found.bytes == self.bytes && self.before.as_ref() != Some(found)
    }

    /// Drops the parts. The bucket's own rule for unfinished uploads removes what cannot be
    /// dropped.
    pub fn withdraw(&self) {
        if let (ObjectContent::Upload { id, .. }, Ok(object)) = (&self.content, self.object()) {
            let _ = object.abort(id);
        }
    }
}

/// Puts an object with one request. If the same bytes are there already, succeeds as well.
fn put(object: &RemoteObject, parts: Vec<Bytes>, is_new: bool) -> Result<()> {
    let Err(error) = object.put(parts.clone(), is_new) else { return Ok(()) };
    let bytes = parts.concat();
    if !matches!(object.bytes(), Ok(Some(there)) if there == bytes.len() as u64) {
        return Err(error);
    }
    match object.read(0, bytes.len()) {
        Ok(read) if read == bytes => Ok(()),
        _ => Err(error),
    }
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn from_hex(hex: &str) -> Result<Vec<u8>> {
    let pairs = hex.as_bytes().as_chunks::<2>().0.iter();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = pairs.map(byte).collect::<Option<_>>();
    bytes.ok_or_else(|| Error::corrupt("the content of a small object is not hexadecimal"))
}
