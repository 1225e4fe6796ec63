//! Graduated declustering: the copies of a mirrored collection share its reading by the speed that
//! each disk has now, so that all segments end together (River 2.2.3).
//!
//! `euphrates_policy::declustering` decides; this module acts.
//!
//! Each disk of the process has one endpoint per policy for all its readers: a thread that takes
//! messages from a mailbox (`disk.rs`). A collection that is being read has an endpoint for each
//! segment, all under one lock (`shared.rs`); the holder of the lock posts messages to the disks'
//! mailboxes, which never waits. So messages between two endpoints stay in order, and no thread
//! holds one endpoint while it waits for another. The device queue's thread compares bytes with
//! their checksum and passes them to the reader that decodes them; nothing is copied.
//!
//! Several processes may share the reading of a collection (`reader_assignment.rs`): each disk has
//! its endpoint in the process that owns it, each segment in the one that owns its first copy. Then
//! the same messages go over the wire (`message.rs`, `dispatch.rs`), and blocks as they lie on the
//! disk.

mod declustered_segment;
mod disk;
mod dispatch;
mod faults;
mod message;
mod reader_assignment;
mod reading;
mod remote_readers;
mod sequence;
mod shared;

use std::cmp::Reverse;

use euphrates_flow::Result;
use euphrates_flow::error::unknown;
use euphrates_policy::declustering::{
    Arrival, Claiming, DiskShares, Laggard, LaggardIntegral, ServiceOrder,
};

pub(crate) use disk::{
    BlockRefused, BlockRequest, BlockSource, DiskEndpoint, DiskMessage, DiskUse, ReaderState,
    Requester, next_reader_id,
};
use euphrates_device::disk::THREADS_MAX;
pub use reader_assignment::ReaderAssignment;
pub use reading::{Declustered, MirrorReader};
pub use sequence::Sequence;

/// The policy by which the copies of a collection share its reading: the default, and the baselines
/// for comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MirrorPolicy {
    /// Claims at every copy, bound when the disk begins one; disks serve the laggard first.
    #[default]
    Graduated,
    /// Requests at every copy; disks divide their bandwidth by adaptive shares (River 2.2.3).
    Shares,
    /// Requests at every copy; disks serve the reader that has received least.
    Laggard,
    /// Requests at every copy; disks serve in order of arrival.
    Arrival,
    /// Block by block from alternating copies: an even split.
    Alternate,
    /// Each block from a random copy.
    Random,
    /// All from the copy whose disk has the highest rate in `disks.json`.
    Fastest,
    /// All from the first copy that exists.
    Primary,
}

impl MirrorPolicy {
    const ALL: [(&'static str, MirrorPolicy); 8] = [
        ("graduated", MirrorPolicy::Graduated),
        ("shares", MirrorPolicy::Shares),
        ("laggard", MirrorPolicy::Laggard),
        ("arrival", MirrorPolicy::Arrival),
        ("alternate", MirrorPolicy::Alternate),
        ("random", MirrorPolicy::Random),
        ("fastest", MirrorPolicy::Fastest),
        ("primary", MirrorPolicy::Primary),
    ];

    /// Parses a policy's name; any other word is an error.
    ///
    /// ```
    /// use euphrates_store::declustering::MirrorPolicy;
    ///
    /// assert!(MirrorPolicy::parse("laggard").is_ok());
    /// assert!(MirrorPolicy::parse("lagard").is_err());
    /// ```
    pub fn parse(word: &str) -> Result<MirrorPolicy> {
        let found = MirrorPolicy::ALL.iter().find(|(name, _)| *name == word);
        let names = || MirrorPolicy::ALL.iter().map(|(name, _)| *name);
        found.map(|(_, mirrors)| *mirrors).ok_or_else(|| unknown("way of reading", word, names()))
    }

    /// The claiming policy of a segment, given the rates of its copies' disks.
    fn claiming(self, segment: usize, rates: &[Option<u64>]) -> Claiming {
        // Two requests keep a disk busy; with twice as many, it also has some to choose from.
        const FEW: usize = 2;
        match self {
            MirrorPolicy::Graduated => Claiming::Late,
            MirrorPolicy::Shares | MirrorPolicy::Laggard => Claiming::Room(THREADS_MAX),
            MirrorPolicy::Arrival => Claiming::Room(FEW),
            MirrorPolicy::Alternate => Claiming::Alternate,
            MirrorPolicy::Random => Claiming::Random(segment as u64),
            MirrorPolicy::Fastest => {
                let rate = |copy: &usize| (rates[*copy].unwrap_or(u64::MAX), Reverse(*copy));
                Claiming::One((0..rates.len()).max_by_key(rate).unwrap_or(0))
            }
            MirrorPolicy::Primary => Claiming::One(0),
        }
    }

    /// The order in which a disk serves its readers.
    fn order(self) -> ServiceOrder {
        match self {
            MirrorPolicy::Graduated => ServiceOrder::LaggardIntegral(LaggardIntegral::default()),
            MirrorPolicy::Shares => ServiceOrder::Shares(DiskShares::new(8, 50)),
            MirrorPolicy::Laggard => ServiceOrder::Laggard(Laggard),
            _ => ServiceOrder::Arrival(Arrival),
        }
    }
}
