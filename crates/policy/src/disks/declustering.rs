//! Graduated declustering: mirrored copies share reads by the speeds of their disks (River 2.2.3).
//!
//! All readers finish together, even if disks slow down during the run.
//!
//! Two kinds of endpoints exchange small messages; there is no central coordinator.
//! - A [`SegmentReader`](reader::SegmentReader), one per segment, claims blocks at every copy and
//!   reports its bytes left to each disk. A claim is not binding: it can be withdrawn until the
//!   disk begins it.
//! - A [`DiskPolicy`](disk::DiskPolicy) serves the readers of all segments of which it has a copy.
//!   Whenever it can begin a block, it begins one of the reader that lags most. Load of a slow disk
//!   therefore moves to its neighbours, their load to the next, and so on along the ring.
//!
//! Two enums select these policies or baselines: [`Claiming`], the copies at which a reader claims,
//! and [`ServiceOrder`], the reader that a disk serves next. The transport must deliver messages
//! between two endpoints in the order in which they were sent; nothing else is assumed.

mod arrival;
mod claiming;
pub mod disk;
mod in_flight;
mod laggard;
mod laggard_integral;
mod order;
mod proportional;
mod protocol;
pub mod reader;
mod served;
pub(super) mod service_times;
mod shares;
#[cfg(test)]
mod tests;
mod unclaimed;

pub use arrival::Arrival;
pub use claiming::Claiming;
pub use in_flight::BlocksInFlight;
pub use laggard::Laggard;
pub use laggard_integral::LaggardIntegral;
pub use order::ServiceOrder;
pub use proportional::Proportional;
pub use protocol::{COPIES_MAX, ReadProgress, ToDisk, ToReader};
pub use shares::DiskShares;
