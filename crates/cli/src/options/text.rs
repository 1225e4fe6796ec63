//! Options of text input, and the module configuration that they make.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::column_names::unquoted;

/// Options of text input, for what the text does not declare itself.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Text input")]
pub struct TextOptions {
    /// CSV, JSON lines: the type of a column, like zip=string; may be repeated
    #[arg(long, value_name = "COLUMN=TYPE", value_parser = parse_type)]
    pub types: Vec<(String, String)>,
    /// CSV syntax, encoding and compression.
    #[command(flatten)]
    pub format: TextFormat,
}

/// CSV syntax, and the encoding and compression of text.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Text input")]
pub struct TextFormat {
    /// CSV: the character between fields of the input, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub delimiter: Option<char>,
    /// CSV: the first line is a record, and does not name the columns
    #[arg(long)]
    pub no_header: bool,
    /// CSV: the character around fields that may hold anything, or '' for none [default: "]
    #[arg(long, value_name = "CHARACTER")]
    pub quote: Option<String>,
    /// CSV: the escape character, like a backslash [default: none; a quote within quotes is
    /// doubled]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub escape: Option<char>,
    /// CSV: the character that begins a comment, which lasts to the end of its line
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub comment: Option<char>,
    /// CSV: number of lines to skip at the beginning, before the header
    #[arg(long, value_name = "LINES")]
    pub skip_rows: Option<usize>,
    /// CSV: a field without quotes that is a null, like NA; may be repeated [default: the empty
    /// one]
    #[arg(long = "null-value", value_name = "TEXT", allow_hyphen_values = true)]
    pub null_values: Vec<String>,
    /// Text: its encoding, like latin-1 or utf-16 [default: UTF-8, or that of its byte order mark]
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<String>,
    /// Text, records: `none` if they only look compressed [default: by their first bytes, or their
    /// extension]
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
}

impl TextOptions {
    /// The same options in a configuration of `scan` or `copy_in`.
    pub fn config(&self) -> Map<String, Value> {
        typed(&self.types).chain(self.format.config()).collect()
    }
}

impl TextFormat {
    /// The same options in a module configuration; those not given are absent.
    pub fn config(&self) -> Map<String, Value> {
        given(json!({
            "delimiter": self.delimiter, "header": self.no_header.then_some(false),
            "quote": self.quote, "escape": self.escape, "comment": self.comment,
            "skip_rows": self.skip_rows,
            "null_values": Some(&self.null_values).filter(|nulls| !nulls.is_empty()),
            "encoding": self.encoding, "compression": self.compression,
        }))
    }
}

/// The options of a module configuration that are not null.
pub fn given(options: Value) -> Map<String, Value> {
    let options = options.as_object().cloned().unwrap_or_default();
    options.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// The `types` option of a module configuration; nothing if no types were given.
pub fn typed(types: &[(String, String)]) -> impl Iterator<Item = (String, Value)> + use<> {
    let of: Map<String, Value> =
        types.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    (!of.is_empty()).then(|| ("types".into(), Value::Object(of))).into_iter()
}

/// Parses the type of a column, `COLUMN=TYPE`; the name may be in double quotes.
pub fn parse_type(text: &str) -> std::result::Result<(String, String), String> {
    // A column name may contain an equals sign; a type does not.
    let (name, data_type) = text.rsplit_once('=').ok_or("write COLUMN=TYPE, like zip=string")?;
    Ok((unquoted(name).into(), data_type.into()))
}

/// Parses one character; `\t` stands for a tab.
pub fn parse_character(text: &str) -> std::result::Result<char, String> {
    let mut characters = if text == "\\t" { "\t".chars() } else { text.chars() };
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(format!("`{text}` is not one character")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::commands::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn type_names_a_column_in_quotes() {
        let expected = Ok(("first name".to_string(), "string".to_string()));
        assert_eq!(parse_type("\"first name\"=string"), expected);
    }

    #[test]
    fn text_options_become_a_module_configuration() {
        let words = "euphrates copy-in c --format csv --types zip=string --types a=b=int64 \
                     --delimiter \\t --no-header --quote ' --escape \\ --comment # --skip-rows 2 \
                     --null-value NA --null-value - --encoding latin-1 --compression none";
        let arguments = Arguments::try_parse_from(words.split_whitespace()).unwrap();
        let Command::CopyIn(command) = arguments.command else { panic!() };
        let expected = json!({
            "types": {"zip": "string", "a=b": "int64"}, "delimiter": "\t", "header": false,
            "quote": "'", "escape": "\\", "comment": "#", "skip_rows": 2,
            "null_values": ["NA", "-"], "encoding": "latin-1", "compression": "none",
        });
        assert_eq!(Value::Object(command.text.config()), expected);
        for wrong in ["--types zip", "--delimiter ab"] {
            let words = format!("euphrates copy-in c {wrong}");
            assert!(Arguments::try_parse_from(words.split_whitespace()).is_err(), "{wrong}");
        }
    }
}
