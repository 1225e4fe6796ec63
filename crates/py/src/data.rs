//! Rows and schemas in Python: classes, the Arrow PyCapsule interface, and conversions.

pub mod buffers;
pub mod capsules;
pub mod classes;
mod from_python;
pub mod import;
mod moments;
pub mod schemas;
pub mod striped;
pub mod striped_sessions;
pub mod striped_views;
pub mod tables;
mod to_python;
