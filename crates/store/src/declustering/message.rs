//! The messages between readers and disks of different processes, and their encoding.

use euphrates_policy::declustering::{Progress, ToDisk, ToReader};

/// A message about a copy of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub segment: usize,
    pub copy: usize,
    pub content: Content,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// To a disk: a reader begins this segment.
    Join,
    /// To a disk: a message of the segment's policy.
    ToDisk(ToDisk),
    /// To a disk: the reader has finished, or is gone.
    Gone,
    /// To a disk: a block has arrived.
    Got,
    /// To a reader: a message of the disk's policy.
    ToReader(ToReader),
    /// To a reader: a block, whose bytes are the body.
    Read { block: u32 },
    /// To a reader: a block cannot be used.
    Refused { block: u32, is_damaged: bool, what: String },
    /// To a reader: the copy does not exist.
    Lost { what: String },
    /// To a reader: this endpoint has ended, and sends nothing more.
    GaveUp,
}

/// Every message has these fields; those that its content does not need are 0.
#[derive(Default)]
struct Fields<'a> {
    kind: u8,
    block: u32,
    bytes: u64,
    flag: bool,
    progress: Progress,
    text: &'a str,
}

impl Message {
    /// Encodes the message; a block's bytes are not part of it.
    pub fn write(&self) -> Vec<u8> {
        let Fields { kind, block, bytes, flag, progress, text } = self.content.fields();
        let mut out = Vec::with_capacity(48 + text.len());
        out.push(kind);
        out.push(u8::from(flag));
        out.extend((self.segment as u32).to_le_bytes());
        out.extend((self.copy as u32).to_le_bytes());
        out.extend(block.to_le_bytes());
        for number in [bytes, progress.left_bytes, progress.open_bytes, progress.seen_bytes] {
            out.extend(number.to_le_bytes());
        }
        out.extend(text.as_bytes());
        out
    }

    /// Decodes a message; `None` if the bytes are malformed.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let (&[kind, flag], rest) = bytes.split_first_chunk()?;
        let ([segment, copy, block], rest) = small(rest)?;
        let ([bytes, left_bytes, open_bytes, seen_bytes], rest) = large(rest)?;
        let progress = Progress { left_bytes, open_bytes, seen_bytes };
        let text = std::str::from_utf8(rest).ok()?;
        let content = Content::of(&Fields { kind, block, bytes, flag: flag == 1, progress, text })?;
        Some(Message { segment: segment as usize, copy: copy as usize, content })
    }
}

impl Content {
    fn fields(&self) -> Fields<'_> {
        let none = Fields::default();
        match self {
            Content::Join => Fields { kind: 0, ..none },
            Content::ToDisk(ToDisk::Claim { block, bytes, again, progress }) => {
                let (block, bytes, flag, progress) = (*block, *bytes, *again, *progress);
                Fields { kind: 1, block, bytes, flag, progress, ..none }
            }
            Content::ToDisk(ToDisk::Withdraw { block }) => {
                Fields { kind: 2, block: *block, ..none }
            }
            Content::ToDisk(ToDisk::Cancel { block }) => Fields { kind: 3, block: *block, ..none },
            Content::ToDisk(ToDisk::Progress(progress)) => {
                Fields { kind: 4, progress: *progress, ..none }
            }
            Content::Gone => Fields { kind: 5, ..none },
            Content::ToReader(ToReader::Begun { block, again, waiting }) => {
                let (block, flag, bytes) = (*block, *again, u64::from(*waiting));
                Fields { kind: 6, block, flag, bytes, ..none }
            }
            Content::ToReader(ToReader::Returned { block }) => {
                Fields { kind: 7, block: *block, ..none }
            }
            Content::ToReader(ToReader::Idle) => Fields { kind: 8, ..none },
            Content::Read { block } => Fields { kind: 9, block: *block, ..none },
            Content::Refused { block, is_damaged, what } => {
                Fields { kind: 10, block: *block, flag: *is_damaged, text: what, ..none }
            }
            Content::Lost { what } => Fields { kind: 11, text: what, ..none },
            Content::GaveUp => Fields { kind: 12, ..none },
            Content::Got => Fields { kind: 13, ..none },
        }
    }

    fn of(fields: &Fields<'_>) -> Option<Content> {
        let &Fields { kind, block, bytes, flag, progress, text } = fields;
        Some(match kind {
            0 => Content::Join,
            1 => Content::ToDisk(ToDisk::Claim { block, bytes, again: flag, progress }),
            2 => Content::ToDisk(ToDisk::Withdraw { block }),
            3 => Content::ToDisk(ToDisk::Cancel { block }),
            4 => Content::ToDisk(ToDisk::Progress(progress)),
            5 => Content::Gone,
            6 => {
                let waiting = u32::try_from(bytes).ok()?;
                Content::ToReader(ToReader::Begun { block, again: flag, waiting })
            }
            7 => Content::ToReader(ToReader::Returned { block }),
            8 => Content::ToReader(ToReader::Idle),
            9 => Content::Read { block },
            10 => Content::Refused { block, is_damaged: flag, what: text.into() },
            11 => Content::Lost { what: text.into() },
            12 => Content::GaveUp,
            13 => Content::Got,
            _ => return None,
        })
    }
}

fn small(mut bytes: &[u8]) -> Option<([u32; 3], &[u8])> {
    let mut numbers = [0; 3];
    for number in &mut numbers {
        let (first, rest) = bytes.split_first_chunk()?;
        (*number, bytes) = (u32::from_le_bytes(*first), rest);
    }
    Some((numbers, bytes))
}

fn large(mut bytes: &[u8]) -> Option<([u64; 4], &[u8])> {
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let (first, rest) = bytes.split_first_chunk()?;
        (*number, bytes) = (u64::from_le_bytes(*first), rest);
    }
    Some((numbers, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_decode_as_encoded() {
        let progress = Progress { left_bytes: 1, open_bytes: 2, seen_bytes: 3 };
        let words = [
            Content::Join,
            Content::ToDisk(ToDisk::Claim { block: 4, bytes: 5 << 40, again: true, progress }),
            Content::ToDisk(ToDisk::Withdraw { block: 6 }),
            Content::ToDisk(ToDisk::Cancel { block: 7 }),
            Content::ToDisk(ToDisk::Progress(progress)),
            Content::Gone,
            Content::ToReader(ToReader::Begun { block: 8, again: false, waiting: 9 }),
            Content::ToReader(ToReader::Returned { block: 10 }),
            Content::ToReader(ToReader::Idle),
            Content::Read { block: 11 },
            Content::Refused { block: 12, is_damaged: true, what: "torn".into() },
            Content::Lost { what: "gone".into() },
            Content::GaveUp,
            Content::Got,
        ];
        for content in words {
            let message = Message { segment: 13, copy: 1, content };
            let bytes = message.write();
            assert_eq!(Message::read(&bytes), Some(message));
            assert!((0..46).all(|short| Message::read(&bytes[..short]).is_none()));
        }
        assert_eq!(Message::read(&[14; 60]), None);
    }
}
