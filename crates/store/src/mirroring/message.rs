//! The messages between writers of different processes, and their encoding.

use euphrates_flow::Error;
use serde::{Deserialize, Serialize};

/// A message about one mirror.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum MirrorMessage {
    /// Create a file of this name on this disk.
    Make { disk: String, file: String },
    /// Write the body at this offset, if this is its CRC-32C.
    Write { offset: u64, crc: u32 },
    /// Finish the file of this length; the body is the table of contents.
    Finish { bytes: u64, crc: u32 },
    /// Remove the file, which is not wanted any more.
    #[serde(rename = "Leave")]
    Discard,
    /// About no mirror: the sender sends nothing more.
    Over,
    /// This many bytes have been written.
    Written { bytes: u64 },
    /// The device has all of the file, whose final location, relative to the disk's folder, is
    /// this.
    Kept {
        #[serde(rename = "place")]
        path: String,
    },
    /// The mirror has failed.
    Failed { error: Error },
}

/// Encodes a message about the mirror of this number.
pub(super) fn write(number: u32, message: &MirrorMessage) -> Vec<u8> {
    serde_json::to_vec(&(number, message)).expect("texts and numbers")
}

/// Decodes a message; `None` if the bytes are malformed.
pub(super) fn read(bytes: &[u8]) -> Option<(u32, MirrorMessage)> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_decode_as_encoded() {
        let messages = [
            MirrorMessage::Make { disk: "a b".into(), file: "é".into() },
            MirrorMessage::Write { offset: u64::MAX, crc: u32::MAX },
            MirrorMessage::Finish { bytes: 1, crc: 3 },
            MirrorMessage::Discard,
            MirrorMessage::Over,
            MirrorMessage::Written { bytes: 2 },
            MirrorMessage::Kept { path: "numbers/@run/1.arrow".into() },
            MirrorMessage::Failed { error: Error::resource("full").remedy("make room") },
        ];
        for message in messages {
            let bytes = write(7, &message);
            let (number, read_) = read(&bytes).expect("it is whole");
            assert_eq!((number, format!("{read_:?}")), (7, format!("{message:?}")));
            assert!((0..bytes.len()).all(|short| read(&bytes[..short]).is_none()));
        }
    }
}
