//! What commands read and what they write: files of some format, or collections.

use clap::Args;
use euphrates_engine::run::prepare::prepare;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

use crate::arguments::{Log, Resources};
use crate::{Host, print, run as drive};

/// How a command's files are read and written, and whether it runs at all.
#[derive(Clone, Debug, Default, Args)]
pub struct Ends {
    /// Format of the input files [default: by their extension]
    #[arg(long)]
    pub format: Option<String>,
    /// Format of the output file [default: by its extension, or that of --format if it has none]
    #[arg(long)]
    pub output_format: Option<String>,
    /// Replace the output if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Print the flow, spelled out, instead of running it: for `run`, `show` and `code`
    #[arg(long)]
    pub print: bool,
}

/// How text is read, where it does not say it itself.
#[derive(Clone, Debug, Default, Args)]
pub struct Text {
    /// CSV, JSON lines: the type of a column, like zip=string; may be repeated
    #[arg(long, value_name = "COLUMN=TYPE", value_parser = parse_type)]
    pub types: Vec<(String, String)>,
    /// How fields are told apart.
    #[command(flatten)]
    pub fields: Fields,
}

/// How the fields of CSV are told apart and named, and what else text may need.
#[derive(Clone, Debug, Default, Args)]
pub struct Fields {
    /// CSV: the character between fields, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub delimiter: Option<char>,
    /// CSV: the first line is a record, and does not name the columns
    #[arg(long)]
    pub no_header: bool,
    /// CSV: the character around fields that may hold anything, or '' for none [default: "]
    #[arg(long, value_name = "CHARACTER")]
    pub quote: Option<String>,
    /// CSV: the character behind which any other is itself [default: quotes are doubled]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub escape: Option<char>,
    /// CSV: the character with which comments begin, which end with their line
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub comment: Option<char>,
    /// CSV: pass over so many lines at the beginning, before the header
    #[arg(long, value_name = "LINES")]
    pub skip_rows: Option<usize>,
    /// CSV: a field without quotes that is a null, like NA; may be repeated [default: the empty
    /// one]
    #[arg(long = "null-value", value_name = "TEXT", allow_hyphen_values = true)]
    pub null_values: Vec<String>,
    /// Text: its encoding, like latin-1 or utf-16 [default: UTF-8, or as its mark says]
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<String>,
    /// Text, records: none, if they only look compressed [default: as they begin, or are called]
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
}

impl Ends {
    /// Places what reads files, or a collection.
    pub fn source(
        &self,
        flow: &mut Document,
        paths: &[String],
        text: Map<String, Value>,
        order: bool,
    ) -> Result<String> {
        Ok(match paths.iter().find_map(|path| collection(path)) {
            Some(_) if !text.is_empty() => {
                let error = Error::usage("a collection has its types, and is no text");
                return Err(error.remedy("give types and options of text for files only"));
            }
            Some(_) if paths.len() > 1 => {
                return Err(Error::usage("a collection cannot be mixed with other inputs"));
            }
            Some(name) => flow.place("read", json!({"collection": name, "order": order}), None),
            None => {
                let mut config = text;
                let path = if let [one] = paths { json!(one) } else { json!(paths) };
                config.insert("path".into(), path);
                config.extend(self.format.clone().map(|format| ("format".into(), format.into())));
                config.insert("order".into(), order.into());
                flow.place("scan", Value::Object(config), None)
            }
        })
    }

    /// Places what writes a file, or a collection.
    pub fn sink(&self, flow: &mut Document, path: &str) -> String {
        let overwrite = self.overwrite;
        match collection(path) {
            Some(name) => {
                flow.place("write", json!({"collection": name, "overwrite": overwrite}), None)
            }
            None => {
                let mut config = Map::new();
                config.insert("path".into(), path.into());
                let format = self.output_format.clone().or_else(|| self.same_format(path));
                config.extend(format.map(|format| ("format".into(), format.into())));
                config.insert("overwrite".into(), overwrite.into());
                flow.place("save", Value::Object(config), None)
            }
        }
    }

    /// An output whose name says nothing is of the input's format, if that was given.
    fn same_format(&self, output: &str) -> Option<String> {
        let name = output.rsplit('/').next().unwrap_or(output);
        self.format.clone().filter(|_| !name.contains('.'))
    }

    /// Runs the flow, or prints it.
    pub fn run(&self, flow: &Document, with: &Resources, log: Log, host: &dyn Host) -> Result<u8> {
        let options = drive::options(with, host)?;
        if self.print {
            let checked = prepare(flow, &host.registry(), &options)?;
            print(&format!("{}\n", checked.document.to_json()))?;
        } else {
            drive::run(flow, &host.registry(), &options, log)?;
        }
        Ok(0)
    }
}

/// `@name`.
pub fn collection(path: &str) -> Option<&str> {
    path.strip_prefix('@')
}

impl Text {
    /// The options of `scan` and `copy_in` that say the same.
    pub fn config(&self) -> Map<String, Value> {
        typed(&self.types).chain(self.fields.config()).collect()
    }
}

impl Fields {
    /// The options of text that say the same.
    pub fn config(&self) -> Map<String, Value> {
        let delimiter = self.delimiter.map(|one| ("delimiter".into(), one.to_string().into()));
        let header = self.no_header.then(|| ("header".into(), false.into()));
        let quote = self.quote.clone().map(|quote| ("quote".into(), quote.into()));
        let escape = self.escape.map(|one| ("escape".into(), one.to_string().into()));
        let comment = self.comment.map(|one| ("comment".into(), one.to_string().into()));
        let skip_rows = self.skip_rows.map(|lines| ("skip_rows".into(), lines.into()));
        let nulls = Some(&self.null_values).filter(|nulls| !nulls.is_empty());
        let nulls = nulls.map(|nulls| ("null_values".into(), json!(nulls)));
        let encoding = self.encoding.clone().map(|name| ("encoding".into(), name.into()));
        let packed = self.compression.clone().map(|name| ("compression".into(), name.into()));
        let all = [delimiter, header, quote, escape, comment, skip_rows, nulls, encoding, packed];
        all.into_iter().flatten().collect()
    }
}

/// The option that has the types of columns, if there are any.
pub fn typed(types: &[(String, String)]) -> impl Iterator<Item = (String, Value)> + use<> {
    let of: Map<String, Value> =
        types.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    (!of.is_empty()).then(|| ("types".into(), Value::Object(of))).into_iter()
}

/// `zip=string`.
pub fn parse_type(text: &str) -> std::result::Result<(String, String), String> {
    // A name may have an equals sign, a type has none.
    let (name, data_type) = text.rsplit_once('=').ok_or("write COLUMN=TYPE, like zip=string")?;
    Ok((name.into(), data_type.into()))
}

/// `;`, or a tab as shells let one write it.
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
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn how_text_is_read_is_said_in_words_of_the_modules() {
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

    #[test]
    fn an_output_without_an_extension_is_of_the_input_s_format() {
        let ends = Ends { format: Some("csv".into()), ..Ends::default() };
        let mut flow = Document::new("x");
        for (path, format) in [("a.b/out", Some("csv")), ("out.parquet", None)] {
            ends.sink(&mut flow, path);
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("format").and_then(Value::as_str), format, "{path}");
        }
    }
}
