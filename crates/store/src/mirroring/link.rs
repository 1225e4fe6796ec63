//! Sends messages about mirrors to the other processes that write the collection.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_device::disk::Owners;
use euphrates_flow::{Cancel, Error};

use super::message::{self, MirrorMessage};

/// Sends messages to the processes that own the disks.
#[derive(Default)]
pub(super) struct OwnerLink {
    pub owners: Owners,
    pub cancel: Arc<Cancel>,
}

impl OwnerLink {
    /// Sends a message about the mirror of this number.
    pub fn send(&self, process: usize, number: u32, message: &MirrorMessage, body: Vec<Buffer>) {
        self.owners.exchange().send(process, &message::write(number, message), body);
    }
}

pub(super) fn malformed() -> Error {
    Error::corrupt("a malformed message from a writer of the collection")
}
