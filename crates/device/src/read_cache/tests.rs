//! The cache against a store in memory.

use std::thread;

use euphrates_policy::caching::extents_kept::EXTENT_OVERHEAD_BYTES;

use super::*;
use crate::blob::Blob;
use crate::remote::{RemoteObject, Store};

/// The cache is one for all tests of the process, which therefore take turns.
static TURNS: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

fn content(seed: usize, bytes: usize) -> Bytes {
    (0..bytes).map(|at| ((at + seed) * 31 % 251) as u8).collect::<Vec<u8>>().into()
}

fn object(key: &str, content: &Bytes) -> RemoteObject {
    let object = Store::in_memory().object(key).unwrap();
    object.put(vec![content.clone()], true).unwrap();
    object
}

fn reads(bytes_max: usize) -> Arc<RemoteReads> {
    let reads = RemoteReads::new(Some(CacheGrant::new(bytes_max as u64)));
    reads.start();
    Arc::new(reads)
}

fn open(object: &RemoteObject, reads: &Arc<RemoteReads>) -> Blob {
    Blob::open_remote(object.clone(), object.identity().unwrap().unwrap(), Some(reads))
}

#[test]
fn later_flow_reads_from_memory_whatever_ranges_it_asks_for() {
    let _turn = TURNS.lock();
    let whole = content(1, 3 * MIB);
    let object = object("later", &whole);
    let first = reads(10 * MIB);
    let blob = open(&object, &first);
    for (offset, bytes) in [(MIB, MIB), (10, 100), (0, 2 * MIB), (MIB / 2, 2 * MIB), (7, 3)] {
        let read = blob.read_at(offset as u64, bytes).unwrap();
        assert_eq!(read, whole.slice(offset..offset + bytes), "{offset}+{bytes}");
    }
    let counts = first.take();
    assert_eq!(counts.origin as usize, 5 * MIB / 2, "each byte once");
    drop((blob, first));
    let second = reads(10 * MIB);
    assert_eq!(open(&object, &second).read_at(5, 2 * MIB).unwrap(), whole.slice(5..5 + 2 * MIB));
    assert_eq!(second.take(), ReadBytes { memory: 2 * MIB as u64, ..ReadBytes::default() });
    clear();
}

#[test]
fn flow_without_a_grant_neither_reads_nor_fills() {
    let _turn = TURNS.lock();
    let object = object("plain", &content(2, MIB));
    let kept = reads(10 * MIB);
    open(&object, &kept).read_at(0, 100).unwrap();
    let plain = Arc::new(RemoteReads::new(None));
    open(&object, &plain).read_at(0, 200).unwrap();
    assert_eq!(plain.take(), ReadBytes { origin: 200, ..ReadBytes::default() });
    assert_eq!(bytes(), 100);
    clear();
}

#[test]
fn changed_object_is_read_anew_and_its_old_bytes_are_dropped() {
    let _turn = TURNS.lock();
    let (old, new) = (content(3, MIB), content(4, MIB));
    let object = object("changed", &old);
    assert_eq!(open(&object, &reads(10 * MIB)).read_at(0, MIB).unwrap(), old);
    object.put(vec![new.clone()], false).unwrap();
    let second = reads(10 * MIB);
    let blob = open(&object, &second);
    assert_eq!(bytes(), 0);
    assert_eq!(blob.read_at(0, MIB).unwrap(), new);
    assert_eq!(second.take().origin, MIB as u64);
    clear();
}

#[test]
fn bytes_of_another_version_than_was_looked_up_are_not_kept() {
    let _turn = TURNS.lock();
    let object = object("replaced", &content(5, MIB));
    let reads = reads(10 * MIB);
    let blob = open(&object, &reads);
    object.put(vec![content(6, MIB)], false).unwrap();
    blob.read_at(0, MIB).unwrap();
    assert_eq!(bytes(), 0);
    clear();
}

#[test]
fn bound_holds_and_what_fits_is_found_in_every_epoch() {
    let _turn = TURNS.lock();
    let object = object("bound", &content(7, 10 * MIB));
    let bytes_max = 8 * (MIB + EXTENT_OVERHEAD_BYTES as usize);
    for epoch in 0..4 {
        let reads = reads(bytes_max);
        let blob = open(&object, &reads);
        for block in 0..10 {
            blob.read_at((block * MIB) as u64, MIB).unwrap();
            assert!(bytes() <= bytes_max as u64);
        }
        let expected = if epoch == 0 { 0 } else { 8 * MIB as u64 };
        assert_eq!(reads.take().memory, expected, "epoch {epoch}");
    }
    let _smaller = reads(2 * (MIB + EXTENT_OVERHEAD_BYTES as usize));
    assert_eq!(bytes(), 2 * MIB as u64, "a later flow may set a lower bound");
    clear();
}

#[test]
fn bytes_are_returned_under_pressure_while_a_flow_reads() {
    let _turn = TURNS.lock();
    let whole = content(11, 4 * MIB);
    let object = object("pressure", &whole);
    let reads = reads(10 * MIB);
    let blob = open(&object, &reads);
    (0..4).for_each(|block| drop(blob.read_at((block * MIB) as u64, MIB).unwrap()));
    cache().lock().release(2 * MIB as u64);
    assert_eq!(bytes(), 2 * MIB as u64);
    assert_eq!(blob.read_at(0, 4 * MIB).unwrap(), whole);
    clear();
}

#[test]
fn concurrent_reads_of_a_range_fetch_it_once() {
    let _turn = TURNS.lock();
    let whole = content(8, 4 * MIB);
    let object = object("once", &whole);
    // Too large to be kept, so that only a fetch in progress can serve two.
    for bytes_max in [100 * MIB, MIB] {
        let reads = reads(bytes_max);
        let blob = open(&object, &reads);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(blob.read_at(0, 4 * MIB).unwrap(), whole));
            }
        });
        let counts = reads.take();
        assert_eq!(counts.memory + counts.origin, 32 * MIB as u64);
        assert!(bytes_max < 4 * MIB || counts.origin == 4 * MIB as u64, "{counts:?}");
    }
    clear();
}

#[test]
fn failed_fetch_fails_alone() {
    let _turn = TURNS.lock();
    let object = object("failed", &content(9, MIB));
    let reads = reads(10 * MIB);
    let identity = object.identity().unwrap().unwrap();
    let gone = Store::in_memory().object("gone").unwrap();
    let blob = Blob::open_remote(gone, identity, Some(&reads));
    for _ in 0..2 {
        blob.read_at(0, 10).unwrap_err();
    }
    assert_eq!(open(&object, &reads).read_at(0, 10).unwrap().len(), 10);
    assert_eq!(reads.take().origin, 10);
    clear();
}

#[test]
fn random_ranges_of_concurrent_flows_are_those_of_the_object() {
    let _turn = TURNS.lock();
    let whole = content(10, MIB);
    let object = object("random", &whole);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (object, whole) = (&object, &whole);
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..20 {
                    let reads = reads(MIB / 2);
                    let blob = open(object, &reads);
                    for _ in 0..20 {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let offset = (state >> 33) as usize % MIB;
                        let bytes = (state >> 45) as usize % (MIB - offset).max(1);
                        let read = blob.read_at(offset as u64, bytes).unwrap();
                        assert!(read == whole.slice(offset..offset + bytes));
                    }
                    let counts = reads.take();
                    assert!(counts.memory + counts.origin > 0);
                }
            });
        }
    });
    clear();
    assert_eq!(bytes(), 0);
}
