//! Validates the Arrow schema that writers embed in the footer, before the `parquet` crate decodes
//! it, which panics at a type it does not know.

use arrow::ipc::root_as_message;
use euphrates_flow::Result;
use parquet::file::metadata::ParquetMetaData;

use crate::arrow_ipc::validation::decoded_schema;

/// The schema's key in the footer; its value is an Arrow IPC message in base 64.
const KEY: &str = "ARROW:schema";

/// Fails if the schema has a type that Arrow lacks. Bytes that are no schema are left to the crate.
pub fn check(metadata: &ParquetMetaData) -> Result<()> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let pair = pairs.into_iter().flatten().find(|pair| pair.key == KEY);
    let Some(bytes) = pair.and_then(|pair| from_base64(pair.value.as_ref()?)) else {
        return Ok(());
    };
    // The continuation marker and the length may be absent.
    let message = bytes.strip_prefix(&[0xff; 4]).and_then(|rest| rest.get(4..)).unwrap_or(&bytes);
    match root_as_message(message).ok().and_then(|message| message.header_as_schema()) {
        Some(schema) => decoded_schema(schema).map(drop),
        None => Ok(()),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_decodes_with_and_without_padding() {
        for (text, expected) in [("", ""), ("QQ==", "A"), ("QUI=", "AB"), ("QUJD", "ABC")] {
            assert_eq!(from_base64(text).unwrap(), expected.as_bytes());
        }
        assert_eq!(from_base64("++//").unwrap(), [0xfb, 0xef, 0xff]);
        assert_eq!(from_base64("A B"), None);
    }
}
