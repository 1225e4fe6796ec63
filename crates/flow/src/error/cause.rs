//! Causes of failures that another attempt at the flow may avoid.

use serde::{Deserialize, Serialize};

/// A cause of failure that another attempt may avoid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The connection between two processes of the flow failed or could not be made.
    Link {
        /// The names of the processes.
        ends: [String; 2],
        /// Whether no connection could be made. A damaged frame or a reset connection does not
        /// mean that the next connection fails.
        #[serde(rename = "is_parted")]
        is_unreachable: bool,
    },
    /// The process that ran a module's user code crashed.
    Crash {
        /// The module, and the part of its input if every attempt has the same parts.
        unit: String,
    },
}

impl Cause {
    /// A failed connection between two processes.
    ///
    /// ```
    /// use euphrates_flow::{Cause, Error};
    ///
    /// let parted = Cause::link("w0", "w1", true);
    /// let error = Error::failed("no connection").because(parted.clone());
    /// assert_eq!(error.cause(), Some(&parted), "another attempt may avoid it");
    /// assert_eq!(error.for_good().cause(), None);
    /// ```
    pub fn link(one: &str, other: &str, is_unreachable: bool) -> Cause {
        Cause::Link { ends: [one.to_string(), other.to_string()], is_unreachable }
    }
}
