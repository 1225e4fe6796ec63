//! Message sequences of readers and disks in small cases.

extern crate std;

use alloc::vec;
use alloc::vec::Vec;

use super::disk::{Begin, DiskPolicy};
use super::reader::{NoCopy, ReaderSettings, SegmentReader};
use super::*;

const SETTINGS: ReaderSettings = ReaderSettings {
    claiming: Claiming::Late,
    is_stream: false,
    window_bytes_max: 1000,
    claims_max: 2,
    again_max: 1,
};

fn claims(out: &[(usize, ToDisk)]) -> Vec<(usize, u32)> {
    let claim = |&(copy, message): &(usize, ToDisk)| match message {
        ToDisk::Claim { block, .. } => Some((copy, block)),
        _ => None,
    };
    out.iter().filter_map(claim).collect()
}

fn begun(block: u32, waiting: u32) -> ToReader {
    ToReader::Begun { block, is_speculative: false, waiting }
}

#[test]
fn copies_read_their_stretch_and_then_half_of_the_longest() {
    let mut out = Vec::new();
    let settings = ReaderSettings { claims_max: 1, ..SETTINGS };
    let mut reader = SegmentReader::new(settings, &[10; 8], 2);
    reader.start(0, &mut out);
    for block in 4..=7 {
        reader.on_message(1, begun(block, 0), 1, &mut out);
    }
    assert_eq!(claims(&out), [(0, 0), (1, 4), (1, 5), (1, 6), (1, 7), (1, 2)]);
}

#[test]
fn window_bounds_claims_and_allows_one_block() {
    for (window_bytes_max, claimed) in [(0, 1), (25, 2), (1000, 4)] {
        let mut out = Vec::new();
        let mut reader =
            SegmentReader::new(ReaderSettings { window_bytes_max, ..SETTINGS }, &[10; 9], 2);
        reader.start(0, &mut out);
        assert_eq!((claims(&out).len(), reader.held_bytes()), (claimed, 10 * claimed as u64));
    }
}

#[test]
fn tail_withdraws_waiting_claims_and_rereads_late_blocks() {
    let mut out = Vec::new();
    let mut reader = SegmentReader::new(SETTINGS, &[10; 4], 2);
    reader.start(0, &mut out);
    assert_eq!(claims(&out), [(0, 0), (1, 2), (0, 1), (1, 3)]);
    reader.on_message(1, begun(2, 1), 0, &mut out);
    for (block, begun_ns) in [(0, 0), (1, 10)] {
        reader.on_message(0, begun(block, 1 - block), begun_ns, &mut out);
        assert!(reader.on_done(0, block, begun_ns + 10, &mut out));
    }
    assert!(out.contains(&(1, ToDisk::Withdraw { block: 3 })));
    out.clear();
    reader.on_message(1, ToReader::Returned { block: 3 }, 21, &mut out);
    assert_eq!(claims(&out), [(0, 3)]);
    reader.on_message(0, begun(3, 0), 22, &mut out);
    assert!(reader.on_done(0, 3, 32, &mut out));
    out.clear();
    // A block takes 10, so the one begun at 0 is late.
    reader.on_message(0, ToReader::Idle, 40, &mut out);
    assert_eq!((claims(&out), reader.again()), (vec![(0, 2)], 1));
    out.clear();
    assert!(reader.on_done(0, 2, 50, &mut out), "the first answer wins");
    assert_eq!(out, [(1, ToDisk::Cancel { block: 2 })]);
    assert!(!reader.on_done(1, 2, 60, &mut out), "the second is dropped");
    let taken: Vec<u32> = core::iter::from_fn(|| reader.take(60, &mut out)).collect();
    assert_eq!((taken, reader.is_done()), (vec![0, 1, 2, 3], true));
}

#[test]
fn stream_is_delivered_in_order() {
    let mut out = Vec::new();
    let mut reader =
        SegmentReader::new(ReaderSettings { is_stream: true, ..SETTINGS }, &[10; 3], 2);
    reader.start(0, &mut out);
    for (copy, block) in claims(&out).into_iter().rev() {
        assert!(reader.on_done(copy, block, 1, &mut out));
    }
    let taken: Vec<u32> = core::iter::from_fn(|| reader.take(2, &mut out)).collect();
    assert_eq!(taken, [0, 1, 2]);
}

#[test]
fn block_fails_only_when_all_copies_have_failed() {
    let mut out = Vec::new();
    let mut reader = SegmentReader::new(SETTINGS, &[10], 3);
    reader.start(0, &mut out);
    assert_eq!(reader.on_failed(0, 0, 1, &mut out), Ok(()));
    assert_eq!(reader.on_lost(1, 2, &mut out), Ok(()));
    assert_eq!(claims(&out), [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(reader.on_failed(2, 0, 3, &mut out), Err(NoCopy { block: 0 }));
    let mut alone = SegmentReader::new(SETTINGS, &[10; 5], 1);
    alone.start(0, &mut out);
    assert_eq!(alone.on_lost(0, 1, &mut out), Err(NoCopy { block: 0 }));
}

fn claim(block: u32, open_bytes: u64) -> ToDisk {
    let progress = ReadProgress { left_bytes: open_bytes, open_bytes, seen_bytes: 0 };
    ToDisk::Claim { block, bytes: 10, is_speculative: false, progress }
}

/// A disk with two readers, of which the second lags.
fn disk_of_two(order: ServiceOrder, depth_max: usize) -> DiskPolicy {
    let (mut disk, mut out) = (DiskPolicy::new(order, depth_max), Vec::new());
    for (reader, open_bytes) in [(1, 100), (2, 115)] {
        disk.on_reader(reader, 0);
        (0..4).for_each(|block| disk.on_message(reader, claim(block, open_bytes), &mut out));
    }
    disk
}

fn served(disk: &mut DiskPolicy, count: usize) -> Vec<u32> {
    let mut next = || {
        let Begin { reader, block, .. } = disk.next(0, &mut Vec::new())?;
        disk.on_done(reader, block, 0);
        Some(reader)
    };
    (0..count).map_while(|_| next()).collect()
}

#[test]
fn disk_serves_readers_by_its_order() {
    let graduated =
        |turn_bytes| LaggardIntegral { turn_bytes, integral_gain: 0, integral_blocks_max: 0 };
    for (order, expected) in [
        (ServiceOrder::Arrival(Arrival), [1, 1, 1, 1]),
        (ServiceOrder::Laggard(Laggard), [2, 2, 2, 2]),
        (ServiceOrder::LaggardIntegral(graduated(0)), [2, 2, 1, 2]),
    ] {
        assert_eq!(served(&mut disk_of_two(order.clone(), 1), 4), expected, "{order:?}");
    }
}

#[test]
fn held_up_reader_is_not_served() {
    let mut disk = disk_of_two(ServiceOrder::Laggard(Laggard), 1);
    disk.on_held_up(2, true);
    assert_eq!(served(&mut disk, 2), [1, 1], "the other is served");
    disk.on_held_up(2, false);
    assert_eq!(served(&mut disk, 1), [2]);
    disk.on_held_up(1, true);
    disk.on_held_up(2, true);
    let mut out = Vec::new();
    assert_eq!(disk.next(0, &mut out), None);
    assert!(out.is_empty(), "they cannot be helped by claiming more");
}

#[test]
fn disk_remembers_past_lags() {
    let remembers = LaggardIntegral { turn_bytes: 0, integral_gain: 256, integral_blocks_max: 2 };
    let mut disk = disk_of_two(ServiceOrder::LaggardIntegral(remembers), 1);
    // Without memory it would turn after the second block.
    assert_eq!(served(&mut disk, 5)[..4], [2, 2, 2, 1]);
}

#[test]
fn requests_in_flight_are_bounded_and_one_at_a_slow_disk() {
    let mut disk = disk_of_two(ServiceOrder::Arrival(Arrival), 3);
    let mut out = Vec::new();
    let begun: Vec<Begin> = core::iter::from_fn(|| disk.next(0, &mut out)).collect();
    assert_eq!((begun.len(), disk.in_flight()), (3, 3));
    for (at, begin) in (1u64..).zip(&begun) {
        disk.on_done(begin.reader, begin.block, at * 1_000_000_000);
    }
    assert!(disk.next(3_000_000_000, &mut out).is_some());
    assert!(disk.next(3_000_000_000, &mut out).is_none(), "a second would wait for a second");
}

#[test]
fn claim_can_be_withdrawn_until_begun_and_idle_is_sent_once() {
    let mut disk = DiskPolicy::new(ServiceOrder::Arrival(Arrival), 1);
    let mut out = Vec::new();
    disk.on_message(7, claim(0, 10), &mut out);
    assert!(disk.next(0, &mut out).is_none(), "nobody knows reader 7");
    disk.on_reader(7, 0);
    disk.on_message(7, claim(0, 20), &mut out);
    disk.on_message(7, claim(1, 10), &mut out);
    assert!(disk.next(0, &mut out).is_some());
    for block in [0, 1] {
        disk.on_message(7, ToDisk::Withdraw { block }, &mut out);
    }
    assert_eq!(out, [(7, begun(0, 1)), (7, ToReader::Returned { block: 1 })]);
    disk.on_message(7, ToDisk::Cancel { block: 0 }, &mut out);
    assert!(!disk.on_done(7, 0, 1), "it was cancelled");
    out.clear();
    assert!(disk.next(1, &mut out).is_none() && disk.next(1, &mut out).is_none());
    assert_eq!(out, [(7, ToReader::Idle)]);
}

#[test]
fn ended_reader_is_forgotten_once_nothing_is_in_flight() {
    let mut disk = DiskPolicy::new(ServiceOrder::Arrival(Arrival), 1);
    let mut out = Vec::new();
    for reader in 0..100 {
        disk.on_reader(reader, 0);
        disk.on_message(reader, claim(0, 10), &mut out);
        disk.on_message(reader, claim(1, 10), &mut out);
        assert!(disk.next(0, &mut out).is_some());
        disk.on_gone(reader);
        disk.on_message(reader, claim(2, 10), &mut out);
        assert_eq!(disk.readers(), 1, "what is in flight will be answered");
        assert!(!disk.on_done(reader, 0, 1), "nobody wants it");
        assert_eq!(disk.readers(), 0);
    }
    disk.on_gone(7);
}
