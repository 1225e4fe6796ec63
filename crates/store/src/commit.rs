//! Atomic publication of a flow's outputs: two-phase commit with presumed abort.
//!
//! *Prepare*: what is staged is synced, and the output's name reserved (`reserve.rs`), so that
//! everything that can refuse an output does so while nothing is visible. *Decide*: one record in
//! the home folder names all outputs and how each is published (`decision.rs`). *Publish*: file by
//! file, object by object, manifest by manifest; each step can be repeated. A process that finds
//! the record of a dead flow completes it, or without a record removes what was prepared
//! (`resolve.rs`). `policy::commit` decides which.
//!
//! A flow with one output needs no record: the step that publishes it decides.

pub mod decision;
mod prepared;
mod publication;
pub mod reservation;
pub mod reserve;
mod resolve;

pub use decision::{CommitDecision, DecidedOutput, is_decided};
pub use euphrates_device::durable::Durability;
pub use prepared::PreparedOutput;
pub use resolve::{
    Resolution, mark_published, out_of_reach, publish_decided, resolve, resolve_run,
};
