//! Modules that run Python.

mod class;
mod from_arrow;
mod map;
mod reference;
mod sql;

use euphrates_flow::ModuleSpec;

pub use class::MODULE as CLASS;
pub use map::MODULE as MAP;
pub use sql::MODULE as SQL;

/// All modules that run Python.
pub static MODULES: &[&ModuleSpec] = &[&CLASS, &from_arrow::MODULE, &MAP, &SQL];
