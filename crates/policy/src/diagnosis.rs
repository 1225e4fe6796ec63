//! Performance analysis of a flow: bottlenecks, stragglers, ideal time, cost of static
//! partitioning.

pub mod bottleneck;
pub mod change_points;
pub mod episodes;
pub mod ideal;
mod pipeline;
pub mod speed;
pub mod static_division;
pub mod straggler_detector;
