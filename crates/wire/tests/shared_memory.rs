//! Bodies in shared memory between the ends of lanes: bounds, returned extents, files, dead ends.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use arrow::buffer::Buffer;
use common::{Answerer, Carrier, Endpoint, LONG, answerer, greeting, listen};
use euphrates_wire::shared_memory::SLABS_BYTES_MAX;
use euphrates_wire::{Address, Frame, FrameKind, Header, Secret, Security, dial};
use parking_lot::Mutex;

/// Open files and mappings are those of the process, so only one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn ends() -> (Endpoint, Endpoint) {
    let answerer = answerer(Carrier::Shared);
    let (calling, called) = answerer.pair();
    (listen(calling), listen(called))
}

fn content(number: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ number as u8)
        .collect()
}

fn send(from: &Endpoint, number: u32, bytes: usize) {
    let header = Header { queue: number, ..Header::of(FrameKind::Batch) };
    from.lane.send(header, vec![], vec![Buffer::from_vec(content(number, bytes))]);
}

fn check(frame: &Frame, bytes: usize) {
    assert!(*frame.body == content(frame.header.queue, bytes), "batch {}", frame.header.queue);
}

/// Sends until a body goes through shared memory: a slab has to be accepted first.
fn warm(from: &Endpoint, to: &Endpoint) {
    while from.lane.placed_bytes() == 0 {
        send(from, 0, 100_000);
        check(&to.frame(), 100_000);
    }
}

/// Open files of slabs in this process, and the bytes of their mappings.
fn slabs_here() -> (usize, usize) {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_slab = |link: std::io::Result<std::path::PathBuf>| {
        link.is_ok_and(|path| path.to_string_lossy().contains("euphrates-batches"))
    };
    let files = files.filter(|file| is_slab(fs::read_link(file.path()))).count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains("euphrates-batches"));
    let bytes = lines.map(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        usize::from_str_radix(end, 16).unwrap() - usize::from_str_radix(start, 16).unwrap()
    });
    (files, bytes.sum())
}

/// Waits until the threads of lanes that have ended have dropped their slabs.
fn until_unmapped() {
    until(|| slabs_here() == (0, 0));
}

fn until(is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    panic!("left behind: {:?}", slabs_here());
}

fn close(one: Endpoint, other: Endpoint) {
    one.lane.close();
    one.end().unwrap();
    other.end().unwrap();
}

#[test]
fn ten_thousand_batches_return_their_extents() {
    let _alone = ALONE.lock();
    let (one, other) = ends();
    warm(&one, &other);
    let before = one.lane.placed_bytes();
    for number in 0..10_000 {
        let bytes = 16_384 + (number as usize * 7919) % 60_000;
        send(&one, number, bytes);
        check(&other.frame(), bytes);
    }
    let sent: u64 = (0..10_000_u64).map(|number| 16_384 + (number * 7919) % 60_000).sum();
    assert_eq!(one.lane.placed_bytes() - before, sent, "a slab never ran full");
    let (files, mapped) = slabs_here();
    assert_eq!(files, 0, "files are closed once they are mapped");
    assert!(mapped < 20 << 20, "one slab of 8 MiB at both ends: {mapped}");
    close(one, other);
    until_unmapped();
}

#[test]
fn held_batches_are_bounded_in_memory_and_hold_up_nothing() {
    let _alone = ALONE.lock();
    let (one, other) = ends();
    warm(&one, &other);
    let count = 200;
    let mut held = vec![];
    for number in 0..count {
        send(&one, number, 1 << 20);
        held.push(other.frame());
    }
    held.iter().for_each(|frame| check(frame, 1 << 20));
    let placed = one.lane.placed_bytes();
    assert!(placed < SLABS_BYTES_MAX + (1 << 20) && placed > SLABS_BYTES_MAX / 2, "{placed}");
    assert!(slabs_here().1 <= 2 * (SLABS_BYTES_MAX as usize + (1 << 20)));
    held.clear();
    for number in 0..50 {
        send(&one, number, 1 << 20);
        check(&other.frame(), 1 << 20);
    }
    assert_eq!(one.lane.placed_bytes(), placed + (50 << 20), "extents are free again");
    close(one, other);
}

#[test]
fn batches_outlive_their_lane() {
    let _alone = ALONE.lock();
    let (one, other) = ends();
    warm(&one, &other);
    send(&one, 7, 1 << 20);
    let frame = other.frame();
    assert!(one.lane.placed_bytes() >= 1 << 20);
    close(one, other);
    check(&frame, 1 << 20);
    drop(frame);
    until_unmapped();
}

#[test]
fn many_lanes_leave_no_files_and_no_mappings() {
    let _alone = ALONE.lock();
    let answerer = answerer(Carrier::Shared);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let round = |answerer: &Answerer| {
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        warm(&one, &other);
        warm(&other, &one);
        close(one, other);
    };
    let before = open();
    (0..50).for_each(|_| round(&answerer));
    // Sockets of earlier tests may have been open before.
    until(|| open() <= before && slabs_here() == (0, 0));
}

#[test]
fn sockets_carry_bodies_unless_both_ends_share_memory() {
    let _alone = ALONE.lock();
    for carrier in [Carrier::Unix, Carrier::Tcp, Carrier::Tls] {
        let answerer = answerer(carrier);
        // The caller could, the answerer cannot; or there is no unix socket.
        let me = Carrier::Shared.of(greeting("w2"));
        let calling = answerer.dial(&me).unwrap();
        assert!(!calling.shares_memory());
        let (one, other) = (listen(calling), listen(answerer.called()));
        for number in 0..20 {
            send(&one, number, 100_000);
            check(&other.frame(), 100_000);
        }
        assert_eq!(one.lane.placed_bytes(), 0);
    }
    let over_tcp = common::answerer_as(Carrier::Tcp, Carrier::Shared.of(greeting("w1")));
    assert!(!over_tcp.dial(&Carrier::Shared.of(greeting("w2"))).unwrap().shares_memory());
}

#[test]
fn frames_about_shared_memory_that_was_not_agreed_end_the_lane() {
    let _alone = ALONE.lock();
    for kind in [FrameKind::Slab, FrameKind::Placed] {
        for (carrier, why) in [
            (Carrier::Unix, "on a connection without it"),
            (Carrier::Shared, "that cannot be read"),
        ] {
            let answerer = answerer(carrier);
            let (mut calling, called) = answerer.pair();
            let other = listen(called);
            calling.sender.send(Header::of(kind), b"what?", &[]).unwrap();
            let found = other.why();
            assert!(found.contains(why), "{carrier:?}, {kind:?}: {found}");
        }
    }
}

#[test]
fn forked_child_returns_no_extents_of_its_parent() {
    let _alone = ALONE.lock();
    let (one, other) = ends();
    warm(&one, &other);
    send(&one, 1, 1 << 20);
    let held = other.frame();
    // SAFETY: the child only drops a frame and exits.
    match unsafe { libc::fork() } {
        0 => {
            drop(held);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        child => {
            // SAFETY: waits for the child that was just made.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        }
    }
    for number in 2..30 {
        send(&one, number, 1 << 20);
        check(&other.frame(), 1 << 20);
    }
    check(&held, 1 << 20);
    drop(held);
    close(one, other);
}

const CALL: &str = "EUPHRATES_TEST_CALL";

/// Not a test of its own: run as another process, it dials and sends batches until it is killed.
#[test]
fn another_process() {
    let Ok(call) = std::env::var(CALL) else { return };
    let (address, secret) = call.split_once(' ').unwrap();
    let (address, secret): (Address, _) =
        (address.parse().unwrap(), Secret::parse(secret).unwrap());
    let me = Carrier::Shared.of(greeting("w2"));
    let endpoint = listen(dial(&address, &me, &secret, Security::Token, LONG).unwrap());
    for number in 0.. {
        send(&endpoint, number, 200_000);
        if number % 4 == 3 && endpoint.frames().next().is_none() {
            return;
        }
    }
}

#[test]
fn batches_of_a_killed_process_stay_readable() {
    let _alone = ALONE.lock();
    let answerer = answerer(Carrier::Shared);
    let Answerer { listener, secret, .. } = &answerer;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process"])
        .env(CALL, format!("{} {}", listener.address(), secret.to_text()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let endpoint = listen(answerer.called());
    let mut held = vec![];
    for number in 0..40 {
        held.push(endpoint.frame());
        if number % 4 == 3 {
            endpoint.send(0, b"more");
        }
    }
    assert!(slabs_here().1 > 0, "some came in shared memory");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(endpoint.why().contains("connection to w2"));
    held.iter().for_each(|frame| check(frame, 200_000));
    held.clear();
    drop(endpoint);
    until_unmapped();
}
