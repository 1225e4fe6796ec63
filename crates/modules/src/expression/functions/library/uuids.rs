//! UUIDs as text: what `cast(… as uuid)` makes of text, and of 16 bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use uuid::Uuid;

use super::row_functions::ArgumentKind::Bytes;
use super::row_functions::{Computed, ResultKind, RowFunction, each, wrong};

pub(super) const FUNCTIONS: [RowFunction; 2] = [
    of_one(&["to_uuid"], |args| {
        uuids(args, |bytes| {
            let shown = || String::from_utf8_lossy(bytes).into_owned();
            uuid(bytes)
                .map_or_else(|| wrong(format!("'{}' is no UUID", shown())), |id| Ok(Some(id)))
        })
    }),
    of_one(&["try_to_uuid"], |args| uuids(args, |bytes| Ok(uuid(bytes)))),
];

const fn of_one(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Bytes], optional: 0, returns: ResultKind::Text, compute }
}

fn uuids(args: &[ArrayRef], of: impl Fn(&[u8]) -> Computed<Option<String>>) -> Computed<ArrayRef> {
    let bytes = args[0].as_binary::<i32>();
    Ok(Arc::new(StringArray::from(each(args, |row| of(bytes.value(row)))?)))
}

/// The text of a UUID in lower case with hyphens; `None` if it is neither 32 digits, with hyphens
/// anywhere and braces around, nor 16 bytes.
fn uuid(bytes: &[u8]) -> Option<String> {
    let found = Uuid::from_slice(bytes).or_else(|_| {
        let braced = bytes.strip_prefix(b"{").and_then(|bytes| bytes.strip_suffix(b"}"));
        let digits = braced.unwrap_or(bytes).iter().copied().filter(|byte| *byte != b'-');
        Uuid::try_parse_ascii(&digits.collect::<Vec<u8>>())
    });
    found.ok().map(|id| id.hyphenated().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_with_and_without_hyphens_and_braces() {
        let wanted = Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned());
        for text in [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}",
        ] {
            assert_eq!(uuid(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(uuid(&[0xff; 16]), Some("ffffffff-ffff-ffff-ffff-ffffffffffff".into()));
        for text in ["", "a0eebc99", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", &"g".repeat(32)] {
            assert_eq!(uuid(text.as_bytes()), None, "{text}");
        }
    }
}
