//! Parses module configurations, and names the option at fault in errors.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result, unknown};

/// The JSON schema of a configuration type.
///
/// ```
/// use euphrates_flow::spec::schema_of;
///
/// #[derive(schemars::JsonSchema)]
/// struct Config {
///     /// The number of rows.
///     #[allow(dead_code)]
///     rows: u64,
/// }
///
/// let schema = schema_of::<Config>();
/// assert_eq!(schema["properties"]["rows"]["description"], "The number of rows.");
/// assert_eq!(schema["required"], serde_json::json!(["rows"]));
/// ```
pub fn schema_of<C: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<C>().to_value()
}

/// Parses a configuration. The error names the option at fault and suggests the nearest known one.
///
/// ```
/// use euphrates_flow::spec::parse_config;
/// use serde_json::json;
///
/// #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Config {
///     rows: u64,
/// }
///
/// assert_eq!(parse_config::<Config>(json!({"rows": 7}))?.rows, 7);
/// let error = parse_config::<Config>(json!({"rows": "many"})).unwrap_err();
/// assert_eq!(error.to_string(), "rows: \"many\" is not a whole number");
/// let error = parse_config::<Config>(json!({"rows": 7, "row": 1})).unwrap_err();
/// assert_eq!(error.advice(), Some("did you mean `rows`?"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn parse_config<C: DeserializeOwned + schemars::JsonSchema>(config: Value) -> Result<C> {
    serde_json::from_value(config.clone()).map_err(|error| {
        let schema = schema_of::<C>();
        let known = schema.get("properties").and_then(Value::as_object).cloned();
        let known = known.unwrap_or_default();
        let given = config.as_object().cloned().unwrap_or_default();
        if let Some(stranger) = given.keys().find(|key| !known.contains_key(*key)) {
            return unknown("option", stranger, known.keys().map(String::as_str));
        }
        let message = message_of(&error);
        let is_at_fault = |option: &&String| {
            let mut without: Map<String, Value> = given.clone();
            without.remove(*option);
            let outcome = serde_json::from_value::<C>(Value::Object(without));
            outcome.err().is_none_or(|other| message_of(&other) != message)
        };
        match given.keys().find(is_at_fault) {
            Some(option) => {
                let why = why_not(&given[option], &known[option]);
                Error::usage(why.unwrap_or(message)).at(option)
            }
            None => match missing(&message, &known) {
                Some(remedy) => Error::usage(message).remedy(remedy),
                None => Error::usage(message),
            },
        }
    })
}

/// What to give for the option whose lack the message states: its description.
fn missing(message: &str, known: &Map<String, Value>) -> Option<String> {
    let (option, _) = message.strip_prefix("missing field `")?.split_once('`')?;
    let description = known.get(option)?.get("description")?.as_str()?;
    let sentence = description.split(['\n', '.']).next()?.trim();
    Some(format!("give the option `{option}`: {}", in_mid_sentence(sentence)))
}

/// A sentence behind a colon.
fn in_mid_sentence(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// The message of serde, without its position in the text.
fn message_of(error: &serde_json::Error) -> String {
    error.to_string().split(" at line").next().unwrap_or_default().to_string()
}

/// Why a value has the wrong type for an option, in words. (The studio has the same words in
/// `studio/src/document/schema.ts`.)
fn why_not(value: &Value, schema: &Value) -> Option<String> {
    let choices = ["oneOf", "anyOf"].iter().find_map(|name| schema.get(name)?.as_array());
    let choices: Vec<&Value> = choices.map_or(vec![schema], |choices| choices.iter().collect());
    let mut wanted: Vec<String> = vec![];
    for choice in choices {
        match (choice.get("const"), choice.get("type")) {
            (Some(name), _) if name == value => return None,
            (Some(name), _) => wanted.push(format!("`{}`", name.as_str().unwrap_or_default())),
            (None, Some(Value::String(kind))) => wanted.push(word(kind, value, choice)?.into()),
            (None, Some(Value::Array(kinds))) => {
                for kind in kinds.iter().filter_map(Value::as_str) {
                    wanted.push(word(kind, value, choice)?.into());
                }
            }
            (None, _) => return None,
        }
    }
    if is_whole(value) && is_less(value, schema) {
        return Some(format!("{value} is less than {}", schema["minimum"]));
    }
    wanted.retain(|word| word != NOTHING);
    wanted.dedup();
    let last = wanted.pop()?;
    let wanted = if wanted.is_empty() { last } else { format!("{} or {last}", wanted.join(", ")) };
    Some(format!("{} is not {wanted}", shown(value)))
}

const NOTHING: &str = "nothing";

/// The name of a schema type, if the value is not of it.
fn word(kind: &str, value: &Value, schema: &Value) -> Option<&'static str> {
    let (is_one, word) = match kind {
        "null" => (value.is_null(), NOTHING),
        "boolean" => (value.is_boolean(), "true or false"),
        "string" => (value.is_string(), "a text"),
        "number" => (value.is_number(), "a number"),
        "array" => (value.is_array(), "a list"),
        "object" => (value.is_object(), "an object"),
        "integer" => (is_whole(value) && !is_less(value, schema), "a whole number"),
        _ => return None,
    };
    (!is_one).then_some(word)
}

fn is_whole(value: &Value) -> bool {
    value.is_u64() || value.is_i64()
}

fn is_less(value: &Value, schema: &Value) -> bool {
    let least = schema.get("minimum").and_then(Value::as_f64);
    least.zip(value.as_f64()).is_some_and(|(least, value)| value < least)
}

/// A value as the user wrote it: objects of the program, and variables, have no JSON of their own.
fn shown(value: &Value) -> String {
    let only = value.as_object().filter(|object| object.len() == 1).and_then(|it| it.iter().next());
    match only {
        Some((key, _)) if key == "$live" => "an object of the program".into(),
        Some((key, Value::String(name))) if key == "$var" => format!("the variable `{name}`"),
        _ => clipped(value),
    }
}

fn clipped(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some(_) => format!("{}…", text.chars().take(39).collect::<String>()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Config {
        /// The file to read. It may be a pattern.
        path: String,
        rows: Option<u64>,
        #[serde(default)]
        columns: Vec<String>,
        #[serde(default)]
        way: Way,
    }

    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        /// Chosen if the option is absent.
        #[default]
        Near,
        /// Chosen only by its name.
        Far,
    }

    #[test]
    fn config_error_names_option() {
        for (config, expected) in [
            (json!({"path": 3}), "path: 3 is not a text"),
            (json!({"path": {"$live": 1}}), "path: an object of the program is not a text"),
            (json!({"path": "a", "rows": "abc"}), "rows: \"abc\" is not a whole number"),
            (json!({"path": "a", "rows": -1}), "rows: -1 is less than 0"),
            (json!({"path": "a", "rows": 1.5}), "rows: 1.5 is not a whole number"),
            (json!({"path": "a", "columns": "b"}), "columns: \"b\" is not a list"),
            (json!({"path": "a", "columns": [1]}), "columns: invalid type: integer `1`"),
            (json!({"path": "a", "way": "off"}), "way: \"off\" is not `near` or `far`"),
            (json!({"rows": 3}), "missing field `path`"),
            (json!({"path": "a", "row": 3}), "no option named `row`"),
        ] {
            let error = parse_config::<Config>(config).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse_config::<Config>(json!({"path": "a", "rows": null})).is_ok());
        let error = parse_config::<Config>(json!({})).unwrap_err();
        assert_eq!(error.advice(), Some("give the option `path`: the file to read"));
    }
}
