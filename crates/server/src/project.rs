//! The project: its folder, the files that pages have open, and its scripts.

pub mod folder;
pub mod script_modules;
pub mod trust;
pub mod watched_files;
