//! Late binding, the laggard first: the default.
//!
//! A batch belongs to a consumer when the consumer is about to begin it. Until then there are only
//! reservations of a few bytes. How the two ends meet:
//!
//! - *Homes.* A producer reserves its k-th batch at one consumer, its home, such that all producers
//!   together go round all consumers evenly: the perfect division when nothing is slow, with three
//!   small messages a batch. A second reservation, at a random consumer, is left only when an
//!   earlier batch still lies there unasked, that is when the perfect division fails.
//! - *Near first.* Where some ends share a machine and others do not, a producer's homes are the
//!   consumers near it, the first batch that is ready is kept for them until it has waited in vain,
//!   and a consumer asks near, unless a far producer has much more left. So what all can do where
//!   it lies does not cross the network, and a slow link carries only what has to go over it.
//! - *The laggard first.* Whatever a producer says carries how much it has left. A consumer keeps
//!   the last word of a few producers, and asks the one with most left, so that all finish
//!   together.
//! - *Just in time.* A consumer asks when what it has will last no longer than an answer takes: a
//!   fast, far one keeps many slots busy, a slow one has one piece in service and nothing behind
//!   it. No setting has to be found.
//! - *Waiting.* A consumer that finds nothing waits at one producer, which gives it its next piece
//!   at once. After that it asks ever more rarely: the rest is up to reservations.
//! - *Advertising.* A producer that has something and is not asked for long reserves it elsewhere,
//!   ever more rarely, and once more at once when the others have nothing. So each end finds the
//!   other when few are left, and nobody floods anybody.
//! - *Pieces.* When a producer knows from what it has left, and how fast that goes, that the end is
//!   nearer than the asker would be done with a whole batch, it gives a piece that is done in half
//!   of that time.
//! - *Recalls.* What was given and not begun is recalled for one who waits.
//!
//! After Sparrow's late binding (SOSP '13); the laggard first is River's graduated declustering
//! (2.2.3) turned to producers, and the pieces are guided self-scheduling (Polychronopoulos and
//! Kuck, 1987).

mod consumer;
mod known;
mod pace;
mod producer;

pub use consumer::Consumer;
pub use producer::Producer;

/// What the two ends may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pieces at a consumer, those asked for counted in; at least 3.
    pub slots_max: u32,
    /// Bytes at a consumer, those asked for counted in as the largest seen; three pieces are always
    /// allowed: one in service, one asked for, one waited for. A batch larger than all before it
    /// exceeds the bound by what it is larger.
    pub held_bytes_max: u64,
    /// Pieces a batch is cut in near the end, at most; 1 never cuts.
    pub pieces_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { slots_max: 32, held_bytes_max: 64 << 20, pieces_max: 16 }
    }
}

/// 2^20 bytes: speeds of consumers are told as the time these take.
const MIB: u64 = 1 << 20;

/// How long work on so many bytes takes, at a speed given as the time of 2^20.
fn time_of(bytes: u64, mib_ns: u64) -> u64 {
    let ns = u128::from(bytes) * u128::from(mib_ns) / u128::from(MIB);
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}
