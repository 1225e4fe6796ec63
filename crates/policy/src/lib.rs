//! Every decision Euphrates makes, and nothing else.
//!
//! Each policy is a plain struct: facts come in through `on_*`, decisions go out through `pick`,
//! `admit` and the like; time and randomness are arguments, and `check` asserts the invariants.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod aggregate;
pub mod bottleneck;
pub mod change_points;
pub mod commit;
pub mod dealing;
pub mod declustering;
pub mod device;
pub mod distributed;
pub mod episodes;
pub mod failure_detector;
pub mod health;
pub mod ideal;
pub mod join;
pub mod memory;
pub mod parts;
mod pipeline;
pub mod placement;
pub mod queue;
pub mod quota;
pub mod reach;
pub mod recovery;
pub mod restarts;
pub mod runs;
pub mod sampling;
pub mod sort;
pub mod speed;
pub mod stall;
pub mod static_division;
pub mod straggler_throttle;
pub mod throttle;
pub mod units;
pub mod window;
