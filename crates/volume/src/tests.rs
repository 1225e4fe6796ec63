//! Volumes against a model: random operations, crashes between any two bytes, lost disks.

mod disks;
mod model;
mod replay;
