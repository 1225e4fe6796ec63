//! Collective sessions: whatever writers exchange, whenever they end, fail or are absent, the
//! committed file has the bytes that were written, or there is an error and the old version.

use std::collections::BTreeMap;
use std::path::Path;

use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_flow::{Error, Kind};
use euphrates_store::striped::{
    ShareWriter, StridedView, StripedOptions, StripedReader, StripedSession, verify_file,
};

const BLOCK: usize = 500;
const STRIPE: usize = 2 * BLOCK;
const SEEDS: u64 = 60;

/// A home with four disks.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let disk = |number| NamedDisk {
        name: format!("d{number}"),
        folder: home.path().join(format!("d{number}")),
        mode: Default::default(),
        rate: None,
        worker: "local".into(),
    };
    save_named_disks(home.path(), &(0..4).map(disk).collect::<Vec<_>>()).unwrap();
    home
}

fn begin(home: &Path, writers: usize) -> StripedSession {
    let options = StripedOptions { data: 2, block_bytes: BLOCK, ..StripedOptions::default() };
    StripedSession::begin(home, "f", options, writers, true).unwrap()
}

fn join(home: &Path, session: &StripedSession, number: usize) -> ShareWriter {
    StripedSession::join(home, session.id(), number, "run").unwrap()
}

fn read_all(home: &Path) -> Vec<u8> {
    let reader = StripedReader::open(home, "f").unwrap();
    let mut content = vec![1; reader.bytes() as usize];
    assert_eq!(reader.read_at(0, &mut content).unwrap(), content.len());
    assert!(verify_file(home, "f").unwrap().damages.is_empty());
    content
}

/// The number of the files with blocks on all disks, and their bytes.
fn blocks_of(home: &Path, is_counted: impl Fn(&str) -> bool + Copy) -> (usize, u64) {
    fn below(folder: &Path, is_counted: impl Fn(&str) -> bool + Copy) -> (usize, u64) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let count = |path: std::path::PathBuf| match path.is_dir() {
            true => below(&path, is_counted),
            false => {
                let is_block = path.extension().is_some_and(|it| it == "blocks");
                let is_counted = is_block && is_counted(&path.to_string_lossy());
                let bytes = path.metadata().map_or(0, |about| about.len());
                if is_counted { (1, bytes) } else { (0, 0) }
            }
        };
        let counts = entries.map(|entry| count(entry.path()));
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
    let disks = (0..4).map(|disk| below(&home.join(format!("d{disk}")), is_counted));
    disks.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Whether something is left in the staging folders of the disks, or of the session.
fn is_clean(home: &Path) -> bool {
    let disks = (0..4).map(|disk| home.join(format!("d{disk}/.staging")));
    let mut folders = disks.chain([home.join("sessions")]);
    folders.all(|folder| std::fs::read_dir(folder).into_iter().flatten().next().is_none())
}

/// A part of a file that a writer writes.
#[derive(Clone, Debug)]
struct Write {
    writer: usize,
    at: usize,
    bytes: usize,
}

/// What happens to a session after each of its writes.
#[derive(Clone, Debug)]
enum Event {
    None,
    /// A writer ends.
    End(usize),
    /// A writer is dropped, and another incarnation of it writes its parts again.
    Replace(usize),
}

#[derive(Clone, Debug)]
struct Case {
    writers: usize,
    /// Writers that open their file before any is written.
    early: Vec<bool>,
    memory: Vec<usize>,
    writes: Vec<Write>,
    events: Vec<Event>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

fn case(seed: u64) -> Case {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let writers = 1 + random.below(5);
    let (mut writes, mut at) = (vec![], 0);
    for _ in 0..1 + random.below(40) {
        let bytes = 1 + random.below(2 * STRIPE);
        // One of six parts is written by none, and some bytes are written twice.
        if random.below(6) > 0 {
            let writer = random.below(writers);
            writes.push(Write { writer, at, bytes });
            if random.below(5) == 0 {
                writes.push(Write { writer, at: at + bytes / 2, bytes: 1 });
            }
        }
        at += bytes;
    }
    for at in (1..writes.len()).rev() {
        writes.swap(at, random.below(at + 1));
    }
    let events = writes.iter().map(|_| match random.below(14) {
        0 => Event::End(random.below(writers)),
        1 => Event::Replace(random.below(writers)),
        _ => Event::None,
    });
    let events = events.collect();
    let early = (0..writers).map(|_| random.below(5) > 0).collect();
    let memory = (0..writers).map(|_| [1, 3 * STRIPE, 1 << 20][random.below(3)]).collect();
    Case { writers, early, memory, writes, events }
}

/// Runs a case. Returns whether an incarnation was replaced, what the commit says, and the model.
fn run(home: &Path, case: &Case) -> (bool, Result<u64, Error>, Vec<u8>) {
    let mut session = begin(home, case.writers);
    let open = |session: &StripedSession, number: usize| {
        let mut writer = join(home, session, number);
        writer.set_memory(case.memory[number]);
        writer
    };
    let early = (0..case.writers).filter(|&number| case.early[number]);
    let mut open_now: BTreeMap<usize, ShareWriter> =
        early.map(|number| (number, open(&session, number))).collect();
    // What each writer has written, in order; a part that was never ended does not count.
    let mut done: Vec<Vec<(usize, Vec<u8>)>> = vec![vec![]; case.writers];
    let mut ended = vec![false; case.writers];
    let mut is_replaced = false;
    for (number, (write, event)) in case.writes.iter().zip(&case.events).enumerate() {
        if !ended[write.writer] {
            let writer = open_now.entry(write.writer);
            let writer = writer.or_insert_with(|| open(&session, write.writer));
            let part = vec![(number % 250 + 1) as u8; write.bytes];
            writer.write_at(write.at as u64, &part).unwrap();
            done[write.writer].push((write.at, part));
        }
        match *event {
            Event::End(number) if !ended[number] => {
                let writer = open_now.remove(&number);
                writer.unwrap_or_else(|| open(&session, number)).end().unwrap();
                ended[number] = true;
            }
            Event::Replace(number) if !ended[number] => {
                is_replaced |= open_now.remove(&number).is_some();
                let mut writer = open(&session, number);
                // The new incarnation writes less.
                let half = done[number].len() / 2;
                done[number].truncate(half);
                for (at, part) in &done[number] {
                    writer.write_at(*at as u64, part).unwrap();
                }
                open_now.insert(number, writer);
            }
            _ => {}
        }
    }
    let rest = (0..case.writers).filter(|&number| !ended[number]);
    let rest: Vec<ShareWriter> = rest
        .map(|number| open_now.remove(&number).unwrap_or_else(|| open(&session, number)))
        .collect();
    std::thread::scope(|scope| {
        rest.into_iter().for_each(|writer| drop(scope.spawn(|| writer.end().unwrap())));
    });
    let mut model = vec![];
    for (at, part) in done.into_iter().flatten() {
        if model.len() < at + part.len() {
            model.resize(at + part.len(), 0);
        }
        model[at..at + part.len()].copy_from_slice(&part);
    }
    (is_replaced, session.commit(), model)
}

#[test]
fn committed_file_has_what_the_writers_that_ended_have_written() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let (home, case) = (home(), case(seed));
        let (is_replaced, committed, model) = run(home.path(), &case);
        match committed {
            Ok(_) => assert!(read_all(home.path()) == model, "seed {seed}: {case:?}"),
            Err(error) => {
                lost += 1;
                assert!(is_replaced, "seed {seed}: {error}");
                let is_named = error.message().contains("was replaced after it had");
                assert!(is_named, "seed {seed}: {error}");
                assert!(StripedReader::open(home.path(), "f").is_err(), "seed {seed}");
                assert_eq!(blocks_of(home.path(), |_| true).0, 0, "seed {seed}");
            }
        }
        assert!(is_clean(home.path()), "seed {seed}");
    }
    assert!(lost > 0 && lost < SEEDS, "{lost} of {SEEDS}");
}

/// Of pieces of 100 bytes, those of one of `writers` that take turns.
fn column(number: usize, writers: usize, count: u64) -> StridedView {
    let stride = 100 * writers as u64;
    StridedView::new(100 * number as u64, 100, &[(stride, count)]).unwrap()
}

#[test]
fn owner_writes_the_stripes_of_all_before_the_commit() {
    let (home, writers, count) = (home(), 2, 100);
    let mut session = begin(home.path(), writers);
    let mut open: Vec<ShareWriter> =
        (0..writers).map(|number| join(home.path(), &session, number)).collect();
    for at in 0..count {
        for (number, writer) in open.iter_mut().enumerate() {
            let part = [(100 * number as u64 + at) as u8; 100];
            writer.write_view(&column(number, writers, count), 100 * at, &part).unwrap();
        }
    }
    // What a log has stays in a staging folder.
    let of_stripes = || blocks_of(home.path(), |path| !path.contains(".staging")).1;
    open.into_iter().for_each(|writer| writer.end().unwrap());
    let stripes = of_stripes() / (3 * BLOCK as u64);
    assert!(stripes >= 10, "{stripes} of 20, of which the second writer owns 10");
    session.commit().unwrap();
    for (at, byte) in read_all(home.path()).into_iter().enumerate() {
        assert_eq!(byte, (100 * (at / 100 % 2) + at / 200) as u8, "{at}");
    }
}

#[test]
fn byte_of_two_writers_is_named_wherever_its_pieces_lie() {
    for (first, second, both_open) in [
        (0..10, 5..6, true),
        (0..STRIPE, 5..6, true),
        (0..10, 0..STRIPE, true),
        (0..10, 5..6, false),
    ] {
        for stripe in 0..3 {
            let home = home();
            let mut session = begin(home.path(), 3);
            let start = stripe * STRIPE;
            let write = |writer: &mut ShareWriter, range: std::ops::Range<usize>| {
                writer.write_at((start + range.start) as u64, &vec![1; range.len()]).unwrap();
            };
            let mut one = join(home.path(), &session, 0);
            write(&mut one, first.clone());
            if !both_open {
                one.end().unwrap();
                one = join(home.path(), &session, 1);
            }
            let mut other = join(home.path(), &session, 2);
            write(&mut other, second.clone());
            other.end().unwrap();
            one.end().unwrap();
            if both_open {
                join(home.path(), &session, 1).end().unwrap();
            }
            let error = session.commit().unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            let byte = start + first.start.max(second.start);
            let expected = format!("writers 0 and 2 have both written byte {byte}");
            assert!(error.message().contains(&expected), "{error}");
            assert!(StripedReader::open(home.path(), "f").is_err());
        }
    }
}

#[test]
fn owner_that_never_opens_is_missed_by_nobody() {
    let home = home();
    let mut session = begin(home.path(), 4);
    let mut content = vec![0; 8 * STRIPE];
    for number in [0, 1, 3] {
        let mut writer = join(home.path(), &session, number);
        for at in (number * 100..content.len()).step_by(400) {
            content[at..at + 100].fill(number as u8 + 1);
            writer.write_at(at as u64, &content[at..at + 100]).unwrap();
        }
        writer.end().unwrap();
    }
    assert!(session.commit().unwrap_err().message().contains("writer 2 of 4 has not ended"));
    join(home.path(), &session, 2).end().unwrap();
    session.commit().unwrap();
    assert!(read_all(home.path()) == content);
}
