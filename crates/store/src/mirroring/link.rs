//! The connection of one writer of a collection with the other processes that write it.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_device::disk::Owners;
use euphrates_flow::{Cancel, Error};

use super::message::{self, Message};

/// Sends messages to the processes that own the disks.
#[derive(Default)]
pub(super) struct Link {
    pub owners: Owners,
    pub cancel: Arc<Cancel>,
}

impl Link {
    /// Sends a message about the mirror of this number.
    pub fn send(&self, process: usize, number: u32, message: &Message, body: Vec<Buffer>) {
        self.owners.exchange().send(process, &message::write(number, message), body);
    }
}

pub(super) fn malformed() -> Error {
    Error::corrupt("a malformed message from a writer of the collection")
}
