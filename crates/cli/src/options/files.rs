//! Options of a command's input and output, and the source and sink modules that they place.

use clap::Args;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

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
                config.extend(given(json!({"path": path, "format": self.format, "order": order})));
                flow.place("scan", Value::Object(config), None)
            }
        })
    }

    /// Places the sink module of a file or a collection, and returns its id.
    pub fn sink(&self, flow: &mut Document, path: &str) -> String {
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
        flow.place(module, Value::Object(given(config)), None)
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
            files.sink(&mut flow, path);
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("compression"), Some(&json!("lz4")), "{path}");
        }
    }

    #[test]
    fn output_without_extension_takes_the_input_format() {
        let files = FileOptions { format: Some("csv".into()), ..FileOptions::default() };
        let mut flow = Document::new("x");
        for (path, format) in [("a.b/out", Some("csv")), ("out.parquet", None)] {
            files.sink(&mut flow, path);
            let config = &flow.modules.last().unwrap().config;
            assert_eq!(config.get("format").and_then(Value::as_str), format, "{path}");
        }
    }
}
