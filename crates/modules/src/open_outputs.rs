//! Outputs of a module whose consumers may have had enough one by one.

use euphrates_flow::{Error, Kind, Result};

/// The outputs that still have a consumer. A closed one is left out for good, and what it would
/// have received is dropped; when none is left, the module is closed.
pub(crate) struct OpenOutputs(Vec<usize>);

impl OpenOutputs {
    /// All of a module with this number of outputs.
    pub(crate) fn all(outputs: usize) -> OpenOutputs {
        OpenOutputs((0..outputs).collect())
    }

    /// Calls `act` for every open output. Fails with its first error, or if none is open.
    pub(crate) fn each(&mut self, act: impl FnMut(usize) -> Result<()>) -> Result<()> {
        self.each_of(|_| true, act)
    }

    /// Calls `act` for the open outputs that are `wanted`, like `each`.
    pub(crate) fn each_of(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        mut act: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut failure = None;
        self.0.retain(|output| {
            !wanted(*output)
                || match act(*output) {
                    Ok(()) => true,
                    Err(error) if error.kind() == Kind::Closed => false,
                    Err(error) => {
                        failure.get_or_insert(error);
                        true
                    }
                }
        });
        match failure {
            Some(error) => Err(error),
            None if self.0.is_empty() => Err(Error::closed()),
            None => Ok(()),
        }
    }
}
