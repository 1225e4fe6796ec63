//! Modules that run Python.

mod class;
mod external_sql;
mod from_arrow;
mod map;
mod reference;

use euphrates_flow::ModuleSpec;

pub use class::MODULE as CLASS;
pub use external_sql::MODULE as EXTERNAL_SQL;
pub use map::MODULE as MAP;

/// All modules that run Python.
pub static MODULES: &[&ModuleSpec] = &[&CLASS, &from_arrow::MODULE, &MAP, &EXTERNAL_SQL];
