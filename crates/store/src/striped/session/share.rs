//! The share of one writer of a session: what it has written, for the process that commits.
//!
//! Stripes that the writer has filled are complete, and the commit adopts their blocks. Of the
//! others the share has pieces, which lie one after the other in a log, a striped file without a
//! name. The share is a file in the session's folder, and ends with the CRC-32C of all before.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use super::assembly::{ByteConflict, SenderRecord};
use super::frames::Incarnation;
use crate::catalog::SegmentEntry;
use crate::striped::map::StripeMap;
use crate::striped::version::ShareStripes;

const MAGIC: &[u8; 8] = b"EUSHARE2";

/// The place of a piece that is not in the log, but in a filled stripe.
pub(super) const IN_STRIPE: u64 = u64::MAX;

/// A range of the file that lies in a writer's log; it is in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharePiece {
    pub offset: u64,
    pub bytes: u64,
    /// The offset in the log, or `IN_STRIPE`.
    pub at: u64,
    /// The number of its sender, among the sources of the share.
    pub sender: u32,
}

/// What one writer has written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WriterShare {
    /// The end of the last byte.
    pub bytes: u64,
    pub stripes: ShareStripes,
    pub log: Option<ShareStripes>,
    /// What lies in the log, in the order in which it was written there, and the ranges of filled
    /// stripes that have several senders.
    pub pieces: Vec<SharePiece>,
    pub parts: ShareParts,
}

/// The writers that have exchanged pieces with this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShareParts {
    /// The senders of the pieces, of which the first is the writer itself.
    pub sources: Vec<SenderRecord>,
    pub conflicts: Vec<ByteConflict>,
    /// The owners that have taken frames of this writer, and their number.
    pub handed: Vec<(Incarnation, u64)>,
}

impl ShareParts {
    /// Of a writer that has exchanged nothing.
    pub fn of_one(itself: Incarnation) -> ShareParts {
        let sources = vec![SenderRecord { incarnation: itself, frames: 0 }];
        ShareParts { sources, conflicts: vec![], handed: vec![] }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct ShareHeader {
    bytes: u64,
    segments: Vec<SegmentEntry>,
    map_bytes: usize,
    log: Option<(Vec<SegmentEntry>, usize)>,
    pieces: usize,
    parts: ShareParts,
}

/// The path of a writer's share in a session's folder.
pub(super) fn share_path(folder: &Path, writer: usize) -> PathBuf {
    folder.join(format!("{writer}.share"))
}

impl WriterShare {
    /// Puts the share into the session's folder. Fails if the writer has one there.
    pub fn put(&self, folder: &Path, writer: usize) -> Result<()> {
        let path = share_path(folder, writer);
        let staged = folder.join(format!("{writer}.share.{}", std::process::id()));
        let failed = |error: std::io::Error| Error::os("write", &path, &error);
        fs::write(&staged, self.encode()?).map_err(failed)?;
        let put = fs::hard_link(&staged, &path);
        let _ = fs::remove_file(&staged);
        put.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => ended_error(writer),
            _ => failed(error),
        })
    }

    /// Reads the share of a writer; `None` if it has not ended.
    pub fn read(folder: &Path, writer: usize, stripe_bytes: u64) -> Result<Option<WriterShare>> {
        let path = share_path(folder, writer);
        match fs::read(&path) {
            Ok(text) => WriterShare::decode(&text, stripe_bytes)
                .map(Some)
                .map_err(|error| error.at(path.display().to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::os("read", &path, &error)),
        }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let map = self.stripes.map.encode();
        let log = self.log.as_ref().map(|log| (log.segments.clone(), log.map.encode()));
        let header = ShareHeader {
            bytes: self.bytes,
            segments: self.stripes.segments.clone(),
            map_bytes: map.len(),
            log: log.as_ref().map(|(segments, map)| (segments.clone(), map.len())),
            pieces: self.pieces.len(),
            parts: self.parts.clone(),
        };
        let header = serde_json::to_vec(&header).map_err(Error::failed)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        bytes.extend(map);
        bytes.extend(log.map(|(_, map)| map).unwrap_or_default());
        for SharePiece { offset, bytes: length, at, sender } in &self.pieces {
            let fields = [*offset, *length, *at, u64::from(*sender)];
            fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        }
        bytes.extend(crc_fast::crc32_iscsi(&bytes).to_le_bytes());
        Ok(bytes)
    }

    fn decode(text: &[u8], stripe_bytes: u64) -> Result<WriterShare> {
        let damaged = || Error::corrupt("the share of a writer is damaged");
        let (body, crc) = text.split_at_checked(text.len().wrapping_sub(4)).ok_or_else(damaged)?;
        if crc_fast::crc32_iscsi(body).to_le_bytes() != crc {
            return Err(damaged());
        }
        let body = body.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (length, body) = body.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = u64::from_le_bytes(*length) as usize;
        let (header, body) = body.split_at_checked(length).ok_or_else(damaged)?;
        let header: ShareHeader = serde_json::from_slice(header).map_err(|_| damaged())?;
        let (map, body) = body.split_at_checked(header.map_bytes).ok_or_else(damaged)?;
        let map = StripeMap::decode(map, header.segments.len(), stripe_bytes)?;
        let stripes = ShareStripes { map, segments: header.segments };
        let (log, body) = match header.log {
            None => (None, body),
            Some((segments, map_bytes)) => {
                let (map, body) = body.split_at_checked(map_bytes).ok_or_else(damaged)?;
                let map = StripeMap::decode(map, segments.len(), stripe_bytes)?;
                (Some(ShareStripes { map, segments }), body)
            }
        };
        let (fields, rest) = body.as_chunks::<8>();
        let (fields, more) = fields.as_chunks::<4>();
        if !rest.is_empty() || !more.is_empty() || fields.len() != header.pieces {
            return Err(damaged());
        }
        let parts = header.parts;
        let piece = |fields: &[[u8; 8]; 4]| {
            let [offset, bytes, at, sender] = fields.map(u64::from_le_bytes);
            let is_known = sender < parts.sources.len() as u64;
            is_known.then_some(SharePiece { offset, bytes, at, sender: sender as u32 })
        };
        let pieces: Option<Vec<SharePiece>> = fields.iter().map(piece).collect();
        let count = parts.sources.len() as u32;
        let is_known = |it: &ByteConflict| it.earlier < count && it.later < count;
        if count == 0 || !parts.conflicts.iter().all(is_known) {
            return Err(damaged());
        }
        let pieces = pieces.ok_or_else(damaged)?;
        Ok(WriterShare { bytes: header.bytes, stripes, log, pieces, parts })
    }
}

/// The error for a second share of a writer.
pub(super) fn ended_error(writer: usize) -> Error {
    Error::usage(format!("writer {writer} has ended already"))
        .remedy("give each writer a number of its own")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::striped::map::{BlockPlace, StripeEntry};

    fn share() -> WriterShare {
        let segment = SegmentEntry {
            disk: "d0".into(),
            path: "f/@1/0.blocks".into(),
            rows: 0,
            bytes: 10,
            blocks: 1,
            toc_crc: 0,
            mirrors: vec![],
        };
        let entry = StripeEntry { block_bytes: 10, blocks: vec![BlockPlace::default()] };
        let map = StripeMap { width: 1, bytes: 10, stripes: vec![entry] };
        let stripes = ShareStripes { map, segments: vec![segment] };
        let piece = SharePiece { offset: 12, bytes: 3, at: IN_STRIPE, sender: 1 };
        let incarnation = Incarnation { writer: 3, random: u64::MAX };
        let parts = ShareParts {
            sources: vec![
                SenderRecord { incarnation, frames: 0 },
                SenderRecord { incarnation, frames: 7 },
            ],
            conflicts: vec![ByteConflict { earlier: 0, later: 1, byte: 12 }],
            handed: vec![(incarnation, 2)],
        };
        WriterShare {
            bytes: 15,
            stripes: stripes.clone(),
            log: Some(stripes),
            pieces: vec![piece; 2],
            parts,
        }
    }

    #[test]
    fn share_is_read_as_it_was_put_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WriterShare::read(folder.path(), 3, 10).unwrap().is_none());
        share().put(folder.path(), 3).unwrap();
        assert_eq!(WriterShare::read(folder.path(), 3, 10).unwrap().unwrap(), share());
        let error = share().put(folder.path(), 3).unwrap_err();
        assert!(error.message().contains("writer 3"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_share_is_detected() {
        let good = share().encode().unwrap();
        for at in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(WriterShare::decode(&bad, 10).is_err(), "byte {at}");
            assert!(WriterShare::decode(&good[..at], 10).is_err(), "cut at {at}");
        }
    }
}
