//! The state of a reader of stripes: every block of an open stripe, and its view of each disk.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::disks::declustering::service_times::ServiceTimes;
use crate::disks::declustering::{ReadProgress, ToDisk};
use crate::disks::striping::StripeChoice;

/// A stripe as the map of its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeBlocks {
    /// Blocks that restore the stripe: its data blocks, which come first in `disks`.
    pub needed: usize,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// The disk of each block, by the reader's numbers; no disk twice.
    pub disks: Vec<usize>,
}

/// The settings of a reader of stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSettings {
    /// The blocks that are read.
    pub choice: StripeChoice,
    /// Whether stripes are delivered in order.
    pub is_stream: bool,
    /// Stripes that are open, from planned to delivered, at most; for a stream, the distance from
    /// the next one to deliver.
    pub window_stripes_max: u32,
    /// Waiting claims per disk, at most.
    pub claims_max: usize,
    /// Blocks that are read in addition, in place of late ones, at most.
    pub again_max: usize,
}

impl Default for StripeSettings {
    fn default() -> StripeSettings {
        StripeSettings {
            choice: StripeChoice::Late,
            is_stream: false,
            window_stripes_max: 256,
            claims_max: 16,
            again_max: 1024,
        }
    }
}

/// The error for a stripe of which fewer blocks can be read than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewBlocks {
    /// The number of the stripe in its file.
    pub stripe: u32,
}

/// A stripe whose needed blocks have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteStripe {
    /// The number of the stripe in its file.
    pub stripe: u32,
    /// The places in the stripe of the blocks that have arrived, in order.
    pub places: Vec<usize>,
}

/// The state of one block of an open stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockState {
    /// Not wanted, unless another one fails.
    Free,
    /// Wanted, not yet claimed at its disk.
    Planned,
    /// Claimed; `is_again` if it is read in place of a late block.
    Waiting {
        is_again: bool,
    },
    /// Being withdrawn, to be read from the disk `to` instead.
    Leaving {
        to: usize,
    },
    /// The disk has begun it.
    Begun {
        at_ns: u64,
        is_again: bool,
    },
    Arrived,
    /// It cannot be read.
    Bad,
}

/// A stripe that is planned and not complete.
#[derive(Clone, Debug)]
pub(super) struct OpenStripe {
    pub blocks: Vec<BlockState>,
    /// The place of each disk's block, by the reader's numbers of disks.
    pub places: Vec<Option<u32>>,
    /// Whether a claim has been withdrawn before. Then only an idle disk may take one again, or it
    /// could move round forever.
    pub is_moved: bool,
}

/// The state of a disk, from the messages that the reader has received.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskView {
    pub is_lost: bool,
    /// Whether it has reported to be idle and has had no claim since.
    pub is_idle: bool,
    pub planned: BTreeSet<u32>,
    /// Claims that wait here or are being withdrawn, in the order in which they were sent.
    pub claimed: Vec<u32>,
    /// Claims that are being withdrawn from other disks for this one.
    pub coming: usize,
    /// Where the search for blocks that move here goes on: below this stripe.
    pub cursor: u32,
    pub begun: Vec<u32>,
    pub claims_target: usize,
    /// Consecutive times that enough claims were left when the disk began one.
    pub plenty: u32,
    pub seen_bytes: u64,
    pub progress: ReadProgress,
    pub pace: ServiceTimes,
}

/// The reader of one striped file.
///
/// ```
/// use euphrates_policy::declustering::ToDisk;
/// use euphrates_policy::striping::reader::{StripeBlocks, StripeReader, StripeSettings};
///
/// let stripe = StripeBlocks { needed: 4, block_bytes: 100, disks: vec![0, 1, 2, 3, 4] };
/// let mut reader = StripeReader::new(StripeSettings::default(), vec![stripe; 10], 5);
/// let mut out = Vec::new();
/// reader.start(0, &mut out)?;
/// let of_first = out.iter().filter(|(_, to)| matches!(to, ToDisk::Claim { block: 0, .. }));
/// assert_eq!(of_first.count(), 4, "any four of five");
/// # Ok::<(), euphrates_policy::striping::reader::TooFewBlocks>(())
/// ```
#[derive(Clone, Debug)]
pub struct StripeReader {
    pub(super) settings: StripeSettings,
    pub(super) stripes: Vec<StripeBlocks>,
    pub(super) disks: Vec<DiskView>,
    pub(super) open: BTreeMap<u32, OpenStripe>,
    /// Complete stripes that have not been delivered: the places of their blocks.
    pub(super) complete: BTreeMap<u32, Vec<usize>>,
    /// The next stripe to open.
    pub(super) unopened: u32,
    /// Stripes delivered; of a stream, the next one.
    pub(super) next: u32,
    /// Bytes that have not arrived.
    pub(super) left_bytes: u64,
    /// Bytes that no disk is known to have begun.
    pub(super) open_bytes: u64,
    /// Bytes of stripes that are not open yet.
    pub(super) unopened_bytes: u64,
    pub(super) again: usize,
    pub(super) wake_ns: Option<u64>,
    /// Whether all disks know the reader, so that it may send messages.
    pub(super) has_started: bool,
}

/// Messages to disks, by the reader's number of the disk, in order.
pub type ToStripeDisks = Vec<(usize, ToDisk)>;
