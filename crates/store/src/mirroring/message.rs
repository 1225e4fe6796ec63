//! What writers of different processes tell each other, as bytes.

use euphrates_flow::Error;
use serde::{Deserialize, Serialize};

/// Of one mirror.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// Make a file of this name on this disk.
    Make { disk: String, file: String },
    /// Write the body there, if this is its CRC-32C.
    Write { offset: u64, crc: u32 },
    /// That was all; the body is the table of contents.
    Finish { bytes: u64, crc: u32 },
    /// It is not wanted any more.
    Leave,
    /// Of no mirror: nothing more comes from here.
    Over,
    /// So many bytes have been written.
    Written { bytes: u64 },
    /// All of it is on the disk, and will be at this place, from the disk's folder on.
    Kept { place: String },
    /// Nothing will come of it.
    Failed { error: Error },
}

/// As bytes, with the number of the mirror.
pub(super) fn write(number: u32, word: &Word) -> Vec<u8> {
    serde_json::to_vec(&(number, word)).expect("texts and numbers")
}

/// From bytes, if they are a word.
pub(super) fn read(bytes: &[u8]) -> Option<(u32, Word)> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let words = [
            Word::Make { disk: "a b".into(), file: "é".into() },
            Word::Write { offset: u64::MAX, crc: u32::MAX },
            Word::Finish { bytes: 1, crc: 3 },
            Word::Leave,
            Word::Over,
            Word::Written { bytes: 2 },
            Word::Kept { place: "numbers/@run/1.arrow".into() },
            Word::Failed { error: Error::resource("full").remedy("make room") },
        ];
        for word in words {
            let bytes = write(7, &word);
            let (number, read_) = read(&bytes).expect("it is whole");
            assert_eq!((number, format!("{read_:?}")), (7, format!("{word:?}")));
            assert!((0..bytes.len()).all(|short| read(&bytes[..short]).is_none()));
        }
    }
}
