//! Writes rows for another program: to standard output, or a named pipe.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

use euphrates_flow::module::{Bound, Configure, Inputs, PlacementConstraint};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{Effect, Error, InputOrder, Module, ModuleSpec, Ports, Result, Setup};
use euphrates_formats::{Compression, PipeWriter, WriteOptions, format_named};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "copy_out",
    summary: "Writes to standard output, or a named pipe.",
    detail: "Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records`, `lines` and \
             `parquet`. A stream keeps its order. Every batch goes out as it comes. When the \
             reader has had enough, the flow ends well. What has gone out cannot be taken back \
             if the flow fails; `save` writes files that appear whole or not at all.",
    example: r#">>> import os
>>> reading, writing = os.pipe()
>>> flow = eu.Flow()
>>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]})
>>> _ = flow.chain(cities, eu.copy_out("csv", path=f"/dev/fd/{writing}"))
>>> _ = flow.go()
>>> os.read(reading, 100)
b'city\nUr\nUruk\n'"#,
    outputs: NONE,
    order: InputOrder::Ordered,
    effect: Effect::External,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(CopyOut { config: spec::parse_config(config)? })),
    ..ModuleSpec::USUAL
};

/// What to write, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// `arrow_ipc`, `csv`, `json_lines`, `records`, `lines` or `parquet`.
    pub(crate) format: String,
    /// A named pipe or a device; standard output if absent.
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// CSV: the character between fields; a comma if absent.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
    /// Of `csv`, `json_lines`, `records` and `lines`: `none`, `gzip`, `bzip2` or `zstd`.
    #[serde(default)]
    pub(crate) compression: Option<String>,
    /// CSV: the character around fields that need it, `"` if absent; none if empty.
    #[serde(default)]
    pub(crate) quote: Option<String>,
    /// CSV: the character before a quote within quotes, and before whatever means something where
    /// there are none; if absent, a quote is doubled.
    #[serde(default)]
    pub(crate) escape: Option<char>,
    /// CSV: what is written for a null, like `NA`; nothing if absent.
    #[serde(default)]
    pub(crate) null_value: Option<String>,
}

impl Config {
    fn options(&self) -> Result<WriteOptions> {
        Ok(WriteOptions {
            compression: self.compression.as_deref().map(Compression::named).transpose()?,
            delimiter: self.delimiter,
            header: self.header,
            quote: self.quote.clone(),
            escape: self.escape,
            null_value: self.null_value.clone(),
            ..WriteOptions::default()
        })
    }

    fn open(&self) -> Result<Box<dyn Write + Send>> {
        let Some(path) = &self.path else { return Ok(Box::new(std::io::stdout())) };
        let file = File::options().write(true).open(path);
        let file = file.map_err(|error| Error::os("write", path, &error))?;
        let about = file.metadata().map_err(|error| Error::os("look at", path, &error))?;
        if about.is_file() {
            let error = Error::usage(format!("{path} is a file, not a pipe or a device"));
            return Err(error.remedy("use `save`, which writes files whole or not at all"));
        }
        Ok(Box::new(file))
    }
}

/// Fails if the format would write binary data to a terminal.
fn presentable(format: &str, is_terminal: bool) -> Result<()> {
    if !is_terminal
        || !matches!(format_named(format)?.about().name, "arrow_ipc" | "parquet" | "records")
    {
        return Ok(());
    }
    let error = Error::usage(format!("{format} is not for a terminal"));
    Err(error.remedy("send it to a file or a program, or choose csv or json_lines as its format"))
}

struct CopyOut {
    config: Config,
}

impl Configure for CopyOut {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        // Fails here if the format does not support the schema.
        let is_terminal = self.config.path.is_none() && std::io::stdout().is_terminal();
        presentable(&self.config.format, is_terminal)?;
        let schema = inputs.schemas[0].clone();
        PipeWriter::open(&self.config.format, std::io::sink(), &schema, &self.config.options()?)?;
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (copy, schema) = (self.clone(), schema.clone());
            Ok(Box::new(move |ports: &mut Ports| {
                let out = copy.config.open()?;
                let mut sink =
                    PipeWriter::open(&copy.config.format, out, &schema, &copy.config.options()?)?;
                while let Some(batch) = ports.get(0)? {
                    sink.write(&batch)?;
                    ports.metrics().put(batch.num_rows(), euphrates_flow::batch_bytes(&batch));
                }
                sink.finish()
            }))
        };
        Ok(Bound { spread: PlacementConstraint::Home, ..Bound::new([], instance) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, integers};
    use serde_json::{Value, json};
    use std::io::Read;
    use std::path::PathBuf;

    fn pipe() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        (folder, path)
    }

    fn run(config: Value) -> Result<()> {
        let input: Vec<_> = (0..100).map(|at| integers(at * 1000..(at + 1) * 1000)).collect();
        Harness::new(&MODULE, config).input(input[0].schema(), &input).run().1
    }

    #[test]
    fn rows_go_out_in_order() {
        let (_folder, path) = pipe();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read_to_string(path).unwrap()
        });
        run(json!({"format": "csv", "path": path, "header": false})).unwrap();
        let expected: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
        assert!(reader.join().unwrap().lines().eq(expected));
    }

    #[test]
    fn a_reader_that_leaves_ends_the_flow_well() {
        let (_folder, path) = pipe();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || File::open(path).unwrap().read_exact(&mut [0; 10]).unwrap()
        });
        run(json!({"format": "json_lines", "path": path})).unwrap();
        reader.join().unwrap();
    }

    #[test]
    fn a_terminal_gets_text_only() {
        for (format, is_terminal, expected) in [
            ("arrow_ipc", true, false),
            ("arrow", true, false),
            ("records", true, false),
            ("arrow", false, true),
            ("csv", true, true),
            ("lines", true, true),
        ] {
            assert_eq!(presentable(format, is_terminal).is_ok(), expected, "{format}");
        }
    }

    #[test]
    fn regular_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = run(json!({"format": "csv", "path": file.path()})).unwrap_err().to_string();
        assert!(error.contains("use `save`"), "{error}");
        let error = run(json!({"format": "records"})).unwrap_err().to_string();
        assert!(error.contains("100 bytes"), "{error}");
    }
}
