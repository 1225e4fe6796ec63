//! Dispatches the messages of other processes that read the collection to the disks and readers of
//! this one, in the order of sending.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};

use super::disk::{DiskMessage, Refused};
use super::message::{Content, Message};
use super::shared::Shared;

impl Shared {
    /// Handles a message of another process. A malformed one is an error.
    pub fn on_message(self: &Arc<Self>, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        let message = Message::read(bytes).ok_or_else(malformed)?;
        let part = self.parts.get(message.segment).ok_or_else(malformed)?;
        if !part.expects(process, &message, &self.among) {
            return Err(malformed());
        }
        let Message { segment, copy, content } = message;
        let (key, place) = ((process, segment, copy), (segment, copy));
        match content {
            Content::Join => {
                let joined = match &part.copies[copy] {
                    Some(own) => {
                        self.serving.join(&self.among, process, place, (own, self.mirrors))
                    }
                    None => Err(Error::corrupt("it cannot be opened")),
                };
                if let Err(error) = joined {
                    let content = Content::Lost { what: error.message().to_string() };
                    self.among.tell(process, place, content, vec![]);
                }
            }
            Content::ToDisk(message) => {
                self.serving.post(key, |reader| DiskMessage::FromReader { reader, message });
            }
            Content::Got => self.serving.post(key, |reader| DiskMessage::Received { reader }),
            Content::Gone => self.serving.leave(key),
            Content::ToReader(message) => self.on_disk_message(place, message),
            Content::Read { block } => {
                // Bytes that were good at the disk may have changed in flight.
                let checked = part.check(block, body);
                let refused =
                    |error: Error| Refused { what: error.message().to_string(), is_damaged: true };
                self.on_read(place, block, checked.map(|()| body.clone()).map_err(refused));
                self.among.tell(process, place, Content::Got, vec![]);
            }
            Content::Refused { block, is_damaged, what } => {
                self.on_read(place, block, Err(Refused { what, is_damaged }));
            }
            Content::Lost { what } => self.on_lost(place, what),
            Content::GaveUp => self.give_up(),
        }
        Ok(())
    }
}

fn malformed() -> Error {
    Error::corrupt("a malformed message from a reader of the collection")
}
