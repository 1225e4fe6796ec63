//! An uploaded object, as any process with the credentials can publish it: by completing the
//! upload.

use bytes::Bytes;
use euphrates_flow::{Error, Result};
use euphrates_policy::commit::State;
use object_store::multipart::PartId;
use serde::{Deserialize, Serialize};

use super::appeared;
use crate::commit::Durability;
use euphrates_device::location::{Destination, destination};
use euphrates_device::remote::{Identity, Object};

/// An upload whose parts are all there, or what is small enough to be put at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectOutput {
    /// Where it is to appear.
    pub url: String,
    /// Whether it may replace what is there.
    pub replaces: bool,
    pub(super) content: Content,
    /// Its length.
    pub(super) bytes: u64,
    /// What was there when it was prepared.
    pub(super) before: Option<Identity>,
    /// As its upload knows it; another process opens it by its URL.
    #[serde(skip)]
    pub(super) object: Option<Object>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Upload { id: String, parts: Vec<String> },
    Small(String),
}

impl ObjectOutput {
    fn object(&self) -> Result<Object> {
        if let Some(object) = &self.object {
            return Ok(object.clone());
        }
        match destination(&self.url)? {
            Destination::Remote(object) => Ok(object),
            Destination::Local(path) => Err(Error::corrupt(format!("{path:?} is no object"))),
        }
    }

    /// How far it is. A store does not say whose upload an object was: one of its length that was
    /// not there before is taken for it.
    pub fn state(&self) -> State {
        let found = self.object().and_then(|object| object.identity());
        match found {
            Err(_) => State::OutOfReach,
            Ok(found) if found == self.before => State::Ready,
            Ok(None) => State::Ready,
            Ok(Some(found)) if found.bytes == self.bytes => State::Published,
            // Newer than the decision.
            Ok(Some(_)) if self.replaces => State::Published,
            Ok(Some(_)) => State::Refused,
        }
    }

    /// Completes the upload. A store that fails may have done it all the same, and one that tries
    /// again by itself is then told that the upload is gone: so a failure is looked into.
    pub fn publish(&self) -> Result<Durability> {
        let object = self.object()?;
        match &self.content {
            Content::Small(hex) => put(&object, vec![from_hex(hex)?.into()], !self.replaces)?,
            Content::Upload { id, parts } => {
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

    /// What an upload holds is too much to be read again: an object that was not there before, and
    /// has its length, is taken for it.
    fn is_it(&self, found: &Identity) -> bool {
        found.bytes == self.bytes && self.before.as_ref() != Some(found)
    }

    /// Drops the parts. What cannot be dropped is removed by the bucket's own rule for unfinished
    /// uploads.
    pub fn withdraw(&self) {
        if let (Content::Upload { id, .. }, Ok(object)) = (&self.content, self.object()) {
            let _ = object.abort(id);
        }
    }
}

/// Puts an object at once. What is there already, byte for byte, need not be put.
fn put(object: &Object, parts: Vec<Bytes>, is_new: bool) -> Result<()> {
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
