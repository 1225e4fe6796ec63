//! The loss of a worker that serves a file, as the cause of a failed flow.

use std::fmt;
use std::io;

use euphrates_flow::{Cause, Error};

/// The error of a request to another worker of the cluster: their connection has failed.
#[derive(Debug)]
pub struct LostLink {
    /// The names of both.
    pub ends: [String; 2],
    /// What has happened.
    pub message: String,
}

impl fmt::Display for LostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LostLink {}

/// The error of an operation on a file. If the worker that serves it is lost, the error says so to
/// whoever may begin the flow again.
pub(super) fn os_error(doing: &str, place: &std::path::Path, by: &io::Error) -> Error {
    let lost = by.get_ref().and_then(|inner| inner.downcast_ref::<LostLink>());
    match lost {
        Some(LostLink { ends: [one, other], message }) => {
            let error = Error::resource(format!("cannot {doing} {}: {message}", place.display()));
            error.because(Cause::link(one, other, false))
        }
        None => Error::os(doing, place, by),
    }
}
