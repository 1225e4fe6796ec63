//! The columns of JSON, told from a sample.
//!
//! Strings stay strings, whatever is in them. A number without point and exponent is whole; one
//! beyond 64 bits is a float, as it is for JSON itself.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use euphrates_flow::depth::check_json;
use euphrates_flow::{Error, Result};
use memchr::{memchr, memchr_iter, memrchr};
use serde_json::Value;

use super::guess::{Guess, SAMPLE_RECORDS};
use super::json_documents::{Layout, Scanner, Unwrapper, is_array, is_blank};

/// What is known of the values of a field.
enum Shape {
    Leaf(Guess),
    List(Box<Shape>),
    Object(Object),
}

/// Fields in the order they were first seen.
#[derive(Default)]
struct Object {
    names: HashMap<String, usize>,
    fields: Vec<(String, Shape)>,
}

/// What the records of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Objects, whose fields are columns.
    Objects,
    /// Values of one type, the only column.
    Values,
    /// Values of several kinds; the only column has the text of each.
    Texts,
}

/// The column of records that are no objects.
pub const VALUE_COLUMN: &str = "json";

/// What a sample says.
#[derive(Clone, Debug)]
pub struct Found {
    /// The columns.
    pub schema: Schema,
    /// How records lie in the text.
    pub layout: Layout,
    /// What they are.
    pub records: Records,
    /// There is a record, or an array that could have had some.
    pub is_some: bool,
}

impl Found {
    /// The columns of a table of records without fields.
    pub fn bare(&self) -> Option<Schema> {
        let text = Field::new(VALUE_COLUMN, DataType::Utf8, true);
        (self.is_some && self.schema.fields().is_empty()).then(|| Schema::new(vec![text]))
    }
}

/// Where the sample ends in the beginning of a text, which may be `all` of it; `None` if that has
/// no whole record.
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
    // What is cut off behind the first record is left out by whoever reads the sample.
    Scanner::default().end(&text[begin..]).map(|_| text.len())
}

/// Whether this is one document and nothing else, or blank.
fn is_document(text: &[u8]) -> bool {
    let mut scanner = Scanner::default();
    let Some(end) = scanner.end(&[text, b" "].concat()) else {
        return text.iter().all(|byte| is_blank(*byte));
    };
    text.get(end..).is_none_or(|rest| rest.iter().all(|byte| is_blank(*byte)))
}

/// Whether a text whose first line is `head`, or is at least so long, has a record on each line.
pub fn is_line(head: &[u8]) -> bool {
    !is_array(head) && is_document(head)
}

/// The columns of a sample, which may be `all` of the text.
pub fn infer(sample: &[u8], all: bool) -> Result<Found> {
    if is_array(sample) {
        return of_documents(sample, all);
    }
    let of_lines = match of_lines(sample) {
        Ok(schema) => {
            let is_some = sample.iter().any(|byte| !is_blank(*byte));
            let (layout, records) = (Layout::Lines, Records::Objects);
            return Ok(Found { schema, layout, records, is_some });
        }
        Err(error) => error,
    };
    let mut lines = sample.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    of_documents(sample, all).map_err(|error| if is_document(first) { of_lines } else { error })
}

fn of_lines(sample: &[u8]) -> Result<Schema> {
    let mut all = Object::default();
    let lines = sample.split(|byte| *byte == b'\n').enumerate();
    let records = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    for (index, line) in records.take(SAMPLE_RECORDS) {
        let place = |error: Error| error.at(format!("line {}", index + 1));
        record(&mut all, line).map_err(place)?;
    }
    Ok(Schema::new(all.into_fields()))
}

fn of_documents(sample: &[u8], all: bool) -> Result<Found> {
    let mut text = sample.to_vec();
    let mut unwrapper = Unwrapper::default();
    unwrapper.unwrap(&mut text)?;
    if all {
        unwrapper.finish()?;
    }
    check_json(&text, "the record")?;
    let array = is_array(sample);
    let (mut fields, mut values) = (Object::default(), Ok(Shape::Leaf(Guess::Nothing)));
    let (mut objects, mut others) = (0, 0);
    let mut documents = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    while objects + others < SAMPLE_RECORDS {
        let begin = documents.byte_offset();
        let blanks = text[begin..].iter().take_while(|byte| is_blank(**byte)).count();
        let line = || memchr_iter(b'\n', &text[..begin + blanks]).count() + 1;
        match documents.next() {
            None => break,
            // The sample is cut within a record.
            Some(Err(error)) if error.is_eof() && !all => break,
            Some(Err(error)) => {
                return Err(wrong(not_json(&error)).at(format!("line {}", error.line())));
            }
            Some(Ok(Value::Object(record))) => {
                objects += 1;
                let mut seen = record.into_iter();
                let seen = seen.try_for_each(|(name, value)| fields.see(name, value));
                seen.map_err(|error| wrong(error).at(format!("line {}", line())))?;
            }
            Some(Ok(value)) => {
                others += 1;
                values = values.and_then(|mut shape: Shape| shape.see(value).map(|()| shape));
            }
        }
    }
    let (schema, records) = match (objects, others, values) {
        (_, 0, _) => (Schema::new(fields.into_fields()), Records::Objects),
        (0, _, Ok(shape)) => {
            let field = Field::new(VALUE_COLUMN, shape.into_type(), true);
            (Schema::new(vec![field]), Records::Values)
        }
        _ if array => {
            let field = Field::new(VALUE_COLUMN, DataType::Utf8, true);
            (Schema::new(vec![field]), Records::Texts)
        }
        _ => return Err(wrong("some records are objects, and some are not".into())),
    };
    let is_some = array || objects + others > 0;
    Ok(Found { schema, layout: Layout::Documents, records, is_some })
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

fn record(all: &mut Object, line: &[u8]) -> Result<()> {
    check_json(line, "the record")?;
    match serde_json::from_slice(line) {
        Ok(Value::Object(record)) => {
            record.into_iter().try_for_each(|(name, value)| all.see(name, value)).map_err(wrong)
        }
        Ok(_) => Err(wrong("this is no JSON object".into())),
        Err(error) => Err(wrong(not_json(&error))),
    }
}

impl Object {
    fn see(&mut self, name: String, value: Value) -> Result<(), String> {
        let at = match self.names.get(&name) {
            Some(&at) => at,
            None => {
                self.names.insert(name.clone(), self.fields.len());
                self.fields.push((name, Shape::Leaf(Guess::Nothing)));
                self.fields.len() - 1
            }
        };
        let (name, shape) = &mut self.fields[at];
        shape.see(value).map_err(|what| format!("field `{name}`: {what}"))
    }

    fn into_fields(self) -> Fields {
        let field = |(name, shape): (String, Shape)| Field::new(name, shape.into_type(), true);
        self.fields.into_iter().map(field).collect()
    }
}

impl Shape {
    fn see(&mut self, value: Value) -> Result<(), String> {
        if let Shape::Leaf(Guess::Nothing) = self {
            match value {
                Value::Array(_) => *self = Shape::List(Box::new(Shape::Leaf(Guess::Nothing))),
                Value::Object(_) => *self = Shape::Object(Object::default()),
                _ => {}
            }
        }
        match (self, value) {
            (_, Value::Null) => Ok(()),
            (Shape::List(shape), Value::Array(values)) => {
                values.into_iter().try_for_each(|value| shape.see(value))
            }
            (Shape::Object(object), Value::Object(fields)) => {
                fields.into_iter().try_for_each(|(name, value)| object.see(name, value))
            }
            (Shape::List(_), other) => Err(format!("an array elsewhere, here {}", kind(&other))),
            (Shape::Object(_), other) => Err(format!("an object elsewhere, here {}", kind(&other))),
            (Shape::Leaf(_), Value::Array(_)) => Err("here an array, elsewhere none".into()),
            (Shape::Leaf(_), Value::Object(_)) => Err("here an object, elsewhere none".into()),
            (Shape::Leaf(guess), value) => {
                *guess = guess.and(leaf(&value));
                Ok(())
            }
        }
    }

    fn into_type(self) -> DataType {
        match self {
            Shape::Leaf(guess) => guess.data_type(),
            Shape::List(shape) => {
                DataType::List(Arc::new(Field::new_list_field(shape.into_type(), true)))
            }
            Shape::Object(object) => DataType::Struct(object.into_fields()),
        }
    }
}

fn leaf(value: &Value) -> Guess {
    match value {
        Value::Bool(_) => Guess::Bool,
        Value::Number(number) if number.is_i64() => {
            Guess::Whole { negative: number.as_i64() < Some(0), large: false }
        }
        Value::Number(number) if number.is_u64() => Guess::Whole { negative: false, large: true },
        Value::Number(_) => Guess::Float,
        _ => Guess::Text,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
        _ => "a single value",
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
    fn what_has_no_columns_is_refused_with_its_line() {
        for (sample, expected) in [
            ("{\"a\":1}\n{\"a\":", "line 2: Not valid JSON"),
            ("{\"a\":1}\n\n{\"a\":[1]}", "line 3: field `a`: here an array"),
            ("{\"a\":1}\n7", "line 2: this is no JSON object"),
            ("{\n\"a\":1,\n\"b\"}", "line 3: Not valid JSON"),
            ("[{\"a\":1},\n{\"a\":[1]}]", "line 2: field `a`: here an array"),
        ] {
            let error = types(sample).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
