//! Reads the output of another program: standard input, or a named pipe.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_device::pipe::{Pipe, Switch};
use euphrates_device::regular;
use euphrates_flow::module::{Bound, Configure, Inputs, OutputOrder, PlacementConstraint, Reads};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{Effect, Error, Module, ModuleSpec, Ports, Result, Setup};
use euphrates_formats::{BatchStream, ReadOptions, parse_read_compression};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::pipes::{Columns, put_all};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "copy_in",
    summary: "Reads standard input, or a named pipe.",
    detail: "Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records` and `lines`. \
             What is compressed with gzip, bzip2 or zstd is decompressed, but for Arrow. Types of \
             CSV and JSON are inferred from the first 256 KiB, which are read when the flow is \
             checked, unless `columns` names them. One thread reads, so the rows come in their \
             order. Files that can be read in parts are better read by `scan`.",
    example: r#">>> with open("cities.csv", "w") as file:
...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\n", file=file)
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.copy_in("csv", path="cities.csv"), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk'], 'founded': [-3800, -4000]}"#,
    inputs: NONE,
    effect: Effect::External,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(CopyIn { config: spec::parse_config(config)? })),
    ..ModuleSpec::USUAL
};

/// What to read, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// `arrow_ipc`, `csv`, `json_lines`, `records` or `lines`.
    pub(crate) format: String,
    /// A named pipe or a file; standard input if absent.
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// Names and types of the columns, in the order they come: `{"id": "int64"}`.
    #[serde(default)]
    pub(crate) columns: Option<Columns>,
    /// CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from the
    /// first records.
    #[serde(default)]
    pub(crate) types: Option<BTreeMap<String, String>>,
    /// Keep the order of the rows.
    #[serde(default = "yes")]
    pub(crate) order: bool,
    /// CSV: the character between fields; a comma if absent.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
    /// CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    #[serde(default)]
    pub(crate) quote: Option<String>,
    /// CSV: the character behind which any other is itself; if absent, a quote within quotes is
    /// doubled.
    #[serde(default)]
    pub(crate) escape: Option<char>,
    /// CSV: the character with which comments begin, which end with their line.
    #[serde(default)]
    pub(crate) comment: Option<char>,
    /// CSV: how many lines to pass over at the beginning, before the header.
    #[serde(default)]
    pub(crate) skip_rows: Option<usize>,
    /// CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    #[serde(default)]
    pub(crate) null_values: Option<Vec<String>>,
    /// CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if absent,
    /// or what a mark at its beginning says.
    #[serde(default)]
    pub(crate) encoding: Option<String>,
    /// Text and records: `none` says that they are not compressed, although their first bytes or
    /// their name look like it.
    #[serde(default)]
    pub(crate) compression: Option<String>,
}

fn yes() -> bool {
    true
}

struct CopyIn {
    config: Config,
}

struct OpenedInput {
    stream: BatchStream,
    /// Interrupts a blocking read.
    switch: Switch,
}

impl CopyIn {
    fn open(&self) -> Result<OpenedInput> {
        let pipe = match &self.config.path {
            None => Pipe::stdin()?,
            Some(path) => Pipe::open(path)?,
        };
        let switch = pipe.switch();
        Ok(OpenedInput { stream: self.stream_of(pipe)?, switch })
    }

    /// The columns, as far as they are known without waiting for another program.
    fn columns_of_file(&self) -> Result<SchemaRef> {
        let file = match &self.config.path {
            _ if self.config.columns.is_some() => Err(None),
            None => Err(Some(Error::usage("standard input is left to the run"))),
            Some(path) => regular::open(Path::new(path)).map_err(Some),
        };
        let error = match file {
            Ok(file) => return Ok(self.stream_of(file)?.schema),
            Err(error) => error,
        };
        // Declared columns, and those of a format with fixed columns, need no input.
        match (self.stream_of(io::empty()), error) {
            (Ok(stream), _) => Ok(stream.schema),
            (Err(error), None) => Err(error),
            (Err(_), Some(error)) => {
                let remedy = "a check reads files only; name the `columns`, and it reads nothing";
                Err(error.remedy(remedy))
            }
        }
    }

    fn stream_of(&self, input: impl io::Read + Send + 'static) -> Result<BatchStream> {
        let config = &self.config;
        if config.columns.is_some() && config.types.is_some() {
            let error = Error::usage("both `columns` and `types` are given");
            return Err(error.remedy("`columns` has the types of all columns; leave out `types`"));
        }
        let columns = config.columns.as_ref().map(Columns::schema).transpose()?;
        let options = ReadOptions {
            delimiter: config.delimiter,
            header: config.header,
            types: config.types.clone(),
            quote: config.quote.clone(),
            escape: config.escape,
            comment: config.comment,
            skip_rows: config.skip_rows,
            null_values: config.null_values.clone(),
            encoding: config.encoding.clone(),
            is_uncompressed: parse_read_compression(config.compression.as_deref())?,
            ..ReadOptions::default()
        };
        BatchStream::open(&config.format, input, columns, &options)
    }
}

impl Configure for CopyIn {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let opened = (inputs.reads == Reads::All).then(|| self.open()).transpose()?;
        let schema = match &opened {
            Some(opened) => opened.stream.schema.clone(),
            None => self.columns_of_file()?,
        };
        let (opened, order) = (Mutex::new(opened), self.config.order);
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let mut opened = opened.lock().take();
            Ok(Box::new(move |ports: &mut Ports| {
                let opened = opened.take();
                let opened =
                    opened.ok_or_else(|| Error::usage("the input has been read already"))?;
                opened.switch.set(&ports.setup().cancel);
                put_all(ports, opened.stream, order, true)
            }))
        };
        Ok(Bound {
            order: OutputOrder::numbered(order),
            spread: PlacementConstraint::Home,
            ..Bound::new([schema], instance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, integers, rows};
    use serde_json::json;

    #[test]
    fn piped_rows_come_out_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, "n\n1\n2\n3\n").unwrap()
        });
        let config = json!({"format": "csv", "path": path});
        let (outputs, outcome) = Harness::new(&MODULE, config).run();
        outcome.unwrap();
        assert_eq!(outputs[0].first(), Some(&Item::Begin(0)));
        let all = rows(&outputs[0], outputs_schema(&outputs[0]));
        assert_eq!(all.columns(), integers([1, 2, 3]).columns());
        writer.join().unwrap();
    }

    fn outputs_schema(items: &[Item]) -> SchemaRef {
        let schema = |item: &Item| match item {
            Item::Batch(batch) => Some(batch.schema()),
            _ => None,
        };
        items.iter().find_map(schema).unwrap()
    }

    #[test]
    fn wrong_format_or_path_fails_before_start() {
        for (config, expected) in [
            (json!({"format": "cvs"}), "did you mean `csv`?"),
            (json!({"format": "parquet"}), "parquet cannot be read from a pipe"),
            (json!({"format": "csv", "path": "/no/such"}), "check the path"),
            (json!({"format": "csv", "columns": {"a": "wrong"}}), "no type named `wrong`"),
            (json!({"format": "csv", "columns": {"a": 3}}), "the type of column `a` is 3"),
            (json!({"format": "csv", "columns": {}, "types": {}}), "both `columns` and `types`"),
            (json!({"format": "csv", "path": "/dev/null"}), "there is nothing in the input"),
            (json!({"format": "arrow_ipc", "path": "Cargo.toml"}), "it looks like text"),
        ] {
            let (_, outcome) = Harness::new(&MODULE, config).run();
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    #[test]
    fn editor_check_reads_regular_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        std::fs::write(&file, "n\n1\n").unwrap();
        let columns = |config: serde_json::Value| {
            let module = (MODULE.configure)(config).unwrap();
            let inputs = Inputs {
                schemas: &[],
                bytes: &[],
                keeps_runs: false,
                sorted_by: &[],
                needed: None,
                condition: &euphrates_flow::module::RowCondition::TRUE,
                matched_by: &[],
                key_filters: &[],
                home: Path::new(""),
                cache: None,
                reads: Reads::Files,
            };
            module.bind(&inputs).map(|bound| bound.outputs[0].field(0).name().clone())
        };
        let declared = json!({"n": "int64"});
        for (config, expected) in [
            (json!({"format": "csv", "path": &file}), "n"),
            (json!({"format": "csv", "path": &pipe, "columns": &declared}), "n"),
            (json!({"format": "json_lines", "columns": &declared}), "n"),
            (json!({"format": "lines", "path": &pipe}), "line"),
            (json!({"format": "records"}), "key"),
        ] {
            assert_eq!(columns(config).unwrap(), expected);
        }
        for (config, expected) in [
            (json!({"format": "csv", "path": &pipe}), "is a named pipe"),
            (json!({"format": "arrow_ipc", "path": "/dev/zero"}), "is a device"),
            (json!({"format": "csv"}), "standard input"),
            (json!({"format": "csv", "path": "/no/such"}), "/no/such"),
            (json!({"format": "cvs", "columns": &declared}), "did you mean `csv`?"),
        ] {
            let error = columns(config).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
