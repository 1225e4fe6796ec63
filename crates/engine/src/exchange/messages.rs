//! Messages of an exchange, and their encoding: a kind, the number of the request, a value.

/// A message about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Asks for the batches of a request.
    Fetch { request: u64 },
    /// A batch of the answer.
    Batch { bytes: u64 },
    /// The last batch of the answer.
    Last { bytes: u64 },
    /// The end of an answer without batches.
    End,
    /// The answer has failed; the error follows.
    Failed,
    /// The requester has taken this much, so as much may be sent.
    Taken { bytes: u64 },
    /// The requester wants nothing more.
    Cancel,
    /// All other processes have answered: the requester waits for this one alone.
    Blocked,
    /// A message of the module, which follows.
    Module,
}

/// Encodes a message about the request with this number; `rest` follows it.
pub(super) fn encode(message: Message, number: u64, rest: &[u8]) -> Vec<u8> {
    let (kind, value) = match message {
        Message::Fetch { request } => (0_u8, request),
        Message::Batch { bytes } => (1, bytes),
        Message::End => (2, 0),
        Message::Failed => (3, 0),
        Message::Taken { bytes } => (4, bytes),
        Message::Cancel => (5, 0),
        Message::Module => (6, 0),
        Message::Blocked => (7, 0),
        Message::Last { bytes } => (8, bytes),
    };
    let mut out = Vec::with_capacity(17 + rest.len());
    out.push(kind);
    out.extend(number.to_le_bytes());
    out.extend(value.to_le_bytes());
    out.extend_from_slice(rest);
    out
}

/// Decodes a message, the number of its request, and what follows; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<(Message, u64, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let value = u64::from_le_bytes(*value);
    let message = match kind {
        0 => Message::Fetch { request: value },
        1 => Message::Batch { bytes: value },
        2 => Message::End,
        3 => Message::Failed,
        4 => Message::Taken { bytes: value },
        5 => Message::Cancel,
        6 => Message::Module,
        7 => Message::Blocked,
        8 => Message::Last { bytes: value },
        _ => return None,
    };
    Some((message, u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use euphrates_flow::Error;

    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let messages = [
            Message::Fetch { request: 7 },
            Message::Batch { bytes: 8 },
            Message::End,
            Message::Failed,
            Message::Taken { bytes: 9 },
            Message::Cancel,
            Message::Module,
            Message::Blocked,
            Message::Last { bytes: 9 },
        ];
        for message in messages {
            let encoded = encode(message, 3, b"rest");
            assert_eq!(decode(&encoded), Some((message, 3, &b"rest"[..])));
        }
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[9; 17]), None);
    }

    #[test]
    fn errors_survive_encoding() {
        let error = Error::corrupt("torn").at("a run").remedy("write it again");
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&text).unwrap().to_string(), error.to_string());
    }
}
