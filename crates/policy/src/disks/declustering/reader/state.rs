//! The state of a reader: its settings, the blocks it has claimed, and its view of each copy.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::super::claiming::Claiming;
use super::super::protocol::{ReadProgress, ToDisk};
use super::super::service_times::ServiceTimes;
use super::super::unclaimed::Unclaimed;

/// The settings of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderSettings {
    /// The policy of claims.
    pub claiming: Claiming,
    /// Whether blocks are delivered in order.
    pub is_stream: bool,
    /// Bytes claimed and not delivered, at most; one block is always allowed. For a stream, the
    /// distance from the next block to deliver to the end of the last claim.
    pub window_bytes_max: u64,
    /// Waiting claims per copy, at most.
    pub claims_max: usize,
    /// Blocks of the segment that are read from two copies, at most.
    pub again_max: usize,
}

impl Default for ReaderSettings {
    fn default() -> ReaderSettings {
        ReaderSettings {
            claiming: Claiming::Late,
            is_stream: false,
            window_bytes_max: 64 << 20,
            claims_max: 16,
            again_max: 16,
        }
    }
}

/// The error for a block of which no copy can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCopy {
    /// The number of the block in its segment.
    pub block: u32,
}

/// The reader of one segment.
///
/// ```
/// use euphrates_policy::declustering::ToDisk;
/// use euphrates_policy::declustering::reader::{SegmentReader, ReaderSettings};
///
/// let mut reader = SegmentReader::new(ReaderSettings::default(), &[100; 8], 2);
/// let mut out = Vec::new();
/// reader.start(0, &mut out);
/// let claims = |copy| out.iter().filter(|(at, _)| *at == copy).count();
/// assert_eq!([claims(0), claims(1)], [4, 4], "half of the segment at each copy");
/// assert!(matches!(out[0].1, ToDisk::Claim { block: 0, .. }));
/// ```
#[derive(Clone, Debug)]
pub struct SegmentReader {
    pub(super) settings: ReaderSettings,
    pub(super) unclaimed: Unclaimed,
    pub(super) copies: Vec<CopyState>,
    /// Claimed blocks that have not arrived.
    pub(super) asked: BTreeMap<u32, Asked>,
    /// Blocks that have arrived and not been delivered.
    pub(super) arrived: BTreeSet<u32>,
    /// The copies, as bits, at which a block cannot be read.
    pub(super) bad: BTreeMap<u32, u64>,
    /// Blocks delivered; of a stream, the next one.
    pub(super) next: u32,
    pub(super) bytes: u64,
    pub(super) left_bytes: u64,
    pub(super) waiting_bytes: u64,
    pub(super) taken_bytes: u64,
    pub(super) speculative: usize,
    pub(super) sent: u64,
    pub(super) wake_ns: Option<u64>,
}

/// The state of one copy, from the messages that the reader has received.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyState {
    pub(super) is_lost: bool,
    /// Whether it has reported to be idle and has had no claim since.
    pub(super) is_idle: bool,
    /// Whether it was idle at the last claim, and so begins at once.
    pub(super) is_quick: bool,
    pub(super) waiting: usize,
    pub(super) begun: usize,
    /// Claims that are being withdrawn from other copies for this one.
    pub(super) coming: usize,
    pub(super) claims_target: usize,
    /// Consecutive times that enough claims were left when the disk began one.
    pub(super) plenty: u32,
    pub(super) seen_bytes: u64,
    pub(super) progress: ReadProgress,
    pub(super) pace: ServiceTimes,
}

/// A block that is claimed at one or two copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) first: Option<CopyClaim>,
    pub(super) second: Option<CopyClaim>,
    /// Whether it has been withdrawn before. Then only an idle disk may take it again, or it could
    /// move round forever.
    pub(super) is_moved: bool,
}

/// A claim of a block at one copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyClaim {
    pub(super) copy: usize,
    /// The number of the claim.
    pub(super) sent: u64,
    pub(super) state: ClaimState,
}

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    Waiting,
    /// Being withdrawn, to be claimed at another copy.
    Leaving {
        to: usize,
    },
    Begun {
        at_ns: u64,
    },
}

/// Messages to disks, by copy, in order.
pub type ToDisks = Vec<(usize, ToDisk)>;
