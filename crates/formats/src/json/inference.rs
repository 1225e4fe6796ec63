//! Infers the schema of JSON from a sample.
//!
//! Strings that are all dates, timestamps or times of day are such; others stay strings, whatever
//! they contain. A number without point and exponent is an integer;
//! one beyond 64 bits is a float, as in JSON itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use euphrates_flow::depth::check_json;
use euphrates_flow::{Error, Result};
use memchr::{memchr, memchr_iter, memrchr};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::json::value_boundaries::{DocumentLayout, Scanner, Unwrapper, is_array, is_blank};
use crate::values::inference::{InferredKind, SAMPLE_RECORDS};

/// The type of a field's values, as far as the sample shows it.
enum InferredType {
    Leaf(InferredKind),
    /// Dates or timestamps of which some are beyond the years of nanoseconds.
    FarTimes(InferredKind),
    List(Box<InferredType>),
    Object(InferredObject),
}

impl Default for InferredType {
    fn default() -> InferredType {
        InferredType::Leaf(InferredKind::Nothing)
    }
}

/// Fields in the order of their first occurrence.
#[derive(Default)]
struct InferredObject {
    names: HashMap<String, usize>,
    fields: Vec<(String, InferredType)>,
}

/// What kind of value the records of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Objects, whose fields are the columns.
    Objects,
    /// Values of one type, in the only column.
    Values,
    /// Values of several types; the only column holds the raw text of each.
    Texts,
}

/// Name of the only column of records that are not objects.
pub const VALUE_COLUMN: &str = "json";

/// The result of inference from a sample.
#[derive(Clone, Debug)]
pub struct InferredSchema {
    /// The columns, in the order of their first occurrence.
    pub schema: Schema,
    /// How records are laid out in the text.
    pub layout: DocumentLayout,
    /// What kind of value the records are.
    pub records: RecordKind,
    /// Whether there is a record, or an array that could have had some.
    pub is_some: bool,
}

impl InferredSchema {
    /// The columns of a table whose records have no fields.
    pub fn bare(&self) -> Option<Schema> {
        let text = Field::new(VALUE_COLUMN, DataType::Utf8, true);
        (self.is_some && self.schema.fields().is_empty()).then(|| Schema::new(vec![text]))
    }
}

/// The end of the sample within the head of a text, which may be `all` of it; `None` if that has no
/// complete record.
pub fn sample_end(text: &[u8], all: bool) -> Option<usize> {
    if all {
        return Some(text.len());
    }
    let line = memchr(b'\n', text);
    if !is_array(text) && line.is_some_and(|end| is_document(&text[..end])) {
        return memrchr(b'\n', text).map(|end| end + 1);
    }
    let begin = match is_array(text) {
        true => memchr(b'[', text)? + 1,
        false => 0,
    };
    // The caller drops an incomplete record after the first.
    Scanner::default().end(&text[begin..]).map(|_| text.len())
}

/// Whether the text is one document and nothing else, or blank.
fn is_document(text: &[u8]) -> bool {
    let mut scanner = Scanner::default();
    let Some(end) = scanner.end(&[text, b" "].concat()) else {
        return text.iter().all(|byte| is_blank(*byte));
    };
    text.get(end..).is_none_or(|rest| rest.iter().all(|byte| is_blank(*byte)))
}

/// Whether `head`, the first line of a text, is one JSON value other than an array, or blank; the
/// text is then read line by line.
pub fn is_one_record(head: &[u8]) -> bool {
    !is_array(head) && is_document(head)
}

/// Infers the schema from a sample, which may be `all` of the text.
pub fn infer(sample: &[u8], all: bool) -> Result<InferredSchema> {
    if is_array(sample) {
        return of_documents(sample, all);
    }
    let of_lines = match of_lines(sample) {
        Ok(schema) => {
            let is_some = sample.iter().any(|byte| !is_blank(*byte));
            let (layout, records) = (DocumentLayout::Lines, RecordKind::Objects);
            return Ok(InferredSchema { schema, layout, records, is_some });
        }
        Err(error) => error,
    };
    let mut lines = sample.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    of_documents(sample, all).map_err(|error| if is_document(first) { of_lines } else { error })
}

fn of_lines(sample: &[u8]) -> Result<Schema> {
    let mut all = InferredType::default();
    let lines = sample.split(|byte| *byte == b'\n').enumerate();
    let records = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    for (index, line) in records.take(SAMPLE_RECORDS) {
        let place = |error: Error| error.at(format!("line {}", index + 1));
        record(&mut all, line).map_err(place)?;
    }
    Ok(Schema::new(all.into_fields()))
}

fn of_documents(sample: &[u8], all: bool) -> Result<InferredSchema> {
    let mut text = sample.to_vec();
    let mut unwrapper = Unwrapper::default();
    unwrapper.unwrap(&mut text)?;
    if all {
        unwrapper.finish()?;
    }
    check_json(&text, "the record")?;
    let array = is_array(sample);
    let (mut fields, mut values) = (InferredType::default(), Ok(InferredType::default()));
    let (mut objects, mut others) = (0, 0);
    let mut at = 0;
    while objects + others < SAMPLE_RECORDS {
        let Some(blanks) = text[at..].iter().position(|byte| !is_blank(*byte)) else { break };
        let begin = at + blanks;
        at = match Scanner::default().end(&text[begin..]) {
            Some(length) => begin + length,
            None if all => text.len(),
            // The sample ends within a record.
            None => break,
        };
        let line = |within: usize| memchr_iter(b'\n', &text[..begin]).count() + within;
        let not_read = |error: serde_json::Error| {
            let (begin, at) = (line(1), line(error.line()));
            let error = wrong(not_json(&error)).at(format!("line {at}"));
            if begin == at { error } else { error.at(format!("record of line {begin}")) }
        };
        let document = &text[begin..at];
        if text[begin] == b'{' {
            objects += 1;
            let seen = fields.see(document).map_err(not_read)?;
            seen.map_err(|fault| wrong(fault).at(format!("line {}", line(1))))?;
        } else {
            others += 1;
            let seen = match &mut values {
                Ok(shape) => shape.see(document),
                Err(_) => InferredType::default().see(document),
            };
            let seen: Result<(), String> = seen.map_err(not_read)?;
            values = values.and_then(|shape| seen.map(|()| shape));
        }
    }
    let (schema, records) = match (objects, others, values) {
        (_, 0, _) => (Schema::new(fields.into_fields()), RecordKind::Objects),
        (0, _, Ok(shape)) => {
            let field = Field::new(VALUE_COLUMN, shape.into_type(), true);
            (Schema::new(vec![field]), RecordKind::Values)
        }
        _ if array => {
            let field = Field::new(VALUE_COLUMN, DataType::Utf8, true);
            (Schema::new(vec![field]), RecordKind::Texts)
        }
        _ => return Err(wrong("some records are objects, and some are not".into())),
    };
    let is_some = array || objects + others > 0;
    Ok(InferredSchema { schema, layout: DocumentLayout::Documents, records, is_some })
}

fn wrong(message: String) -> Error {
    let remedy = "the records of JSON are objects with fields of the same types: one a line, one \
                  behind the other, or the elements of an array";
    Error::corrupt(message).remedy(remedy)
}

fn not_json(error: &serde_json::Error) -> String {
    let message = error.to_string();
    format!("Not valid JSON: {}", message.split(" at line ").next().unwrap_or_default())
}

fn record(all: &mut InferredType, line: &[u8]) -> Result<()> {
    check_json(line, "the record")?;
    let is_object = line.iter().find(|byte| !is_blank(**byte)) == Some(&b'{');
    let mut unused = InferredType::default();
    let seen = if is_object { all } else { &mut unused }.see(line);
    match seen {
        Ok(_) if !is_object => Err(wrong("this is no JSON object".into())),
        Ok(seen) => seen.map_err(wrong),
        Err(error) => Err(wrong(not_json(&error))),
    }
}

impl InferredType {
    /// Widens the shape to hold a document, value by value during parsing, so a record of millions
    /// of numbers needs no memory beyond its text. The inner error is a value that fits no shape.
    fn see(&mut self, document: &[u8]) -> Result<Result<(), String>, serde_json::Error> {
        let mut fault = None;
        let mut parser = serde_json::Deserializer::from_slice(document);
        Widening { shape: self, fault: &mut fault }.deserialize(&mut parser)?;
        parser.end()?;
        Ok(fault.map_or(Ok(()), Err))
    }

    fn into_fields(self) -> Fields {
        match self {
            InferredType::Object(object) => object.into_fields(),
            _ => Fields::empty(),
        }
    }

    fn into_type(self) -> DataType {
        match self {
            // No unit holds both.
            InferredType::FarTimes(InferredKind::Time { fine: true, .. }) => DataType::Utf8,
            InferredType::Leaf(guess) | InferredType::FarTimes(guess) => guess.data_type(),
            InferredType::List(shape) => {
                DataType::List(Arc::new(Field::new_list_field(shape.into_type(), true)))
            }
            InferredType::Object(object) => DataType::Struct(object.into_fields()),
        }
    }
}

impl InferredObject {
    fn field(&mut self, name: String) -> &mut (String, InferredType) {
        let next = self.fields.len();
        let at = *self.names.entry(name.clone()).or_insert(next);
        if at == next {
            self.fields.push((name, InferredType::default()));
        }
        &mut self.fields[at]
    }

    fn into_fields(self) -> Fields {
        let field =
            |(name, shape): (String, InferredType)| Field::new(name, shape.into_type(), true);
        self.fields.into_iter().map(field).collect()
    }
}

/// Deserializes a value into a shape. The first value that does not fit is kept and the rest of the
/// document is still parsed, because a syntax error takes precedence.
struct Widening<'a> {
    shape: &'a mut InferredType,
    fault: &'a mut Option<String>,
}

impl Widening<'_> {
    fn leaf(self, seen: InferredKind) {
        match self.shape {
            InferredType::Leaf(guess) | InferredType::FarTimes(guess) => *guess = guess.and(seen),
            InferredType::List(_) => self.fail("an array elsewhere, here a single value"),
            InferredType::Object(_) => self.fail("an object elsewhere, here a single value"),
        }
    }

    fn fail(self, fault: &str) {
        self.fault.get_or_insert_with(|| fault.into());
    }
}

impl<'de> DeserializeSeed<'de> for Widening<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Widening<'_> {
    type Value = ();

    fn expecting(&self, what: &mut fmt::Formatter<'_>) -> fmt::Result {
        what.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.leaf(InferredKind::Bool);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.leaf(InferredKind::Whole { negative: value < 0, large: false });
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.leaf(InferredKind::Whole { negative: false, large: i64::try_from(value).is_err() });
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.leaf(InferredKind::Float);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        use InferredKind::{Clock, Date, Text, Time};
        let kind = match InferredKind::of(text) {
            kind @ (Date | Clock { .. } | Time { .. }) => kind,
            _ => Text,
        };
        if matches!(kind, Date | Time { .. })
            && let InferredType::Leaf(guess) = *self.shape
            && !("1678".."2262").contains(&&text[..4])
        {
            *self.shape = InferredType::FarTimes(guess);
        }
        self.leaf(kind);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if let InferredType::Leaf(InferredKind::Nothing) = self.shape {
            *self.shape = InferredType::List(Box::default());
        }
        match self.shape {
            InferredType::List(shape) => {
                while items.next_element_seed(Widening { shape, fault: self.fault })?.is_some() {}
                return Ok(());
            }
            InferredType::Object(_) => self.fail("an object elsewhere, here an array"),
            InferredType::Leaf(_) | InferredType::FarTimes(_) => {
                self.fail("here an array, elsewhere none");
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        if let InferredType::Leaf(InferredKind::Nothing) = self.shape {
            *self.shape = InferredType::Object(InferredObject::default());
        }
        match self.shape {
            InferredType::Object(object) => {
                while let Some(name) = fields.next_key::<String>()? {
                    let (name, shape) = object.field(name);
                    let mut fault = None;
                    fields.next_value_seed(Widening { shape, fault: &mut fault })?;
                    if let Some(what) = fault {
                        self.fault.get_or_insert_with(|| format!("field `{name}`: {what}"));
                    }
                }
                return Ok(());
            }
            InferredType::List(_) => self.fail("an array elsewhere, here an object"),
            InferredType::Leaf(_) | InferredType::FarTimes(_) => {
                self.fail("here an object, elsewhere none");
            }
        }
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(sample: &str) -> Result<String, String> {
        let found = infer(sample.as_bytes(), true).map_err(|error| error.to_string())?;
        let schema = found.schema;
        let fields = schema.fields().iter();
        let shown = fields.map(|field| format!("{} {}", field.name(), field.data_type()));
        Ok(shown.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn fields_get_the_type_that_holds_all_their_values() {
        for (sample, expected) in [
            ("{\"b\":1,\"a\":null}\n\n{\"a\":true,\"b\":2}", "b Int64, a Boolean"),
            ("{\"a\":9007199254740993}\n{\"a\":18446744073709551615}", "a UInt64"),
            ("{\"a\":-1}\n{\"a\":18446744073709551615}", "a Decimal128(20, 0)"),
            ("{\"a\":1}\n{\"a\":1.5}", "a Float64"),
            ("{\"a\":\"2024-01-02\"}\n{\"a\":null}", "a Date32"),
            ("{\"a\":[\"2024-01-02\",\"2024-01-02T03:04:05Z\"]}", "a List(Utf8)"),
            ("{\"a\":\"0001-01-02 03:04:05\"}", "a Timestamp(µs)"),
            ("{\"a\":\"2024-01-02 03:04:05.000000001\"}", "a Timestamp(ns)"),
            ("{\"a\":\"0001-01-02\"}\n{\"a\":\"2024-01-02 03:04:05.000000001\"}", "a Utf8"),
            ("{\"a\":\"03:04:05\"}", "a Time64(µs)"),
            ("{\"a\":\"\"}\n{\"a\":\"03:04:05\"}", "a Utf8"),
            ("{\"a\":\"7\"}", "a Utf8"),
            ("{\"a\":1}\n{\"a\":\"2024-01-02\"}", "a Utf8"),
            (
                "{\"a\":null}\n{\"a\":{\"b\":[]}}\n{\"a\":{\"b\":[1,null]}}",
                "a Struct(\"b\": List(Int64))",
            ),
            ("[{\"a\":1},\n{\"a\":2.5}]", "a Float64"),
            ("{\n\"a\": 1\n}\n{\n\"a\": 2\n}", "a Int64"),
            ("{\"a\":1} {\"a\":2}", "a Int64"),
            ("[1, null]", "json Int64"),
            ("1\n2", "json Int64"),
            ("[1, {}, []]", "json Utf8"),
            ("[]", ""),
        ] {
            assert_eq!(types(sample).as_deref(), Ok(expected), "{sample}");
        }
    }

    #[test]
    fn records_without_columns_are_refused_with_their_line() {
        for (sample, expected) in [
            ("{\"a\":1}\n{\"a\":", "line 2: Not valid JSON"),
            ("{\"a\":1}\n\n{\"a\":[1]}", "line 3: field `a`: here an array"),
            ("{\"a\":1\n{\"a\":2}", "record of line 1: line 2: Not valid JSON"),
            ("{\"a\":1}\n7", "line 2: this is no JSON object"),
            ("{\"a\":{\"b\":[1]}}\n{\"a\":{\"b\":{}}}", "line 2: field `a`: field `b`: an array"),
            ("{\"a\":[1]}\n{\"a\":1,\"b\":}", "line 2: Not valid JSON"),
            ("{\n\"a\":1,\n\"b\"}", "line 3: Not valid JSON"),
            ("[{\"a\":1},\n{\"a\":[1]}]", "line 2: field `a`: here an array"),
        ] {
            let error = types(sample).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
