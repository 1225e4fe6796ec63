//! Graduated declustering: the copies of a mirrored collection share its reading by the speed each
//! disk has now, so that all readers finish together (River 2.2.3).
//!
//! Two endpoints decide, and tell each other by small messages; nobody allocates for all.
//! - A [`Reader`](reader::Reader), one a segment, claims blocks at every copy, and tells each disk
//!   how much of the segment is left. A claim binds nobody: it can be withdrawn until the disk
//!   begins it.
//! - A [`Disk`](disk::Disk) serves the readers of all segments it holds a copy of. Whenever it can
//!   begin a block, it begins one of the reader that lags most. So a slow disk's load goes to its
//!   neighbours, theirs to the next, and ripples round the ring.
//!
//! What each part decides is an enum with the baselines beside ours: [`Claiming`] where a reader
//! claims, [`Order`] whom a disk serves. Messages from one endpoint to another arrive in the order
//! they were sent; nothing else is assumed of the way between them.

mod arrival;
pub mod disk;
mod graduated;
mod laggard;
mod on_way;
mod pace;
pub mod reader;
mod shares;
#[cfg(test)]
mod tests;
mod unclaimed;

pub use arrival::Arrival;
pub use graduated::Graduated;
pub use laggard::Laggard;
pub use on_way::OnWay;
pub use shares::Shares;

/// Copies of one segment at most.
pub const COPIES_MAX: usize = 64;

/// Where a reader claims the blocks of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// All at this copy; at the next one if it is lost. With 0 this is a mirror that is only there
    /// for availability ("a non-adaptive mirroring system", River 3.2.2); with the copy whose disk
    /// is the fastest, *fastest copy*.
    One(usize),
    /// Each block at a random copy, drawn from this seed.
    Random(u64),
    /// Block by block, one copy after the other: an even split, as 3FS reads its chains.
    Alternate,
    /// At whichever copy has room, up to so many requests at each, begun or not. A request is
    /// bound when it is sent.
    Room(usize),
    /// At every copy, bound when the disk begins: claims wait there and are withdrawn for a copy
    /// that would begin them sooner.
    Late,
}

/// Whom a disk serves next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Arrival(Arrival),
    /// Who has received least, compared with its segment.
    Laggard(Laggard),
    /// By shares of the disk's bandwidth that move towards the lagging reader (River 2.2.3).
    Shares(Shares),
    /// Who lags most, remembering who has lagged.
    Graduated(Graduated),
}

/// How far a reader is; goes with every claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Bytes of the segment that have not arrived.
    pub left_bytes: u64,
    /// Bytes of the segment that no disk is known to have begun.
    pub open_bytes: u64,
    /// Bytes that this very disk is known to have begun, of those that count as open before; the
    /// disk subtracts what it has begun since.
    pub seen_bytes: u64,
}

/// From a reader to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToDisk {
    /// Read this block for me when it is my turn.
    Claim {
        /// Number of the block in its segment.
        block: u32,
        /// Its size.
        bytes: u64,
        /// Whether another disk has begun it already.
        again: bool,
        /// How far I am.
        told: Told,
    },
    /// Give this block back unless you have begun it; if you have, I will get it from you.
    Withdraw {
        /// Number of the block.
        block: u32,
    },
    /// Another disk was first with this block: forget it, and if you are reading it, stop if you
    /// can.
    Cancel {
        /// Number of the block.
        block: u32,
    },
    /// How far I am, when there is nothing to claim.
    Progress(Told),
}

/// From a disk to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToReader {
    /// The block is being read and can no longer be withdrawn.
    Begun {
        /// Number of the block.
        block: u32,
        /// Whether the claim said that another disk had begun it.
        again: bool,
        /// Your claims that still wait here.
        waiting: u32,
    },
    /// The block was withdrawn, and nobody here has begun it.
    Returned {
        /// Number of the block.
        block: u32,
    },
    /// This disk could begin a block, and there is no claim of anybody.
    Idle,
}
