//! The server side of a module's exchange: answers requests of its instances in other processes.

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result};
use crate::setup::Batches;

/// Answers the processes that run instances of one module (see `Exchange` for the asking side).
/// Both sides have prepared the module by then.
pub trait ExchangeServer: Send + Sync {
    /// The schema of the batches that `serve` returns.
    fn schema(&self) -> SchemaRef;

    /// Answers a fetch request of another process.
    fn serve(&self, request: u64) -> Result<Batches> {
        Err(Error::failed(format!("this module does not answer request {request}")))
    }

    /// Receives a message from another process (see `Exchange::send`). Must not block, since it
    /// delays all messages from that process.
    fn on_message(&self, process: usize, message: &[u8], body: &Buffer) -> Result<()> {
        let _ = (message, body);
        Err(Error::corrupt(format!("process {process} sends a message that is not expected")))
    }
}
