//! What commands read and what they write: files of some format, or collections.

use clap::Args;
use euphrates_engine::master::prepare;
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

/// How the fields of CSV are told apart, and named.
#[derive(Clone, Debug, Default, Args)]
pub struct Fields {
    /// CSV: the character between fields, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub delimiter: Option<char>,
    /// CSV: the first line is a record, and does not name the columns
    #[arg(long)]
    pub no_header: bool,
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
                let error = Error::usage("a collection has its types, and no header or delimiter");
                return Err(error.remedy("give types, delimiters and headers of files only"));
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
    /// The options of CSV, read or written.
    pub fn config(&self) -> Map<String, Value> {
        let delimiter = self.delimiter.map(|one| ("delimiter".into(), one.to_string().into()));
        let header = self.no_header.then(|| ("header".into(), false.into()));
        delimiter.into_iter().chain(header).collect()
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
                     --delimiter \\t --no-header";
        let arguments = Arguments::try_parse_from(words.split_whitespace()).unwrap();
        let Command::CopyIn(command) = arguments.command else { panic!() };
        let expected = json!({
            "types": {"zip": "string", "a=b": "int64"}, "delimiter": "\t", "header": false,
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
