//! Both ends of shared memory without sockets: places, offers and return words of any content.

use std::os::fd::OwnedFd;

use arrow::buffer::Buffer;
use euphrates_policy::extents::{EXTENT_BYTES_MIN, SHARED_SLAB_BYTES_MAX};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::announcement::{PLACED_BYTES, PlacedBody, write_offer};
use super::memory_file::{ReceiverAccess, create, return_words_bytes};
use super::*;
use crate::frame::{Caps, FrameKind, Header};
use crate::link::{Frame, Outgoing};

fn batch(byte: u8, bytes: usize) -> Outgoing {
    let half = Buffer::from(vec![byte; bytes / 2]);
    let rest = Buffer::from(vec![byte; bytes - bytes / 2]);
    Outgoing::new(Header::of(FrameKind::Batch), b"letter".to_vec(), vec![half, rest])
}

fn received(sent: &Outgoing) -> Frame {
    let body: Vec<u8> = sent.body.iter().flat_map(|part| part.iter().copied()).collect();
    let header = Header { meta_bytes: sent.meta.len() as u32, ..sent.header };
    Frame { header, meta: sent.meta.clone(), body: Buffer::from(body) }
}

/// Both ends, after a first slab has been accepted.
fn pair() -> (SlabSender, SlabReceiver) {
    let (sender, mut receiver) = (SlabSender::new(Caps::KNOWN), SlabReceiver::new(Caps::KNOWN));
    let (offer, frame) = sender.place(batch(0, 1 << 20));
    assert_eq!(frame.header.kind, FrameKind::Batch, "no slab yet");
    let mut offer = offer.expect("a first slab");
    let files = offer.take_files().expect("of two files");
    receiver.accept(&received(&offer), files.into()).unwrap();
    (sender, receiver)
}

fn slab_files(bytes: u64) -> Vec<OwnedFd> {
    let data = create(bytes as usize, ReceiverAccess::Read).unwrap().0;
    vec![data, create(return_words_bytes(bytes), ReceiverAccess::Write).unwrap().0]
}

fn offer(bytes: u64) -> Frame {
    let meta = write_offer(bytes);
    Frame { header: Header::of(FrameKind::Slab), meta, body: Buffer::from(&[][..]) }
}

#[test]
fn bodies_are_read_where_they_were_copied() {
    let (sender, receiver) = pair();
    let mut held = vec![];
    for byte in 0..20 {
        let bytes = PLACED_BYTES_MIN + 1000 * usize::from(byte);
        let (offer, placed) = sender.place(batch(byte, bytes));
        assert!(offer.is_none() && placed.body.is_empty());
        assert_eq!(placed.bytes(), batch(byte, bytes).bytes() + PLACED_BYTES);
        let frame = receiver.resolve(received(&placed)).unwrap();
        assert_eq!((frame.header.kind, &frame.meta[..]), (FrameKind::Batch, &b"letter"[..]));
        assert_eq!(frame.header.body_bytes, bytes as u64);
        assert_eq!(frame.body.as_ptr() as usize % 64, 0, "aligned as Arrow wants it");
        held.push((byte, bytes, frame.body));
    }
    for (byte, bytes, body) in held {
        assert!(body.len() == bytes && body.iter().all(|it| *it == byte));
    }
}

#[test]
fn extent_is_used_again_when_the_last_reference_is_dropped() {
    let (sender, receiver) = pair();
    let send = |byte| receiver.resolve(received(&sender.place(batch(byte, 1 << 20)).1)).unwrap();
    let first = send(1).body;
    let (address, part) = (first.as_ptr(), first.slice(100));
    drop(first);
    assert_ne!(send(2).body.as_ptr(), address);
    drop(part);
    assert_eq!(send(3).body.as_ptr(), address);
}

#[test]
fn small_bodies_and_other_kinds_are_not_placed() {
    let (sender, _receiver) = pair();
    let control = Outgoing { header: Header::of(FrameKind::Control), ..batch(1, 1 << 20) };
    let large = batch(1, SHARED_SLAB_BYTES_MAX as usize + 1);
    for frame in [batch(1, PLACED_BYTES_MIN - 1), control, large] {
        let kind = frame.header.kind;
        let (_, frame) = sender.place(frame);
        assert_eq!((frame.header.kind, frame.body.len()), (kind, 2));
    }
    assert_eq!(sender.placed_bytes(), 0);
    let caps = Caps { meta_bytes_max: 1000, body_bytes_max: 50_000 };
    let (offer, frame) = SlabSender::new(caps).place(batch(1, 50_001));
    assert!(offer.is_none() && frame.header.kind == FrameKind::Batch, "the caps refuse it later");
}

#[test]
fn receiver_cannot_map_a_slab_to_write() {
    let (file, _mapping) = create(4096, ReceiverAccess::Read).unwrap();
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address the system chooses touches nothing else.
    let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &file, 0) };
    assert_eq!(mapped.unwrap_err(), rustix::io::Errno::PERM);
    assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 8192).is_err());
}

#[test]
fn malformed_offers_are_refused() {
    let refused = |offered: &Frame, files| {
        let mut receiver = SlabReceiver::new(Caps::KNOWN);
        receiver.accept(offered, files).unwrap_err().to_string()
    };
    let unsealed = |bytes| {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        file
    };
    let size = 1 << 20;
    let words = || slab_files(size).pop().unwrap();
    let could_be_resized = "could be resized";
    assert!(refused(&offer(size), vec![unsealed(size), words()]).contains(could_be_resized));
    assert!(refused(&offer(size), slab_files(2 * size)).contains(could_be_resized));
    let folder = std::fs::File::open("/").unwrap();
    assert!(refused(&offer(size), vec![folder.into(), words()]).contains(could_be_resized));
    let writable_data = create(size as usize, ReceiverAccess::Write).unwrap().0;
    assert!(refused(&offer(size), vec![writable_data, words()]).contains(could_be_resized));
    let data = slab_files(size).swap_remove(0);
    assert!(refused(&offer(size), vec![data, unsealed(4096)]).contains(could_be_resized));
    for bytes in [0, SHARED_SLAB_BYTES_MAX + 1, u64::MAX] {
        assert!(refused(&offer(bytes), vec![]).contains("was offered"));
    }
    let cut = Frame { meta: vec![1; 7], ..offer(size) };
    assert!(refused(&cut, vec![]).contains("cannot be read"));
}

#[test]
fn slabs_of_a_connection_are_bounded_and_lost_files_are_no_error() {
    let mut receiver = SlabReceiver::new(Caps::KNOWN);
    let mut file = slab_files(1 << 20);
    file.pop();
    receiver.accept(&offer(1 << 20), file).unwrap();
    receiver.accept(&offer(1 << 20), vec![]).unwrap();
    for _ in 0..SLABS_BYTES_MAX / SHARED_SLAB_BYTES_MAX {
        receiver.accept(&offer(SHARED_SLAB_BYTES_MAX), slab_files(SHARED_SLAB_BYTES_MAX)).unwrap();
    }
    assert!(receiver.accept(&offer(4096), slab_files(4096)).is_err());
}

/// Places in and around the first slab, of 8 MiB.
fn placed() -> impl Strategy<Value = PlacedBody> {
    let slab_bytes = 8_u64 << 20;
    let offset = prop_oneof![
        0..2 * slab_bytes,
        (0..2 * slab_bytes / 4096).prop_map(|page| page * 4096),
        slab_bytes - 9000..slab_bytes + 1,
        u64::MAX - 4096..u64::MAX,
        any::<u64>()
    ];
    let bytes = prop_oneof![0..3_u64, 0..2 * slab_bytes, any::<u64>()];
    let slab = prop_oneof![4 => Just(0), 1 => 0..3_u32, 1 => any::<u32>()];
    (slab, offset, bytes, any::<u32>()).prop_map(|(slab, offset, bytes, ticket)| PlacedBody {
        kind: FrameKind::Batch,
        slab,
        offset,
        bytes,
        ticket,
    })
}

proptest! {
    #[test]
    fn any_place_is_within_its_slab_or_refused(places in prop::collection::vec(placed(), 1..20)) {
        let (_sender, receiver) = pair();
        for placed in places {
            let mut meta = b"letter".to_vec();
            placed.write(&mut meta);
            let header = Header { meta_bytes: meta.len() as u32, ..Header::of(FrameKind::Placed) };
            let frame = Frame { header, meta, body: Buffer::from(&[][..]) };
            let end = placed.offset.checked_add(placed.bytes);
            let is_within = placed.slab == 0
                && placed.bytes > 0
                && placed.offset.is_multiple_of(4096)
                && end.is_some_and(|end| end <= 8 << 20);
            match receiver.resolve(frame) {
                Ok(frame) => {
                    prop_assert!(is_within);
                    prop_assert_eq!(frame.body.len() as u64, placed.bytes);
                    prop_assert_eq!((frame.body[0], frame.body[frame.body.len() - 1]), (0, 0));
                }
                Err(error) => {
                    prop_assert!(!is_within);
                    prop_assert_eq!(error.kind(), euphrates_flow::Kind::Corrupt);
                }
            }
        }
    }

    #[test]
    fn any_return_words_harm_only_their_writer(
        words in prop::collection::vec((0..600_u64, any::<u32>(), 0..2_u32), 1..200),
    ) {
        let sender = SlabSender::new(Caps::KNOWN);
        let (offer, _) = sender.place(batch(0, 1 << 20));
        let files = offer.unwrap().take_files().unwrap();
        let bytes = return_words_bytes(8 << 20);
        let theirs = memory_file::open(&files[1], bytes, ReceiverAccess::Write).unwrap();
        for (index, random, is_early) in words {
            theirs.accepted_word().store(1, std::sync::atomic::Ordering::Relaxed);
            let (_, frame) = sender.place(batch(1, 100_000));
            let placed = PlacedBody::read(&frame.meta);
            // Tickets that were given, too, before the body was read.
            let given = placed.map_or(random, |(_, placed)| placed.ticket);
            let ticket = if is_early == 1 { given } else { random };
            let offset = (index * EXTENT_BYTES_MIN).min((8 << 20) - 1);
            theirs.return_word(offset).store(ticket, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
