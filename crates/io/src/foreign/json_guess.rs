//! The columns of JSON lines, told from a sample.
//!
//! Strings stay strings, whatever is in them. A number without point and exponent is whole; one
//! beyond 64 bits is a float, as it is for JSON itself.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use euphrates_flow::depth::check_json;
use euphrates_flow::{Error, Result};
use serde_json::Value;

use super::guess::{Guess, SAMPLE_RECORDS};

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

/// The columns of a sample.
pub fn infer(sample: &[u8]) -> Result<Schema> {
    let mut all = Object::default();
    let lines = sample.split(|byte| *byte == b'\n').enumerate();
    let records = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    for (index, line) in records.take(SAMPLE_RECORDS) {
        let place = |error: Error| error.at(format!("line {}", index + 1));
        record(&mut all, line).map_err(place)?;
    }
    Ok(Schema::new(all.into_fields()))
}

fn record(all: &mut Object, line: &[u8]) -> Result<()> {
    let wrong = |message: String| {
        let remedy = "every line must be one JSON object, with fields of the same types";
        Error::corrupt(message).remedy(remedy)
    };
    if line.trim_ascii_start().starts_with(b"[") {
        let remedy = "write each element on a line of its own, as `jq -c '.[]'` does";
        return Err(Error::corrupt("a JSON array, not one object a line").remedy(remedy));
    }
    check_json(line, "the record")?;
    match serde_json::from_slice(line) {
        Ok(Value::Object(record)) => {
            record.into_iter().try_for_each(|(name, value)| all.see(name, value)).map_err(wrong)
        }
        Ok(_) => Err(wrong("this is no JSON object".into())),
        Err(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Err(wrong(format!("Not valid JSON: {message}")))
        }
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
        let schema = infer(sample.as_bytes()).map_err(|error| error.to_string())?;
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
        ] {
            assert_eq!(types(sample).as_deref(), Ok(expected), "{sample}");
        }
    }

    #[test]
    fn what_has_no_columns_is_refused_with_its_line() {
        for (sample, expected) in [
            ("{\"a\":1}\n{\"a\":", "line 2: Not valid JSON"),
            ("{\"a\":1}\n\n{\"a\":[1]}", "line 3: field `a`: here an array"),
            ("[{\"a\":1}]", "line 1: a JSON array, not one object a line"),
            ("7", "line 1: this is no JSON object"),
        ] {
            let error = types(sample).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
