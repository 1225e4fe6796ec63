//! The log of random operations, cut anywhere: the replay is a prefix of them, and nothing else.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::model::{Listing, Model, apply, listing, step};
use crate::log::{
    BlockHeader, ChunkCode, FoundBlock, HEADER_BYTES, LogDamage, LogEnd, find_blocks, in_order,
};
use crate::tree::{BytesIn, BytesOut, DataPlace, VolumeTree};
use crate::volume::apply_records;

const DATA: usize = 2;
const PARITY: usize = 1;

/// A log on disks in memory.
struct LogInMemory {
    code: ChunkCode,
    disks: Vec<Vec<u8>>,
    /// Of each chunk, the disk, and the end of each block.
    ends: Vec<Vec<(usize, usize)>>,
    /// Data blocks of each chunk.
    needed: Vec<usize>,
    payloads: BTreeMap<u64, Vec<u8>>,
    pending: Vec<u8>,
    tree: VolumeTree,
}

impl LogInMemory {
    fn new() -> LogInMemory {
        LogInMemory {
            code: ChunkCode::new(DATA, PARITY).unwrap(),
            disks: vec![vec![]; 4],
            ends: vec![],
            needed: vec![],
            payloads: BTreeMap::new(),
            pending: vec![],
            tree: VolumeTree::new(0o755, 0, 0, 0),
        }
    }

    fn seal(&mut self, durable: u64) {
        let payload = std::mem::take(&mut self.pending);
        let chunk = self.ends.len() as u64;
        let header = BlockHeader { volume: 1, epoch: 1, chunk, durable, ..BlockHeader::default() };
        let mut ends = vec![];
        for (at, block) in self.code.blocks(&payload, header).into_iter().enumerate() {
            let disk = (at + chunk as usize) % self.disks.len();
            let file = &mut self.disks[disk];
            file.resize(file.len().next_multiple_of(512), 0);
            file.extend(block);
            ends.push((disk, file.len()));
        }
        self.ends.push(ends);
        self.needed.push(self.code.shape(payload.len()).0);
        self.payloads.insert(chunk, payload);
    }

    /// Replays what disks have after they were cut to these lengths.
    fn replayed(
        &self,
        disks: &[Vec<u8>],
    ) -> Result<(VolumeTree, BTreeMap<u64, Vec<u8>>), LogDamage> {
        let mut found = vec![];
        for (disk, file) in (0..).zip(disks) {
            for (header, at) in find_blocks(file) {
                let body = &file[at + HEADER_BYTES..][..header.block_bytes as usize];
                found.push(FoundBlock { header, disk, offset: at as u64, body: body.to_vec() });
            }
        }
        let mut tree = VolumeTree::new(0o755, 0, 0, 0);
        let mut payloads = BTreeMap::new();
        for chunk in in_order(&mut LogEnd::from(0), 1, found)? {
            apply_records(&mut tree, chunk.number, &chunk.payload).expect("records are whole");
            payloads.insert(chunk.number, chunk.payload);
        }
        tree.check();
        Ok((tree, payloads))
    }
}

fn listing_of(tree: &VolumeTree, payloads: &BTreeMap<u64, Vec<u8>>) -> Listing {
    listing(tree, &|DataPlace { chunk, at }, bytes| {
        payloads[&chunk][at as usize..at as usize + bytes].to_vec()
    })
}

/// Does steps, and seals a chunk behind some. Returns the log, and what the model has at the
/// beginning of each chunk and at the end.
fn run(steps: &[(super::model::TreeStep, bool)]) -> (LogInMemory, Vec<Listing>) {
    let (mut log, mut model) = (LogInMemory::new(), Model::new());
    let mut states = vec![model.listing()];
    for (number, (step, seals)) in steps.iter().enumerate() {
        let tree = log.tree.clone();
        let chunk = log.ends.len() as u64;
        let done = apply(&tree, number, step, &mut |record| {
            let before = log.pending.len();
            record.encode(&mut log.pending);
            let at = (log.pending.len() - record.data_bytes()) as u32;
            let applied = log.tree.apply(record, DataPlace { chunk, at });
            if applied.is_err() {
                log.pending.truncate(before);
                assert_eq!(log.tree, tree, "an error changes nothing");
            }
            applied
        });
        let expected = model.apply(number, step);
        assert_eq!(done.is_ok(), expected.is_some(), "{step:?}: {done:?}");
        log.tree.check();
        if *seals && !log.pending.is_empty() {
            log.seal(0);
            states.push(model.listing());
        }
    }
    if !log.pending.is_empty() {
        log.seal(0);
        states.push(model.listing());
    }
    (log, states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_log_cut_anywhere_is_a_prefix_of_the_operations(
        steps in prop::collection::vec((step(), any::<bool>()), 1..80),
        cuts in prop::collection::vec(prop::collection::vec(any::<Index>(), 4), 1..12),
    ) {
        let (log, states) = run(&steps);
        prop_assert_eq!(&listing_of(&log.tree, &log.payloads), states.last().unwrap());
        for cut in cuts {
            let lengths: Vec<usize> =
                cut.iter().zip(&log.disks).map(|(cut, file)| cut.index(file.len() + 1)).collect();
            let torn: Vec<Vec<u8>> =
                lengths.iter().zip(&log.disks).map(|(cut, file)| file[..*cut].to_vec()).collect();
            let whole = log.ends.iter().zip(&log.needed).take_while(|(ends, needed)| {
                ends.iter().filter(|(disk, end)| *end <= lengths[*disk]).count() >= **needed
            });
            let (tree, payloads) = log.replayed(&torn).unwrap();
            prop_assert_eq!(&listing_of(&tree, &payloads), &states[whole.count()]);
        }
    }

    #[test]
    fn every_record_boundary_is_a_state_of_the_model(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let steps: Vec<_> = steps.into_iter().map(|step| (step, true)).collect();
        let (log, states) = run(&steps);
        for (count, state) in states.iter().enumerate() {
            let mut disks = vec![vec![]; log.disks.len()];
            for (disk, end) in log.ends[..count].iter().flatten() {
                disks[*disk] = log.disks[*disk][..*end].to_vec();
            }
            let (tree, payloads) = log.replayed(&disks).unwrap();
            prop_assert_eq!(&listing_of(&tree, &payloads), state);
        }
    }

    #[test]
    fn log_without_any_one_disk_is_whole(
        steps in prop::collection::vec((step(), any::<bool>()), 1..60),
    ) {
        let (log, states) = run(&steps);
        for lost in 0..log.disks.len() {
            let mut disks = log.disks.clone();
            disks[lost].clear();
            let (tree, payloads) = log.replayed(&disks).unwrap();
            prop_assert_eq!(&listing_of(&tree, &payloads), states.last().unwrap());
        }
    }

    #[test]
    fn a_snapshot_is_the_tree(steps in prop::collection::vec((step(), any::<bool>()), 1..80)) {
        let (log, _) = run(&steps);
        let mut out = BytesOut::default();
        log.tree.encode(&mut out);
        let decoded = VolumeTree::decode(&mut BytesIn::new(&out.0)).unwrap();
        prop_assert_eq!(&decoded, &log.tree);
        for cut in 0..out.0.len().min(300) {
            prop_assert_eq!(VolumeTree::decode(&mut BytesIn::new(&out.0[..cut])), None);
        }
    }
}

#[test]
fn a_durable_chunk_that_cannot_be_restored_is_damage_and_not_the_end() {
    let mut log = LogInMemory::new();
    for durable in [0, 1, 2] {
        log.pending = vec![];
        log.seal(durable);
    }
    let mut disks = log.disks.clone();
    assert!(log.replayed(&disks).is_ok());
    // Chunk 1 has copies on disks 1 and 2.
    let ends = &log.ends[1];
    for (disk, end) in ends {
        disks[*disk][*end - 1] ^= 1;
    }
    let damage = log.replayed(&disks).unwrap_err();
    assert_eq!((damage.chunk, damage.found), (1, 0));
    // Nothing says that the last chunk was durable, so it is the end.
    let mut disks = log.disks.clone();
    for (disk, end) in &log.ends[2] {
        disks[*disk][*end - 1] ^= 1;
    }
    assert!(log.replayed(&disks).is_ok());
}
