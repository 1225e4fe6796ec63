//! Checkpoints as bytes, and records of the log applied to their tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};

use super::core::{VolumeState, now};
use crate::log::{ChunkPlace, ReplayedChunk};
use crate::tree::{BytesIn, BytesOut, DataPlace, LogRecord, VolumeTree};

/// A tree, and where its chunks are.
#[derive(Clone)]
pub struct Loaded {
    pub tree: VolumeTree,
    pub places: BTreeMap<u64, ChunkPlace>,
    pub segments: BTreeMap<u64, u64>,
}

impl Loaded {
    pub fn empty() -> Loaded {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let tree = VolumeTree::new(0o755, uid.as_raw(), gid.as_raw(), now());
        Loaded { tree, places: BTreeMap::new(), segments: BTreeMap::new() }
    }

    pub fn apply(&mut self, segment: u64, chunk: ReplayedChunk) -> Result<()> {
        let number = chunk.number;
        apply_records(&mut self.tree, number, &chunk.payload).ok_or_else(|| {
            let error = format!("chunk {number} of the log has a record that cannot be applied");
            Error::corrupt(error).at(format!("segment {segment}"))
        })?;
        let payload_bytes = chunk.payload.len() as u32;
        *self.segments.entry(segment).or_default() += u64::from(payload_bytes);
        let ReplayedChunk { data, blocks, .. } = chunk;
        self.places.insert(number, ChunkPlace { segment, payload_bytes, data, blocks });
        Ok(())
    }

    pub fn into_state(self, chunk: u64) -> VolumeState {
        VolumeState {
            tree: self.tree,
            places: self.places,
            segments: self.segments,
            pending: vec![],
            chunk,
            log_bytes: 0,
            unmeasured_bytes: 0,
            checkpointed: Instant::now(),
            checkpoint_took: Duration::ZERO,
            lookups: HashMap::new(),
        }
    }
}

/// Applies the records of a chunk; `None` if one is malformed or contradicts the tree.
pub fn apply_records(tree: &mut VolumeTree, chunk: u64, payload: &[u8]) -> Option<()> {
    let mut from = BytesIn::new(payload);
    while !from.is_empty() {
        let (record, end) = LogRecord::decode(&mut from)?;
        let at = (end - record.data_bytes()) as u32;
        tree.apply(&record, DataPlace { chunk, at }).ok()?;
    }
    Some(())
}

/// A checkpoint as bytes.
pub fn encode(tree: &VolumeTree, state: &VolumeState, live: &BTreeSet<u64>) -> Vec<u8> {
    let mut out = BytesOut::default();
    tree.encode(&mut out);
    let places = state.places.iter().filter(|(chunk, _)| tree.live().contains_key(chunk));
    out.u64(places.clone().count() as u64);
    for (chunk, place) in places {
        out.u64(*chunk);
        place.encode(&mut out);
    }
    out.u64(live.len() as u64);
    for segment in live {
        out.u64(*segment);
        out.u64(state.segments.get(segment).copied().unwrap_or(0));
    }
    out.0
}

/// Reads a checkpoint; `None` if it is malformed.
pub fn decode(bytes: &[u8]) -> Option<Loaded> {
    let mut from = BytesIn::new(bytes);
    let tree = VolumeTree::decode(&mut from)?;
    let (mut places, mut segments) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..from.u64()? {
        places.insert(from.u64()?, ChunkPlace::decode(&mut from)?);
    }
    for _ in 0..from.u64()? {
        segments.insert(from.u64()?, from.u64()?);
    }
    let is_whole = tree.live().keys().all(|chunk| places.contains_key(chunk));
    (from.is_empty() && is_whole).then_some(Loaded { tree, places, segments })
}
