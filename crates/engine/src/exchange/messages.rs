//! Messages of an exchange, and their encoding: a kind, the number of the request, a value.

/// A message about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestMessage {
    /// Asks for what the module calls by this number, a partition for example.
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
    /// The requester has cancelled the request.
    Cancel,
    /// The answering process is overdue: the requester has waited for it alone, twice as long as
    /// all others took, and it has sent less than they did.
    Overdue,
    /// A message of the module, which follows.
    Module,
}

/// Encodes a message about the request with this number; `rest` follows it.
pub(super) fn encode(message: RequestMessage, number: u64, rest: &[u8]) -> Vec<u8> {
    let (kind, value) = match message {
        RequestMessage::Fetch { request } => (0_u8, request),
        RequestMessage::Batch { bytes } => (1, bytes),
        RequestMessage::End => (2, 0),
        RequestMessage::Failed => (3, 0),
        RequestMessage::Taken { bytes } => (4, bytes),
        RequestMessage::Cancel => (5, 0),
        RequestMessage::Module => (6, 0),
        RequestMessage::Overdue => (7, 0),
        RequestMessage::Last { bytes } => (8, bytes),
    };
    let mut out = Vec::with_capacity(17 + rest.len());
    out.push(kind);
    out.extend(number.to_le_bytes());
    out.extend(value.to_le_bytes());
    out.extend_from_slice(rest);
    out
}

/// Decodes a message, the number of its request, and what follows; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<(RequestMessage, u64, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let value = u64::from_le_bytes(*value);
    let message = match kind {
        0 => RequestMessage::Fetch { request: value },
        1 => RequestMessage::Batch { bytes: value },
        2 => RequestMessage::End,
        3 => RequestMessage::Failed,
        4 => RequestMessage::Taken { bytes: value },
        5 => RequestMessage::Cancel,
        6 => RequestMessage::Module,
        7 => RequestMessage::Overdue,
        8 => RequestMessage::Last { bytes: value },
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
            RequestMessage::Fetch { request: 7 },
            RequestMessage::Batch { bytes: 8 },
            RequestMessage::End,
            RequestMessage::Failed,
            RequestMessage::Taken { bytes: 9 },
            RequestMessage::Cancel,
            RequestMessage::Module,
            RequestMessage::Overdue,
            RequestMessage::Last { bytes: 9 },
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
