//! The process that owns an object. A forked child has copies of its parent's memory: locks that no
//! thread will release, connections that the parent uses, files that the parent is about to commit.
//! The child must not touch any of them.

mod per_process;
pub mod sync;

use crate::error::{Error, Result};
pub use per_process::PerProcess;

/// The process that created an object.
///
/// ```
/// use euphrates_flow::Owner;
///
/// let owner = Owner::here();
/// assert!(owner.is_here() && owner.check("the cluster").is_ok(), "not in a forked child");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u32);

impl Default for Owner {
    fn default() -> Owner {
        Owner::here()
    }
}

impl Owner {
    /// The owner that is this process.
    pub fn here() -> Owner {
        Owner(std::process::id())
    }

    /// Whether this process is the owner, and not a forked child of it.
    pub fn is_here(self) -> bool {
        self == Owner::here()
    }

    /// Fails in a forked child. `what` names the object in the error.
    pub fn check(self, what: &str) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let message =
            format!("{what} belongs to process {}, and this process is a fork of it", self.0);
        Err(Error::usage(message).remedy(
            "use it in the process that created it, or create another one here; with \
             `multiprocessing`, use the start method \"spawn\"",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn forked_process_is_refused_with_remedy() {
        Owner::here().check("the cluster").unwrap();
        let other = Owner(std::process::id() + 1);
        assert!(!other.is_here());
        let error = other.check("the cluster").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("a fork"), "{error}");
        assert!(error.advice().unwrap().contains("spawn"), "{error}");
    }
}
