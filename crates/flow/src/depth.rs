//! Nesting limits of types, values and documents.
//!
//! Decoders, casts and printers recurse once per level, and a few hundred bytes of a hostile file
//! could overflow the stack of a thread. One limit, checked before anything recurses, holds for
//! every format, for documents and for tables handed over in memory.

use std::fmt::Display;

use arrow::datatypes::{DataType, Field, Schema};

use crate::byte_mask::{BLOCK_BYTES, byte_mask};
use crate::error::{Error, Result};

/// Maximum levels of a column: 1 for a number, 2 for a list of numbers. Arrow's readers refuse
/// types of more than 64 levels in C++ and 61 in Rust, so deeper ones could not be passed on.
pub const DEPTH_MAX: usize = 60;

/// The error for a value with more than `DEPTH_MAX` levels.
pub fn too_deep(what: impl Display) -> Error {
    Error::usage(format!("{what} is nested more than {DEPTH_MAX} levels deep"))
        .remedy("flatten it, or hold the inner levels as text")
}

/// Fails if a column's type has too many levels.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::depth::{DEPTH_MAX, check_schema};
///
/// let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
/// let deep = |levels| (1..levels).fold(DataType::Int64, |inner, _| list(inner));
/// let schema = |levels| Schema::new(vec![Field::new("n", deep(levels), true)]);
/// assert!(check_schema(&schema(DEPTH_MAX)).is_ok());
/// let error = check_schema(&schema(DEPTH_MAX + 1)).unwrap_err();
/// assert_eq!(error.message(), "column `n` is nested more than 60 levels deep");
/// ```
pub fn check_schema(schema: &Schema) -> Result<()> {
    schema.fields().iter().try_for_each(|field| check_field(field))
}

/// Fails if a type has too many levels; `field` names the column.
pub(crate) fn check_field(field: &Field) -> Result<()> {
    match is_too_deep(field.data_type()) {
        true => Err(too_deep(format!("column `{}`", field.name()))),
        false => Ok(()),
    }
}

/// Whether a type has too many levels. Does not recurse.
fn is_too_deep(data_type: &DataType) -> bool {
    let mut open = vec![(data_type, 1)];
    while let Some((data_type, level)) = open.pop() {
        if level > DEPTH_MAX {
            return true;
        }
        open.extend(children(data_type).into_iter().map(|child| (child, level + 1)));
    }
    false
}

/// Whether it holds of a type or of one nested in it.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field};
/// use euphrates_flow::depth::any_within;
///
/// let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
/// assert!(any_within(&list, &|inner| inner.is_floating()));
/// assert!(!any_within(&list, &|inner| inner.is_integer()));
/// ```
pub fn any_within(data_type: &DataType, holds: &dyn Fn(&DataType) -> bool) -> bool {
    let nested = || children(data_type).into_iter();
    holds(data_type) || nested().any(|child| any_within(child, holds))
}

fn children(data_type: &DataType) -> Vec<&DataType> {
    use DataType::*;
    match data_type {
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => vec![field.data_type()],
        Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        Dictionary(_, values) => vec![values],
        RunEndEncoded(_, values) => vec![values.data_type()],
        _ => vec![],
    }
}

/// Fails if a JSON text has too many levels of arrays and objects. The parser checks its validity.
///
/// ```
/// use euphrates_flow::depth::check_json;
///
/// assert!(check_json(br#"{"list": [1, "[[[["]}"#, "the flow").is_ok());
/// let error = check_json("[".repeat(61).as_bytes(), "the flow").unwrap_err();
/// assert_eq!(error.message(), "the flow is nested more than 60 levels deep");
/// ```
pub fn check_json(text: &[u8], what: &str) -> Result<()> {
    JsonDepth::default().check(text, what)
}

/// Nesting state of a JSON text that is scanned piece by piece.
///
/// ```
/// use euphrates_flow::depth::{DEPTH_MAX, JsonDepth};
///
/// let mut depth = JsonDepth::default();
/// for _ in 0..DEPTH_MAX {
///     depth.check(b"[", "the text")?;
/// }
/// depth.check(br#" "[[[" "#, "the text")?;
/// assert!(depth.check(b"[", "the text").is_err(), "the level is kept between pieces");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct JsonDepth {
    level: usize,
    in_string: bool,
    is_escaped: bool,
}

impl JsonDepth {
    /// Scans the next piece; fails if it exceeds the limit.
    pub fn check(&mut self, text: &[u8], what: &str) -> Result<()> {
        let (blocks, rest) = text.as_chunks();
        for block in blocks {
            let has_escape = self.is_escaped || byte_mask(block, |byte| byte == b'\\') > 0;
            match has_escape {
                true => self.check_bytes(block, what)?,
                false => self.check_block(block, what)?,
            }
        }
        self.check_bytes(rest, what)
    }

    /// Scans a block without escapes.
    fn check_block(&mut self, block: &[u8; BLOCK_BYTES], what: &str) -> Result<()> {
        // A byte is in a string after an odd number of quotes: the prefix sums, modulo two.
        let mut in_strings = byte_mask(block, |byte| byte == b'"');
        for bits in [1, 2, 4, 8, 16, 32] {
            in_strings ^= in_strings << bits;
        }
        if self.in_string {
            in_strings = !in_strings;
        }
        self.in_string = in_strings >> (BLOCK_BYTES - 1) == 1;
        // Square brackets differ from curly ones in one bit.
        let is_bracket = |byte: u8| (byte | 0x20 == b'{') | (byte | 0x20 == b'}');
        let mut brackets = byte_mask(block, is_bracket) & !in_strings;
        while brackets > 0 {
            self.pass_bracket(block[brackets.trailing_zeros() as usize], what)?;
            brackets &= brackets - 1;
        }
        Ok(())
    }

    fn pass_bracket(&mut self, byte: u8, what: &str) -> Result<()> {
        match byte {
            b'[' | b'{' if self.level == DEPTH_MAX => return Err(too_deep(what)),
            b'[' | b'{' => self.level += 1,
            _ => self.level = self.level.saturating_sub(1),
        }
        Ok(())
    }

    fn check_bytes(&mut self, mut text: &[u8], what: &str) -> Result<()> {
        while !text.is_empty() {
            text = if self.in_string { self.string(text) } else { self.outside(text, what)? };
        }
        Ok(())
    }

    /// Skips to the end of the string or of the text, and returns the rest.
    fn string<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        if std::mem::take(&mut self.is_escaped) {
            return &text[1..];
        }
        let Some(at) = text.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
            return &[];
        };
        match text[at] {
            b'"' => self.in_string = false,
            _ => self.is_escaped = true,
        }
        &text[at + 1..]
    }

    /// Skips to the next string or to the end of the text, and returns the rest.
    fn outside<'a>(&mut self, text: &'a [u8], what: &str) -> Result<&'a [u8]> {
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'"' => {
                    self.in_string = true;
                    return Ok(&text[at + 1..]);
                }
                b'[' | b'{' | b']' | b'}' => self.pass_bracket(*byte, what)?,
                _ => {}
            }
        }
        Ok(&[])
    }
}

/// Fails if a text has too many levels of brackets of any kind, as in `list<list<int64>>`.
///
/// ```
/// use euphrates_flow::depth::check_brackets;
///
/// assert!(check_brackets("list<list<int64>>", "the type").is_ok());
/// assert!(check_brackets(&"list<".repeat(100), "the type").is_err());
/// ```
pub fn check_brackets(text: &str, what: &str) -> Result<()> {
    let mut level = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => level += 1,
            b')' | b']' | b'}' | b'>' => level = level.saturating_sub(1),
            _ => {}
        }
        if level >= DEPTH_MAX {
            return Err(too_deep(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn lists(levels: usize) -> Schema {
        let inner = Field::new("item", DataType::Int64, true);
        let nested = (1..levels)
            .fold(inner, |field, _| Field::new("item", DataType::List(Arc::new(field)), true));
        Schema::new(vec![nested.with_name("a")])
    }

    #[test]
    fn type_beyond_depth_limit_is_refused_by_column() {
        check_schema(&lists(DEPTH_MAX)).unwrap();
        let error = check_schema(&lists(DEPTH_MAX + 1)).unwrap_err().to_string();
        assert!(error.contains("column `a` is nested more than 60 levels deep"), "{error}");
    }

    #[test]
    fn every_kind_of_child_counts() {
        let deep = lists(DEPTH_MAX).field(0).clone();
        let entries = vec![Field::new("key", DataType::Int8, false), deep.clone()];
        let entries = Field::new("entries", DataType::Struct(entries.into()), false);
        let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let inside = Arc::new(deep.clone());
        for data_type in [
            DataType::LargeList(inside.clone()),
            DataType::ListView(inside.clone()),
            DataType::FixedSizeList(inside.clone(), 2),
            DataType::Struct(vec![deep.clone()].into()),
            DataType::Map(Arc::new(entries), false),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(deep.data_type().clone())),
            DataType::RunEndEncoded(ends, inside),
        ] {
            assert!(check_field(&Field::new("a", data_type.clone(), true)).is_err(), "{data_type}");
        }
    }

    #[test]
    fn brackets_in_strings_do_not_nest_json() {
        let quoted = format!("[\"\\\"{}\"]", "[".repeat(1000));
        check_json(quoted.as_bytes(), "it").unwrap();
        let flat = "[1], {\"a\": []}, ".repeat(1000);
        check_json(flat.as_bytes(), "it").unwrap();
        check_json("[".repeat(DEPTH_MAX).as_bytes(), "it").unwrap();
        assert!(check_json("{\"a\":".repeat(DEPTH_MAX + 1).as_bytes(), "it").is_err());
    }

    #[test]
    fn levels_of_json_are_counted_across_pieces() {
        let text = format!("{}\"[\\\"{{\"", "[".repeat(DEPTH_MAX));
        for step in 1..7 {
            let mut depth = JsonDepth::default();
            for piece in text.as_bytes().chunks(step) {
                depth.check(piece, "it").unwrap();
            }
            assert!(depth.check(b",{", "it").is_err());
        }
    }

    #[test]
    fn bracket_depth_of_type_names_is_limited() {
        let name = |levels: usize| {
            format!("{}int64{}", "list<".repeat(levels - 1), ">".repeat(levels - 1))
        };
        check_brackets(&name(DEPTH_MAX), "it").unwrap();
        assert!(check_brackets(&name(DEPTH_MAX + 1), "it").is_err());
    }

    proptest! {
        #[test]
        fn blocks_and_bytes_give_the_same_levels(
            text in proptest::collection::vec(prop_oneof![Just("\""), Just("\\"), Just("["),
                Just("}"), Just("{"), Just("]"), Just("text, ")], 0..200),
            cut in 0usize..400,
        ) {
            let text = text.concat();
            let (mut blocks, mut bytes) = (JsonDepth::default(), JsonDepth::default());
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            for part in [first, second] {
                let found = blocks.check(part, "it").is_ok();
                prop_assert_eq!(found, bytes.check_bytes(part, "it").is_ok());
                if !found {
                    break;
                }
                prop_assert_eq!(format!("{blocks:?}"), format!("{bytes:?}"));
            }
        }
    }
}
