//! Options of a command's input and output, and the source and sink modules that they place.

use std::path::Path;

use clap::Args;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

use super::storage;
use super::text::{given, parse_character};

/// The path that stands for standard input and output.
pub const STANDARD: &str = "-";

/// Whether a path is standard input: `-`, or its file.
pub fn is_standard(path: &str) -> bool {
    [STANDARD, "/dev/stdin"].contains(&path)
}

/// Formats of a command's input and output, and whether it runs or prints the flow.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Formats and output")]
pub struct FileOptions {
    /// Format of the inputs: csv, json_lines, parquet, arrow_ipc, records or lines [default: by
    /// their extension]
    #[arg(long)]
    pub format: Option<String>,
    /// Format of the output [default: by its extension, or that of --format if it has none]
    #[arg(long)]
    pub output_format: Option<String>,
    /// Compression of the output: none, snappy, lz4, zstd, gzip or bzip2, as its format allows
    /// [default: zstd for Parquet, by the extension for text, otherwise none]
    #[arg(long)]
    pub output_compression: Option<String>,
    /// CSV: the character between fields of the output, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub output_delimiter: Option<char>,
    /// Replace the output if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Add files to the output, which is a folder
    #[arg(long, conflicts_with = "overwrite")]
    pub append: bool,
    /// Write a folder of files, with a folder for each value of these columns: a,b
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub partition_by: Vec<String>,
    /// Write a folder of files of about this many bytes [default: 268435456]
    #[arg(long, value_name = "BYTES")]
    pub file_bytes: Option<u64>,
    /// Options of object stores and web servers: 'region=eu-west-1' for all addresses, or
    /// 's3://raw/ endpoint=https://host profile=ci' for those that begin so; may be repeated
    #[arg(long = "storage", value_name = "[ADDRESS ]KEY=VALUE")]
    pub storage: Vec<String>,
    /// Print the flow of the command as a document, which `euphrates run`, `show` and `code` take,
    /// instead of running it
    #[arg(long)]
    pub print: bool,
}

impl FileOptions {
    /// Places the source module of files or a collection, and returns its id. `text` holds the
    /// options of text input, which a collection rejects; `order` asks for a stream.
    pub fn source(
        &self,
        flow: &mut Document,
        paths: &[String],
        text: Map<String, Value>,
        order: bool,
    ) -> Result<String> {
        if paths.iter().any(|path| is_standard(path)) {
            return self.standard_input(flow, paths, text, order);
        }
        let source = match paths.iter().find_map(|path| collection(path)) {
            Some(_) if !text.is_empty() => {
                let error = Error::usage("a collection has its types, and is not text");
                return Err(error.remedy("give types and options of text for files only"));
            }
            Some(_) if paths.len() > 1 => {
                return Err(Error::usage("a collection cannot be mixed with other inputs"));
            }
            Some(name) => flow.place("read", json!({"collection": name, "order": order}), None),
            None => {
                let mut config = text;
                let path = if let [one] = paths { json!(one) } else { json!(paths) };
                config.extend(given(
                    json!({"path": path, "format": self.format, "order": order.then_some(true)}),
                ));
                flow.place("scan", Value::Object(config), None)
            }
        };
        storage::apply(flow, &self.storage)?;
        Ok(source)
    }

    /// Places the module that reads standard input, and returns its id.
    fn standard_input(
        &self,
        flow: &mut Document,
        paths: &[String],
        text: Map<String, Value>,
        order: bool,
    ) -> Result<String> {
        if paths.len() > 1 {
            let error = Error::usage("standard input cannot be mixed with other inputs");
            return Err(
                error.remedy("write them one behind another: cat a.csv b.csv | euphrates …")
            );
        }
        let format = self.standard_format("csv, or json_lines, arrow_ipc, records, lines")?;
        let mut config = text;
        config.extend(given(json!({"format": format, "order": order})));
        Ok(flow.place("copy_in", Value::Object(config), None))
    }

    /// The format of standard input, of which `known` lists those that it may have.
    pub fn standard_format(&self, known: &str) -> Result<&str> {
        self.format.as_deref().ok_or_else(|| {
            let error = Error::usage("standard input has no name that tells its format");
            error.remedy(format!("name it: --format {known}"))
        })
    }

    /// Places the module that writes standard output, and returns its id.
    fn standard_output(&self, flow: &mut Document) -> Result<String> {
        if self.is_of_folders() || self.overwrite {
            let error = Error::usage("standard output is neither replaced nor a folder");
            return Err(error.remedy(
                "leave out --overwrite, --append, --partition-by and --file-bytes, or name a file",
            ));
        }
        let Some(format) = self.output_format.as_ref().or(self.format.as_ref()) else {
            let error = Error::usage("standard output has no name that tells its format");
            return Err(error.remedy(
                "name it: --output-format csv, or json_lines, arrow_ipc, records, lines, parquet",
            ));
        };
        let config = json!({
            "format": format,
            "compression": self.output_compression,
            "delimiter": self.output_delimiter,
        });
        Ok(flow.place("copy_out", Value::Object(given(config)), None))
    }

    /// Refuses options of an output where there is none.
    pub fn refuse_output_options(&self) -> Result<()> {
        let given = [
            ("--output-compression", self.output_compression.is_some()),
            ("--output-delimiter", self.output_delimiter.is_some()),
            ("--overwrite", self.overwrite),
            ("--append", self.append),
            ("--partition-by", !self.partition_by.is_empty()),
            ("--file-bytes", self.file_bytes.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                let error = Error::usage(format!("{name} is of an output, and there is none"));
                Err(error.remedy(
                    "name it: -o rows.parquet, or -o - for standard output; statements have such \
                     options themselves: create or replace table …",
                ))
            }
            None => Ok(()),
        }
    }

    /// Places the sink module of a file, a folder or a collection, and returns its id.
    pub fn sink(&self, flow: &mut Document, path: &str) -> Result<String> {
        if collection(path).is_some() && self.is_of_folders() {
            let error = Error::usage("a collection has no folders of files");
            return Err(error.remedy("leave out --append, --partition-by and --file-bytes"));
        }
        if [STANDARD, "/dev/stdout"].contains(&path) {
            return self.standard_output(flow);
        }
        let is_folder = path.ends_with('/') || self.is_of_folders();
        if self.output_delimiter.is_some() && (is_folder || collection(path).is_some()) {
            let error = Error::usage("--output-delimiter is of a file, and the output is none");
            return Err(error.remedy("leave it out, or name a file: -o rows.csv"));
        }
        if is_folder {
            return Ok(self.folder_sink(flow, path));
        }
        let mut config = json!({
            "overwrite": self.overwrite,
            "compression": self.output_compression,
        });
        let module = match collection(path) {
            Some(name) => {
                config["collection"] = name.into();
                "write"
            }
            None => {
                config["path"] = path.into();
                config["delimiter"] = self.output_delimiter.map(String::from).into();
                config["format"] =
                    self.output_format.clone().or_else(|| self.same_format(path)).into();
                "save"
            }
        };
        let sink = flow.place(module, Value::Object(given(config)), None);
        storage::apply(flow, &self.storage)?;
        Ok(sink)
    }

    /// Whether an option is given that only a folder of files has.
    fn is_of_folders(&self) -> bool {
        self.append || self.file_bytes.is_some() || !self.partition_by.is_empty()
    }

    fn folder_sink(&self, flow: &mut Document, path: &str) -> String {
        let mode = match (self.overwrite, self.append) {
            (true, _) => Some("overwrite"),
            (_, true) => Some("append"),
            _ => None,
        };
        let partition_by = (!self.partition_by.is_empty()).then_some(&self.partition_by);
        let config = json!({
            "path": path,
            "format": self.output_format,
            "compression": self.output_compression,
            "partition_by": partition_by,
            "file_bytes": self.file_bytes,
            "mode": mode,
        });
        flow.place("save_dataset", Value::Object(given(config)), None)
    }

    /// The format of an output without an extension: `--format` if it was given.
    fn same_format(&self, output: &str) -> Option<String> {
        let name = output.rsplit('/').next().unwrap_or(output);
        self.format.clone().filter(|_| !name.contains('.'))
    }
}

/// The name in `@name`; `None` for a file.
pub fn collection(path: &str) -> Option<&str> {
    path.strip_prefix('@')
}

/// Parses the name of a collection: `name`, or `@name` as where files may stand, too.
pub fn parse_collection(text: &str) -> std::result::Result<String, String> {
    Ok(collection(text).unwrap_or(text).into())
}

/// The error of a command without an output: `name` is for a file of the input's kind.
pub fn no_output(name: &str, input: &str) -> Error {
    let ending = Path::new(input).extension().and_then(|ending| ending.to_str());
    let ending = ending.filter(|_| !input.contains(['*', '@'])).unwrap_or("parquet");
    let error = Error::usage("there is no output");
    error.remedy(format!("say where the rows go: -o {name}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_compression_is_of_files_and_collections() {
        let output_compression = Some("lz4".into());
        let files = FileOptions { output_compression, ..FileOptions::default() };
        let mut flow = Document::new("x");
        for path in ["out.parquet", "@out"] {
            files.sink(&mut flow, path).unwrap();
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("compression"), Some(&json!("lz4")), "{path}");
        }
    }

    #[test]
    fn the_delimiter_of_the_output_is_of_files_and_standard_output() {
        let files = FileOptions { output_delimiter: Some(';'), ..FileOptions::default() };
        let files = FileOptions { output_format: Some("csv".into()), ..files };
        let mut flow = Document::new("x");
        for path in ["out.csv", "-"] {
            files.sink(&mut flow, path).unwrap();
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("delimiter"), Some(&json!(";")), "{path}");
        }
        for path in ["out/", "@out"] {
            let error = files.sink(&mut flow, path).unwrap_err().to_string();
            assert!(error.contains("--output-delimiter"), "{path}: {error}");
        }
    }

    #[test]
    fn folders_are_told_by_their_path_or_by_options() {
        let mut flow = Document::new("x");
        let by = || vec!["a".to_string(), "b".to_string()];
        let partitioned = FileOptions { partition_by: by(), ..FileOptions::default() };
        let replacing = FileOptions { overwrite: true, ..FileOptions::default() };
        for (files, path, config) in [
            (partitioned, "out", json!({"path": "out", "partition_by": ["a", "b"]})),
            (replacing, "out/", json!({"path": "out/", "mode": "overwrite"})),
        ] {
            files.sink(&mut flow, path).unwrap();
            let node = flow.modules.last().unwrap();
            assert_eq!(node.module, "save_dataset");
            assert_eq!(Value::Object(node.config.clone()), config);
        }
        let appending = FileOptions { append: true, ..FileOptions::default() };
        assert!(appending.sink(&mut flow, "@sales").is_err());
    }

    #[test]
    fn output_without_extension_takes_the_input_format() {
        let files = FileOptions { format: Some("csv".into()), ..FileOptions::default() };
        let mut flow = Document::new("x");
        for (path, format) in [("a.b/out", Some("csv")), ("out.parquet", None)] {
            files.sink(&mut flow, path).unwrap();
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("format").and_then(Value::as_str), format, "{path}");
        }
    }
}
