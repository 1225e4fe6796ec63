//! Options of a command's input and output, and the source and sink modules that they place.

use clap::Args;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

use super::storage;
use super::text::given;

/// Formats of a command's input and output, and whether it runs or prints the flow.
#[derive(Clone, Debug, Default, Args)]
pub struct FileOptions {
    /// Format of the input files [default: by their extension]
    #[arg(long)]
    pub format: Option<String>,
    /// Format of the output file [default: by its extension, or that of --format if it has none]
    #[arg(long)]
    pub output_format: Option<String>,
    /// Compression of the output: none, snappy, lz4, zstd, gzip or bzip2, as its format allows
    /// [default: zstd for Parquet, by the extension for text, otherwise none]
    #[arg(long)]
    pub output_compression: Option<String>,
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
    /// Options of object stores and servers, as `scan` has them, behind the beginning of their
    /// addresses if these differ: 's3://raw/ endpoint=https://host profile=ci'; may be repeated
    #[arg(long = "storage", value_name = "[ADDRESS ]KEY=VALUE")]
    pub storage: Vec<String>,
    /// Print the flow, spelled out, instead of running it: for `run`, `show` and `code`
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
                config.extend(given(json!({"path": path, "format": self.format, "order": order})));
                flow.place("scan", Value::Object(config), None)
            }
        };
        storage::apply(flow, &self.storage)?;
        Ok(source)
    }

    /// Places the sink module of a file, a folder or a collection, and returns its id.
    pub fn sink(&self, flow: &mut Document, path: &str) -> Result<String> {
        if collection(path).is_some() && self.is_of_folders() {
            let error = Error::usage("a collection has no folders of files");
            return Err(error.remedy("leave out --append, --partition-by and --file-bytes"));
        }
        if path.ends_with('/') || self.is_of_folders() {
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
