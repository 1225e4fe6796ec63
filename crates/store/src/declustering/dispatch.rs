//! Dispatches the messages of other processes that read the collection to the disks and readers of
//! this one, in the order of sending.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};

use super::disk::{BlockRefused, DiskMessage};
use super::message::{CopyContent, CopyMessage};
use super::shared::Shared;

impl Shared {
    /// Handles a message of another process. A malformed one is an error.
    pub fn on_message(self: &Arc<Self>, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        let message = CopyMessage::read(bytes).ok_or_else(malformed)?;
        let part = self.parts.get(message.segment).ok_or_else(malformed)?;
        if !part.expects(process, &message, &self.among) {
            return Err(malformed());
        }
        let CopyMessage { segment, copy, content } = message;
        let (key, of) = ((process, segment, copy), (segment, copy));
        match content {
            CopyContent::Join => {
                let joined = match &part.copies[copy] {
                    Some(own) => self.serving.join(&self.among, process, of, (own, self.mirrors)),
                    None => Err(Error::corrupt("it cannot be opened")),
                };
                if let Err(error) = joined {
                    let content = CopyContent::Lost { what: error.message().to_string() };
                    self.among.send(process, of, content, vec![]);
                }
            }
            CopyContent::ToDisk(message) => {
                self.serving.post(key, |reader| DiskMessage::FromReader { reader, message });
            }
            CopyContent::Got => self.serving.post(key, |reader| DiskMessage::Received { reader }),
            CopyContent::Gone => self.serving.leave(key),
            CopyContent::ToReader(message) => self.on_disk_message(of, message),
            CopyContent::Read { block } => {
                // Bytes that were good at the disk may have changed in flight.
                let checked = part.check(block, body);
                let refused = |error: Error| BlockRefused {
                    what: error.message().to_string(),
                    is_damaged: true,
                };
                self.on_read(of, block, checked.map(|()| body.clone()).map_err(refused));
                self.among.send(process, of, CopyContent::Got, vec![]);
            }
            CopyContent::Refused { block, is_damaged, what } => {
                self.on_read(of, block, Err(BlockRefused { what, is_damaged }));
            }
            CopyContent::Lost { what } => self.on_lost(of, what),
            CopyContent::GaveUp => self.give_up(),
        }
        Ok(())
    }
}

fn malformed() -> Error {
    Error::corrupt("a malformed message from a reader of the collection")
}
