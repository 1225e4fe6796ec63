//! The letters of an exchange.

/// A letter: what, and of which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Want {
        request: u64,
    },
    Batch {
        bytes: u64,
    },
    /// A batch behind which nothing comes.
    Last {
        bytes: u64,
    },
    End,
    Failed,
    Taken {
        bytes: u64,
    },
    Leave,
    /// All others have answered; you keep me waiting.
    Hurry,
    /// For the module, which alone can read what follows.
    Told,
}

/// A letter, as it travels.
pub(super) fn write(word: Word, number: u64, rest: &[u8]) -> Vec<u8> {
    let (kind, value) = match word {
        Word::Want { request } => (0_u8, request),
        Word::Batch { bytes } => (1, bytes),
        Word::End => (2, 0),
        Word::Failed => (3, 0),
        Word::Taken { bytes } => (4, bytes),
        Word::Leave => (5, 0),
        Word::Told => (6, 0),
        Word::Hurry => (7, 0),
        Word::Last { bytes } => (8, bytes),
    };
    let mut out = Vec::with_capacity(17 + rest.len());
    out.push(kind);
    out.extend(number.to_le_bytes());
    out.extend(value.to_le_bytes());
    out.extend_from_slice(rest);
    out
}

/// The letter that travelled; `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<(Word, u64, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let value = u64::from_le_bytes(*value);
    let word = match kind {
        0 => Word::Want { request: value },
        1 => Word::Batch { bytes: value },
        2 => Word::End,
        3 => Word::Failed,
        4 => Word::Taken { bytes: value },
        5 => Word::Leave,
        6 => Word::Told,
        7 => Word::Hurry,
        8 => Word::Last { bytes: value },
        _ => return None,
    };
    Some((word, u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use euphrates_flow::Error;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let words = [
            Word::Want { request: 7 },
            Word::Batch { bytes: 8 },
            Word::End,
            Word::Failed,
            Word::Taken { bytes: 9 },
            Word::Leave,
            Word::Told,
            Word::Hurry,
            Word::Last { bytes: 9 },
        ];
        for word in words {
            assert_eq!(read(&write(word, 3, b"rest")), Some((word, 3, &b"rest"[..])));
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[9; 17]), None);
    }

    #[test]
    fn an_error_is_told_in_words_that_both_ends_know() {
        let error = Error::corrupt("torn").at("a run").remedy("write it again");
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&text).unwrap().to_string(), error.to_string());
    }
}
