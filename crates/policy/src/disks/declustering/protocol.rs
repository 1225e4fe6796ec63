//! The protocol of mirrored reading: messages between readers and disks.

/// Copies of one segment, at most: the bits of a set of copies.
pub const COPIES_MAX: usize = 64;

/// The progress of a reader, which every claim carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Bytes of the segment that have not arrived.
    pub left_bytes: u64,
    /// Bytes of the segment that no disk is known to have begun.
    pub open_bytes: u64,
    /// Bytes that the receiving disk is known to have begun. The disk subtracts from `open_bytes`
    /// what it has begun since.
    pub seen_bytes: u64,
}

/// A message from a reader to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToDisk {
    /// Requests a block, to be read when it is the reader's turn.
    Claim {
        /// The number of the block in its segment.
        block: u32,
        /// The size of the block, in bytes.
        bytes: u64,
        /// Whether another disk has begun it already.
        is_speculative: bool,
        /// The reader's progress at the time of the claim.
        progress: ReadProgress,
    },
    /// Withdraws a claim, unless the disk has begun it.
    Withdraw {
        /// The number of the block.
        block: u32,
    },
    /// Cancels a block that another disk has delivered, also while it is being read.
    Cancel {
        /// The number of the block.
        block: u32,
    },
    /// Reports progress without a claim.
    Progress(ReadProgress),
}

/// A message from a disk to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToReader {
    /// The disk has begun a block, which can no longer be withdrawn.
    Begun {
        /// The number of the block.
        block: u32,
        /// Whether another disk had begun it, as the claim said.
        is_speculative: bool,
        /// Claims of the reader that still wait here.
        waiting: u32,
    },
    /// A claim has been withdrawn unbegun.
    Returned {
        /// The number of the block.
        block: u32,
    },
    /// The disk could begin a block, but no reader has a claim that it may begin.
    Idle,
}
