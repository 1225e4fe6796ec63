//! Striped files with parity: any `k` of the `n` blocks of a stripe restore it.
//!
//! Graduated declustering with codes instead of copies: a mirror is 1-of-c, parity is k-of-n. A
//! [`StripeReader`](reader::StripeReader), one per file, plans every stripe at `k` of its disks. A
//! planned block is binding only when its disk begins it; until then it can move to a disk of the
//! same stripe that would begin it sooner. The load of a slow disk therefore moves to the disks
//! that share stripes with it, their load to the next, and a scan gets the bandwidth of all disks.
//! Disks are the same [`DiskPolicy`](super::declustering::disk::DiskPolicy) as for mirrors, with
//! the same messages, in which the number of a block is that of its stripe. They serve readers in
//! the order [`Proportional`](super::declustering::Proportional) to what is planned there.
//!
//! [`choose_disks`] places stripes that are written, [`SingleReads`] decides how single blocks are
//! read, and [`RequestOrder`] and [`grant`] order transfers between many clients and servers;
//! [`WaitingClients`] applies them at a server. [`stripe_owner`] deals the stripes of a session to
//! its writers.

mod choice;
mod late_placement;
pub mod reader;
mod request_order;
mod single_read;
mod stripe_owner;

pub use choice::StripeChoice;
pub use late_placement::{StripeDisk, TooFewDisks, choose_disks};
pub use request_order::{GrantRequest, RequestOrder, WaitingClients, grant};
pub use single_read::{SingleRead, SingleReads};
pub use stripe_owner::stripe_owner;
