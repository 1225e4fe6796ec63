//! The messages between readers and disks of different processes, and their encoding.

use euphrates_policy::declustering::{ReadProgress, ToDisk, ToReader};

/// A message about a copy of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyMessage {
    pub segment: usize,
    pub copy: usize,
    pub content: CopyContent,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyContent {
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
struct MessageFields<'a> {
    kind: u8,
    block: u32,
    bytes: u64,
    flag: bool,
    progress: ReadProgress,
    text: &'a str,
}

impl CopyMessage {
    /// Encodes the message; a block's bytes are not part of it.
    pub fn write(&self) -> Vec<u8> {
        let MessageFields { kind, block, bytes, flag, progress, text } = self.content.fields();
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
    pub fn read(bytes: &[u8]) -> Option<CopyMessage> {
        let (&[kind, flag], rest) = bytes.split_first_chunk()?;
        let ([segment, copy, block], rest) = small(rest)?;
        let ([bytes, left_bytes, open_bytes, seen_bytes], rest) = large(rest)?;
        let progress = ReadProgress { left_bytes, open_bytes, seen_bytes };
        let text = std::str::from_utf8(rest).ok()?;
        let content = CopyContent::of(&MessageFields {
            kind,
            block,
            bytes,
            flag: flag == 1,
            progress,
            text,
        })?;
        Some(CopyMessage { segment: segment as usize, copy: copy as usize, content })
    }
}

impl CopyContent {
    fn fields(&self) -> MessageFields<'_> {
        let none = MessageFields::default();
        match self {
            CopyContent::Join => MessageFields { kind: 0, ..none },
            CopyContent::ToDisk(ToDisk::Claim {
                block,
                bytes,
                is_speculative: again,
                progress,
            }) => {
                let (block, bytes, flag, progress) = (*block, *bytes, *again, *progress);
                MessageFields { kind: 1, block, bytes, flag, progress, ..none }
            }
            CopyContent::ToDisk(ToDisk::Withdraw { block }) => {
                MessageFields { kind: 2, block: *block, ..none }
            }
            CopyContent::ToDisk(ToDisk::Cancel { block }) => {
                MessageFields { kind: 3, block: *block, ..none }
            }
            CopyContent::ToDisk(ToDisk::Progress(progress)) => {
                MessageFields { kind: 4, progress: *progress, ..none }
            }
            CopyContent::Gone => MessageFields { kind: 5, ..none },
            CopyContent::ToReader(ToReader::Begun { block, is_speculative: again, waiting }) => {
                let (block, flag, bytes) = (*block, *again, u64::from(*waiting));
                MessageFields { kind: 6, block, flag, bytes, ..none }
            }
            CopyContent::ToReader(ToReader::Returned { block }) => {
                MessageFields { kind: 7, block: *block, ..none }
            }
            CopyContent::ToReader(ToReader::Idle) => MessageFields { kind: 8, ..none },
            CopyContent::Read { block } => MessageFields { kind: 9, block: *block, ..none },
            CopyContent::Refused { block, is_damaged, what } => {
                MessageFields { kind: 10, block: *block, flag: *is_damaged, text: what, ..none }
            }
            CopyContent::Lost { what } => MessageFields { kind: 11, text: what, ..none },
            CopyContent::GaveUp => MessageFields { kind: 12, ..none },
            CopyContent::Got => MessageFields { kind: 13, ..none },
        }
    }

    fn of(fields: &MessageFields<'_>) -> Option<CopyContent> {
        let &MessageFields { kind, block, bytes, flag, progress, text } = fields;
        Some(match kind {
            0 => CopyContent::Join,
            1 => {
                CopyContent::ToDisk(ToDisk::Claim { block, bytes, is_speculative: flag, progress })
            }
            2 => CopyContent::ToDisk(ToDisk::Withdraw { block }),
            3 => CopyContent::ToDisk(ToDisk::Cancel { block }),
            4 => CopyContent::ToDisk(ToDisk::Progress(progress)),
            5 => CopyContent::Gone,
            6 => {
                let waiting = u32::try_from(bytes).ok()?;
                CopyContent::ToReader(ToReader::Begun { block, is_speculative: flag, waiting })
            }
            7 => CopyContent::ToReader(ToReader::Returned { block }),
            8 => CopyContent::ToReader(ToReader::Idle),
            9 => CopyContent::Read { block },
            10 => CopyContent::Refused { block, is_damaged: flag, what: text.into() },
            11 => CopyContent::Lost { what: text.into() },
            12 => CopyContent::GaveUp,
            13 => CopyContent::Got,
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
        let progress = ReadProgress { left_bytes: 1, open_bytes: 2, seen_bytes: 3 };
        let words = [
            CopyContent::Join,
            CopyContent::ToDisk(ToDisk::Claim {
                block: 4,
                bytes: 5 << 40,
                is_speculative: true,
                progress,
            }),
            CopyContent::ToDisk(ToDisk::Withdraw { block: 6 }),
            CopyContent::ToDisk(ToDisk::Cancel { block: 7 }),
            CopyContent::ToDisk(ToDisk::Progress(progress)),
            CopyContent::Gone,
            CopyContent::ToReader(ToReader::Begun { block: 8, is_speculative: false, waiting: 9 }),
            CopyContent::ToReader(ToReader::Returned { block: 10 }),
            CopyContent::ToReader(ToReader::Idle),
            CopyContent::Read { block: 11 },
            CopyContent::Refused { block: 12, is_damaged: true, what: "torn".into() },
            CopyContent::Lost { what: "gone".into() },
            CopyContent::GaveUp,
            CopyContent::Got,
        ];
        for content in words {
            let message = CopyMessage { segment: 13, copy: 1, content };
            let bytes = message.write();
            assert_eq!(CopyMessage::read(&bytes), Some(message));
            assert!((0..46).all(|short| CopyMessage::read(&bytes[..short]).is_none()));
        }
        assert_eq!(CopyMessage::read(&[14; 60]), None);
    }
}
