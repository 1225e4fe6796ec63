//! Diagnosis of a flow: bottlenecks, slow components, ideal time, the cost of static division.

pub mod bottleneck;
pub mod change_points;
pub mod episodes;
pub mod ideal;
mod pipeline;
pub mod speed;
pub mod static_division;
pub mod straggler_detector;
