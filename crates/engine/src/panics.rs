//! Turns panics into errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use euphrates_flow::{Error, Result};

/// Runs a function; a panic in it becomes an error.
pub(crate) fn caught(run: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(Error::failed(format!("panicked: {}", panic_text(panic.as_ref())))
            .remedy("this is a bug in the module; please report it with the flow"))
    })
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
