//! Texts as lists, structs and maps: `[1, 2]`, `{a: 1, 'b': x y}`, `{k=1}`, as casts to text write
//! them. A text within others may have quotes, in which `\` stands before a sign that is meant.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, MapArray, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Fields};
use datafusion_common::DataFusionError;

/// Reads texts as values of a type, and may fail or give null.
type ReadTexts<'a> = &'a dyn Fn(&ArrayRef, &DataType, bool) -> Result<ArrayRef, DataFusionError>;

/// Whether texts become values of this type by the rules of this file; `reads` tells whether they
/// become values of one that is not nested.
pub(super) fn is_read(to: &DataType, reads: fn(&DataType, &DataType) -> bool) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct, Utf8};
    let is_value = |of: &DataType| reads(&Utf8, of) || can_cast_types(&Utf8, of);
    match to {
        List(item) | LargeList(item) | FixedSizeList(item, _) => is_value(item.data_type()),
        Struct(fields) => fields.iter().all(|field| is_value(field.data_type())),
        Map(entries, _) => match entries.data_type() {
            Struct(fields) => fields.iter().all(|field| is_value(field.data_type())),
            _ => false,
        },
        _ => false,
    }
}

/// The values of texts: null where a text is none of the type. A wrong text within a value is an
/// error, or null if `tries`; `inner` reads it.
pub(super) fn read(
    texts: &StringArray,
    to: &DataType,
    tries: bool,
    inner: ReadTexts,
) -> Result<ArrayRef, DataFusionError> {
    match to {
        DataType::Struct(fields) => structs(texts, fields, tries, inner),
        DataType::Map(..) => maps(texts, to, tries, inner),
        _ => lists(texts, to, tries, inner),
    }
}

/// The values of the texts in a type, which may be nested again.
fn values(
    texts: Vec<Option<String>>,
    to: &DataType,
    tries: bool,
    inner: ReadTexts,
) -> Result<ArrayRef, DataFusionError> {
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    inner(&texts, to, tries)
}

fn lists(
    texts: &StringArray,
    to: &DataType,
    tries: bool,
    inner: ReadTexts,
) -> Result<ArrayRef, DataFusionError> {
    let size = match to {
        DataType::FixedSizeList(_, size) => Some(*size as usize),
        _ => None,
    };
    let (mut items, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for text in texts {
        let found = text.and_then(|text| pieces(text, ('[', ']'), None));
        let found = found.filter(|found| size.is_none_or(|size| found.len() == size));
        valid.push(found.is_some());
        let found = found.unwrap_or_else(|| vec![(None, None); size.unwrap_or(0)]);
        lengths.push(found.len());
        items.extend(found.into_iter().map(|(_, item)| item));
    }
    let nulls = Some(NullBuffer::from(valid));
    Ok(match to {
        DataType::LargeList(field) => {
            let items = values(items, field.data_type(), tries, inner)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(LargeListArray::try_new(field.clone(), offsets, items, nulls)?)
        }
        DataType::FixedSizeList(field, size) => {
            let items = values(items, field.data_type(), tries, inner)?;
            let rows = texts.len();
            let lists =
                FixedSizeListArray::try_new_with_length(field.clone(), *size, items, nulls, rows)?;
            Arc::new(lists)
        }
        DataType::List(field) => {
            let items = values(items, field.data_type(), tries, inner)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::try_new(field.clone(), offsets, items, nulls)?)
        }
        other => unreachable!("{other} is no list"),
    })
}

/// Fields by their names, or in their order: `{a: 1, b: 2}`, `(1, 2)`. Those that are not named are
/// null.
fn structs(
    texts: &StringArray,
    fields: &Fields,
    tries: bool,
    inner: ReadTexts,
) -> Result<ArrayRef, DataFusionError> {
    let mut columns = vec![vec![None; texts.len()]; fields.len()];
    let mut valid = vec![];
    for (row, text) in texts.iter().enumerate() {
        let found = text.and_then(|text| match text.trim_start().starts_with('(') {
            true => {
                let found = pieces(text, ('(', ')'), None)?;
                let found: Vec<_> = found.into_iter().map(|(_, value)| value).enumerate().collect();
                (found.len() == fields.len()).then_some(found)
            }
            false => {
                let place = |name: Option<String>| {
                    let name = name?;
                    fields.iter().position(|field| *field.name() == name)
                };
                let found = pieces(text, ('{', '}'), Some(':'))?.into_iter();
                found.map(|(name, value)| Some((place(name)?, value))).collect()
            }
        });
        valid.push(found.is_some());
        for (place, value) in found.into_iter().flatten() {
            columns[place][row] = value;
        }
    }
    let columns = columns.into_iter().zip(fields);
    let columns = columns.map(|(texts, field)| values(texts, field.data_type(), tries, inner));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = Some(NullBuffer::from(valid));
    let rows = texts.len();
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?))
}

fn maps(
    texts: &StringArray,
    to: &DataType,
    tries: bool,
    inner: ReadTexts,
) -> Result<ArrayRef, DataFusionError> {
    let DataType::Map(entries, is_sorted) = to else { unreachable!("{to} is no map") };
    let DataType::Struct(fields) = entries.data_type() else { unreachable!("entries are structs") };
    let (mut keys, mut items, mut lengths, mut valid) = (vec![], vec![], vec![], vec![]);
    for text in texts {
        let found = text.and_then(|text| pieces(text, ('{', '}'), Some('=')));
        // Each key once, and none of them null.
        let is_once = |found: &Vec<WrittenPart>| {
            let is_known = |at: usize| found[..at].iter().any(|(key, _)| *key == found[at].0);
            (0..found.len()).all(|at| found[at].0.is_some() && !is_known(at))
        };
        let found = found.filter(is_once);
        valid.push(found.is_some());
        let found = found.unwrap_or_default();
        lengths.push(found.len());
        for (key, item) in found {
            keys.push(key);
            items.push(item);
        }
    }
    let keys = values(keys, fields[0].data_type(), false, inner)?;
    let items = values(items, fields[1].data_type(), tries, inner)?;
    let items = StructArray::try_new(fields.clone(), vec![keys, items], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, items, nulls, *is_sorted)?))
}

/// A part of a nested value: the text before its sign, and the text of its value.
type WrittenPart = (Option<String>, Option<String>);

/// A part that is being read.
#[derive(Default)]
struct Unfinished {
    text: String,
    /// The bytes up to the last one that is no space outside of quotes.
    kept: usize,
    has_quotes: bool,
}

impl Unfinished {
    fn push(&mut self, sign: char) {
        self.text.push(sign);
        self.kept = self.text.len();
    }

    /// The text; `None` for the word `null` without quotes.
    fn take(&mut self) -> Option<String> {
        let Unfinished { mut text, kept, has_quotes } = std::mem::take(self);
        text.truncate(kept);
        (has_quotes || !text.eq_ignore_ascii_case("null")).then_some(text)
    }
}

/// The parts between brackets, which commas separate; with a sign that stands between a name and a
/// value. `None` if the text is no such value.
fn pieces(text: &str, brackets: (char, char), sign: Option<char>) -> Option<Vec<WrittenPart>> {
    let inner = text.trim().strip_prefix(brackets.0)?.strip_suffix(brackets.1)?;
    let (mut found, mut part, mut name) = (vec![], Unfinished::default(), None);
    // The brackets within the part that are still to be closed.
    let mut open = vec![];
    let mut signs = inner.chars();
    while let Some(next) = signs.next() {
        match next {
            '\'' | '"' => {
                let is_raw = !open.is_empty();
                part.has_quotes |= !is_raw;
                if is_raw {
                    part.push(next);
                }
                loop {
                    let inner = signs.next()?;
                    if inner == next {
                        break;
                    }
                    if inner != '\\' {
                        part.push(inner);
                        continue;
                    }
                    if is_raw {
                        part.push(inner);
                    }
                    part.push(signs.next()?);
                }
                if is_raw {
                    part.push(next);
                }
                part.kept = part.text.len();
            }
            '[' | '{' | '(' if next != '(' || !open.is_empty() || part.text.is_empty() => {
                open.push(if next == '[' {
                    ']'
                } else if next == '{' {
                    '}'
                } else {
                    ')'
                });
                part.push(next);
            }
            ']' | '}' => {
                if open.pop() != Some(next) {
                    return None;
                }
                part.push(next);
            }
            ')' if open.last() == Some(&')') => {
                open.pop();
                part.push(next);
            }
            ',' if open.is_empty() => {
                if sign.is_some() && name.is_none() {
                    return None;
                }
                found.push((name.take().flatten(), part.take()));
            }
            _ if Some(next) == sign && open.is_empty() && name.is_none() => {
                name = Some(part.take());
            }
            _ if !next.is_whitespace() => part.push(next),
            _ if !part.text.is_empty() => part.text.push(next),
            _ => {}
        }
    }
    let is_empty = found.is_empty() && part.text.is_empty() && !part.has_quotes && name.is_none();
    if !open.is_empty() || !is_empty && sign.is_some() && name.is_none() {
        return None;
    }
    if !is_empty {
        found.push((name.flatten(), part.take()));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Option<Vec<Option<String>>> {
        let found = pieces(text, ('[', ']'), None)?;
        Some(found.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn items_of_lists_are_separated_by_commas_outside_of_quotes_and_brackets() {
        let some = |texts: &[&str]| {
            Some(texts.iter().map(|text| Some(text.to_string())).collect::<Vec<_>>())
        };
        assert_eq!(list(" [1, 2 ] "), some(&["1", "2"]));
        assert_eq!(list("[ ]"), some(&[]));
        assert_eq!(list("[,]"), some(&["", ""]));
        assert_eq!(list(r#"['a, b', "c\"d" , e f]"#), some(&["a, b", "c\"d", "e f"]));
        assert_eq!(list("[[1, ']'], {a: [2]}, (3, 4)]"), some(&["[1, ']']", "{a: [2]}", "(3, 4)"]));
        assert_eq!(list("[null, NULL, 'null']"), Some(vec![None, None, Some("null".into())]));
        for text in ["", "1", "[1", "[1]]", "[[1]", "['a]", "[{1]}]"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    #[test]
    fn fields_and_keys_stand_before_a_sign() {
        let some = |text: &str| Some(text.to_string());
        let found = pieces("{'a': x: y, \"b\" : }", ('{', '}'), Some(':'));
        assert_eq!(found, Some(vec![(some("a"), some("x: y")), (some("b"), some(""))]));
        assert_eq!(pieces("{}", ('{', '}'), Some(':')), Some(vec![]));
        assert_eq!(pieces("{a: 1, b}", ('{', '}'), Some(':')), None);
        assert_eq!(pieces("{a: 1}", ('{', '}'), Some('=')), None);
    }
}
