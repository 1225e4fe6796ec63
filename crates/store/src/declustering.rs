//! Graduated declustering: a mirrored collection's copies share its reading by the speed each disk
//! has now, so that all segments end together (River 2.2.3). Here are the acts to the decisions of
//! `euphrates_policy::declustering`.
//!
//! A disk of the process has one endpoint, whoever reads from it, on a thread of its own
//! (`disk.rs`), which takes letters from a mailbox. A collection being read has an endpoint for
//! each segment, all under one lock (`reading.rs`); who locks it hands letters to the disks'
//! mailboxes, which never waits. So letters between two endpoints stay in order, and nobody holds
//! one endpoint while waiting for another. Bytes go from the device queue's thread, which compares
//! them with their checksum, to the reader that decodes them; nothing is copied.
//!
//! Several processes may read a collection together (`among.rs`): each disk has its endpoint in the
//! process that owns it, each segment in the one that owns its first copy. The same letters then go
//! over the wire (`message.rs`, `serving.rs`), and blocks as they lie on the disk.

mod among;
mod disk;
mod faults;
mod message;
mod part;
mod reading;
mod sequence;
mod serving;

use std::cmp::Reverse;

use euphrates_flow::Result;
use euphrates_flow::error::unknown;
use euphrates_policy::declustering::{Arrival, Claiming, Graduated, Laggard, Order, Shares};

pub use among::Among;
use euphrates_device::disk::THREADS_MAX;
pub use reading::{Declustered, Reader};
pub use sequence::Sequence;

/// How the copies of a collection share its reading: ours, and what it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mirrors {
    /// Claims at every copy, bound when the disk begins; disks serve who lags most.
    #[default]
    Graduated,
    /// Requests at every copy; disks divide their bandwidth by shares that move (the paper's).
    Shares,
    /// Requests at every copy; disks serve who has received least.
    Laggard,
    /// Requests at every copy; disks serve in order of arrival.
    Arrival,
    /// Block by block, one copy after the other: an even split.
    Alternate,
    /// Each block from a random copy.
    Random,
    /// All from the copy whose disk may do most, as `disks.json` has it.
    Fastest,
    /// All from the first copy that is there.
    Primary,
}

impl Mirrors {
    const ALL: [(&'static str, Mirrors); 8] = [
        ("graduated", Mirrors::Graduated),
        ("shares", Mirrors::Shares),
        ("laggard", Mirrors::Laggard),
        ("arrival", Mirrors::Arrival),
        ("alternate", Mirrors::Alternate),
        ("random", Mirrors::Random),
        ("fastest", Mirrors::Fastest),
        ("primary", Mirrors::Primary),
    ];

    /// The one of this name.
    pub fn parse(word: &str) -> Result<Mirrors> {
        let found = Mirrors::ALL.iter().find(|(name, _)| *name == word);
        let names = || Mirrors::ALL.iter().map(|(name, _)| *name);
        found.map(|(_, mirrors)| *mirrors).ok_or_else(|| unknown("way of reading", word, names()))
    }

    /// Where the reader of a segment claims, whose copies are on disks of these rates.
    fn claiming(self, segment: usize, rates: &[Option<u64>]) -> Claiming {
        // Two keep a disk busy; with as many as are in flight, it also has some to choose from.
        const FEW: usize = 2;
        match self {
            Mirrors::Graduated => Claiming::Late,
            Mirrors::Shares | Mirrors::Laggard => Claiming::Room(THREADS_MAX),
            Mirrors::Arrival => Claiming::Room(FEW),
            Mirrors::Alternate => Claiming::Alternate,
            Mirrors::Random => Claiming::Random(segment as u64),
            Mirrors::Fastest => {
                let rate = |copy: &usize| (rates[*copy].unwrap_or(u64::MAX), Reverse(*copy));
                Claiming::One((0..rates.len()).max_by_key(rate).unwrap_or(0))
            }
            Mirrors::Primary => Claiming::One(0),
        }
    }

    /// Whom a disk serves.
    fn order(self) -> Order {
        match self {
            Mirrors::Graduated => Order::Graduated(Graduated::default()),
            Mirrors::Shares => Order::Shares(Shares::new(8, 50)),
            Mirrors::Laggard => Order::Laggard(Laggard),
            _ => Order::Arrival(Arrival),
        }
    }
}
