//! UUIDs as text: what `cast(… as uuid)` makes of text, and of 16 bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use uuid::Uuid;

use super::row_functions::ArgumentKind::Any;
use super::row_functions::{Computed, ResultKind, RowFunction, each, text, wrong};

pub(super) const FUNCTIONS: [RowFunction; 2] = [
    of_one(&["to_uuid"], |args| {
        uuids(args, |found, shown| {
            found.map_or_else(|| wrong(format!("{} is no UUID", shown())), |id| Ok(Some(id)))
        })
    }),
    of_one(&["try_to_uuid"], |args| uuids(args, |found, _| Ok(found))),
];

const fn of_one(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Any], optional: 0, returns: ResultKind::Text, compute }
}

/// What is made of the text of each UUID, `None` where a value is none, given how the value is
/// shown.
fn uuids(
    args: &[ArrayRef],
    of: impl Fn(Option<String>, &dyn Fn() -> String) -> Computed<Option<String>>,
) -> Computed<ArrayRef> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    let found = match args[0].data_type() {
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
            let values = cast(&args[0], &Binary)?;
            let values = values.as_binary::<i32>();
            each(args, |row| {
                let bytes = values.value(row);
                of(of_bytes(bytes), &|| format!("a value of {} bytes", bytes.len()))
            })?
        }
        _ => {
            let values = [cast(&args[0], &DataType::Utf8)?];
            let value = |row| text(&values, 0).value(row);
            each(args, |row| of(of_text(value(row)), &|| format!("'{}'", value(row))))?
        }
    };
    Ok(Arc::new(StringArray::from(found)))
}

fn of_bytes(bytes: &[u8]) -> Option<String> {
    Some(Uuid::from_slice(bytes).ok()?.hyphenated().to_string())
}

/// The UUID in lower case with hyphens; `None` if the text has not 32 digits, with hyphens anywhere
/// and braces around.
fn of_text(text: &str) -> Option<String> {
    let braced = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let digits: String = braced.unwrap_or(text).chars().filter(|digit| *digit != '-').collect();
    let is_bare = digits.len() == 32;
    Some(Uuid::try_parse(&digits).ok().filter(|_| is_bare)?.hyphenated().to_string())
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
            assert_eq!(of_text(text), wanted, "{text}");
        }
        assert_eq!(of_bytes(&[0xff; 16]), Some("ffffffff-ffff-ffff-ffff-ffffffffffff".into()));
        assert_eq!(of_bytes(&[0xff; 15]), None);
        let digits = "g".repeat(32);
        for text in
            ["", "a0eebc99", "of 16 characters", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", &digits]
        {
            assert_eq!(of_text(text), None, "{text}");
        }
    }
}
