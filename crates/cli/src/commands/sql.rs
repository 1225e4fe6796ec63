//! `sql`: runs a query over files and collections.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use arrow::datatypes::Schema;
use clap::Args;
use euphrates_engine::run::check::open_end;
use euphrates_engine::run::consent::{self, Consent};
use euphrates_flow::error::remedy_of_unsplit;
use euphrates_flow::{Document, Error, Result};
use euphrates_formats::format_of;
use euphrates_sql::{Explained, TableFacts};
use serde_json::{Map, Value, json};

use crate::column_names;
use crate::commands::check;
use crate::host::Host;
use crate::options::files::{FileOptions, STANDARD, is_standard};
use crate::options::standard_input::StandardInput;
use crate::options::text::TextOptions;
use crate::options::{Log, ResourceOptions, storage};
use crate::runner;
use crate::spelling::{first_rows_of, options_spelled, shell_word};
use crate::table::{ROWS_MAX, first_rows};
use crate::terminal::{print, warn};

/// Arguments of `euphrates sql`.
#[derive(Debug, Args)]
pub struct SqlArguments {
    /// The query, whose tables are named by --table, or are paths in quotes: from 'a.parquet'; `-`
    /// for a query from standard input [default: the same; on a terminal, a shell that runs
    /// statements until .quit]
    #[arg(conflicts_with = "file")]
    pub query: Option<String>,
    /// A file with the query, or with several statements that end with `;` and run in order
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A table of the query and its file, folder, glob, s3:// address or @collection; may be
    /// repeated
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<String>,
    /// Where the rows go: a file, a folder/, a @collection, or `-` for standard output [default:
    /// the first rows are printed as a table]
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: Option<String>,
    /// Formats of input and output.
    #[command(flatten)]
    pub files: FileOptions,
    /// Types of columns, and options of the text files that the query reads.
    #[command(flatten)]
    pub text: TextOptions,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// Prints the columns of the files of a path.
pub fn describe(
    path: &str,
    files: FileOptions,
    text: TextOptions,
    log: Log,
    host: &dyn Host,
) -> Result<()> {
    let path = if path.contains(['.', '/', '*']) { path.into() } else { format!("./{path}") };
    let query = Some(format!("describe '{}'", path.replace('\'', "''")));
    let (tables, resources) = (vec![], ResourceOptions::default());
    let command = SqlArguments { query, file: None, tables, output: None, files, text, resources };
    run(&command, log, host)
}

/// Runs the statements of a query one after the other. Prints the first rows of one whose rows go
/// nowhere else, or explains it.
pub fn run(command: &SqlArguments, log: Log, host: &dyn Host) -> Result<()> {
    let has_text = command.query.is_some() || command.file.is_some();
    if !has_text && std::io::stdin().is_terminal() {
        if command.tables.iter().any(|table| reads_standard_input(table)) {
            return Err(taken());
        }
        tables(command, &StandardInput::default(), Path::new(""))?;
        if !command.text.config().is_empty() {
            let error = Error::usage("the shell takes no options of text files");
            return Err(error.remedy("give the query, or leave them out"));
        }
        // What is wrong is wrong before the first statement.
        storage::apply(&mut Document::new("options"), &command.files.storage)?;
        return host.sql_shell(&command.tables, &command.files.storage);
    }
    // Until the rows have been read.
    let input = StandardInput::default();
    let text = text(command)?;
    let statements = euphrates_sql::statements(&text)?;
    let count = statements.len();
    if count < 2 {
        return run_statement(&text, command, &input, log, host);
    }
    if command.files.print || output_of(command).is_some() {
        let option = if command.files.print { "--print" } else { "--output" };
        let error = Error::usage(format!("{option} is of one query, and there are {count}"));
        return Err(error.remedy(
            "leave it out; a statement says where its rows go: copy (select …) to 'rows.parquet'",
        ));
    }
    statements.iter().enumerate().try_for_each(|(at, text)| {
        let ran = run_statement(text, command, &input, log, host);
        ran.map_err(|error| error.at(format!("statement {}", at + 1)))
    })
}

fn run_statement(
    text: &str,
    command: &SqlArguments,
    input: &StandardInput,
    log: Log,
    host: &dyn Host,
) -> Result<()> {
    let options = runner::options(&command.resources, host)?;
    let facts_of = |rows: &Document| {
        let mut rows = rows.clone();
        apply(&mut rows, command)?;
        let (schema, bytes) = open_end(&rows, &host.registry(), &options)?;
        Ok(TableFacts { schema, bytes })
    };
    let output = output_of(command);
    if output.is_none() {
        command.files.refuse_output_options()?;
    }
    let (explained, query) = euphrates_sql::explained(text)?;
    let mut flow = flow_of(&query, command, input, &options.scratch(), &facts_of)?;
    apply(&mut flow, command)?;
    refuse_delimiter(&flow, command)?;
    if let [only] = flow.modules.as_slice()
        && only.module == "scan"
    {
        let (schema, _) = open_end(&flow, &host.registry(), &options)?;
        warn_unsplit(&schema, log);
    }
    if explained == Explained::Facts {
        let (schema, _) = open_end(&flow, &host.registry(), &options)?;
        let rows = BTreeMap::from([("self".to_string(), flow)]);
        flow = euphrates_sql::flow(&euphrates_sql::summary(&schema), &rows, &facts_of)?;
    }
    if explained == Explained::Columns {
        let (schema, _) = open_end(&flow, &host.registry(), &options)?;
        let columns = schema.fields().iter();
        let lines = columns.map(|field| format!("{}  {}\n", field.name(), field.data_type()));
        return print(&lines.collect::<String>());
    }
    let is_rows = matches!(explained, Explained::Rows | Explained::Facts);
    let last = flow.modules.last().map(|node| (node.id.clone(), node.module.clone()));
    let (mut last, module) = last.ok_or_else(|| Error::failed("the query has no modules"))?;
    let is_sink = matches!(module.as_str(), "save" | "save_dataset" | "write");
    let sink = match output {
        Some(_) if is_sink => {
            let error = Error::usage("the statement says where its rows go, and so does --output");
            return Err(error.remedy("leave one of them out"));
        }
        Some(output) => Some(command.files.sink(&mut flow, output)?),
        None if is_sink => None,
        None if is_rows && !command.files.print => {
            // A table may be larger than memory. One row more tells whether there are others.
            let first = flow.place("limit", json!({"rows": ROWS_MAX + 1}), None);
            flow.attach(&last, &first);
            last = first;
            Some(flow.place("collect", json!({}), None))
        }
        None => Some(flow.place("collect", json!({}), None)),
    };
    if let Some(sink) = sink {
        flow.attach(&last, &sink);
    }
    match explained {
        Explained::Rows | Explained::Columns | Explained::Facts => {}
        Explained::Plan => {
            let seen = consent::check(&flow, &host.registry(), &options, Consent::Given)?;
            return print(&check::explain(&seen));
        }
        Explained::Run => {
            let report = runner::run(&flow, &host.registry(), &options, Log::Quiet)?;
            return print(&format!("{report}\n"));
        }
    }
    if command.files.print || output.is_some() || is_sink {
        return runner::run_or_print(&flow, &command.files, &command.resources, log, host);
    }
    let log = if log == Log::Auto { Log::Progress } else { log };
    let report = runner::run(&flow, &host.registry(), &options, log)?;
    let mut rows = report.collected.iter();
    rows.try_for_each(|(_, collected)| print(&first_rows(collected)?))
}

/// Gives the scans of a flow the options of the command: those of stores, and those of text files.
fn apply(flow: &mut Document, command: &SqlArguments) -> Result<()> {
    storage::apply(flow, &command.files.storage)?;
    let text = command.text.config();
    for node in flow.modules.iter_mut().filter(|node| node.module == "scan") {
        if let Some(format) = &command.files.format {
            node.config.entry("format").or_insert_with(|| format.as_str().into());
        }
    }
    for node in flow.modules.iter_mut().filter(|node| node.module == "scan") {
        let path = node.config.get("path").and_then(|path| path.as_str().or(path[0].as_str()));
        let named = node.config.get("format").and_then(Value::as_str);
        let Some(format) = path.and_then(|path| format_of(path, named).ok()) else { continue };
        let is_of = |name: &str| match format.about().name {
            "csv" => true,
            "json_lines" => ["types", "encoding", "compression"].contains(&name),
            _ => false,
        };
        for (name, value) in text.iter().filter(|(name, _)| is_of(name)) {
            node.config.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(())
}

/// Refuses a delimiter of text input where no text is read: it may be meant for the output.
fn refuse_delimiter(flow: &Document, command: &SqlArguments) -> Result<()> {
    let Some(delimiter) = command.text.format.delimiter else { return Ok(()) };
    if flow.modules.iter().any(|node| node.config.contains_key("delimiter")) {
        return Ok(());
    }
    let error = Error::usage("--delimiter is of CSV input, and the query reads none");
    let delimiter = shell_word(&delimiter.escape_debug().to_string());
    Err(error.remedy(format!("that of the output is --output-delimiter {delimiter}")))
}

/// Warns if the only column of a file looks as if its lines were not split.
fn warn_unsplit(schema: &Schema, log: Log) {
    let [column] = schema.fields().as_ref() else { return };
    let remedy = remedy_of_unsplit(column.name()).filter(|_| log != Log::Quiet);
    let command = SqlArguments::augment_args(clap::Command::new("sql"));
    remedy.iter().for_each(|text| warn(log, &options_spelled(text, &command)));
}

/// The text of the query.
fn text(command: &SqlArguments) -> Result<String> {
    if let Some(path) = &command.file {
        let wrong = |error| Error::usage(format!("cannot read {}: {error}", path.display()));
        return std::fs::read_to_string(path).map_err(wrong);
    }
    if let Some(query) = command.query.as_ref().filter(|query| *query != "-") {
        return if is_file(query) { Err(no_query(query)) } else { Ok(query.clone()) };
    }
    let mut text = String::new();
    let wrong = |error| Error::usage(format!("cannot read standard input: {error}"));
    std::io::stdin().read_to_string(&mut text).map_err(wrong)?;
    Ok(text)
}

/// Whether a query is the name of a file instead.
fn is_file(query: &str) -> bool {
    let is_word = !query.trim().is_empty() && !query.trim().contains(char::is_whitespace);
    is_word
        && (query.ends_with(".sql") || format_of(query, None).is_ok() || Path::new(query).exists())
}

/// The error of the name of a file in the place of a query.
fn no_query(path: &str) -> Error {
    let error = Error::usage(format!("`{path}` is the name of a file, not a query"));
    error.remedy(match format_of(path, None).is_ok() && !path.ends_with(".sql") {
        true => format!("print its first rows: {}", first_rows_of(path)),
        false => format!("run the query in it: euphrates sql --file {}", shell_word(path)),
    })
}

/// The output of the rows: rows of a named format go to standard output.
fn output_of(command: &SqlArguments) -> Option<&str> {
    let printed = command.files.output_format.as_ref().map(|_| STANDARD);
    command.output.as_deref().or(printed)
}

/// The flow of a query, of whose tables one may be standard input.
fn flow_of(
    query: &str,
    command: &SqlArguments,
    input: &StandardInput,
    scratch: &[PathBuf],
    facts_of: &dyn Fn(&Document) -> Result<TableFacts>,
) -> Result<Document> {
    let scratch = scratch.first().map_or(Path::new(""), PathBuf::as_path);
    let mut tables = tables(command, input, scratch)?;
    let flow = euphrates_sql::flow(query, &tables, facts_of);
    match flow.as_ref().err().and_then(unreadable_table).map(String::from) {
        Some(name) if StandardInput::is_named(&name) => {
            tables.insert(name, standard_table(command, input, scratch)?);
            euphrates_sql::flow(query, &tables, facts_of)
        }
        _ => flow,
    }
    .map_err(with_table)
}

/// The flow that reads the copy of standard input.
fn standard_table(
    command: &SqlArguments,
    input: &StandardInput,
    scratch: &Path,
) -> Result<Document> {
    let is_query =
        command.file.is_none() && command.query.as_deref().is_none_or(|it| it == STANDARD);
    if is_query {
        return Err(taken());
    }
    let is_here = |cluster: &str| cluster.starts_with("processes:");
    let cluster = command.resources.cluster.as_deref();
    if command.files.print || !cluster.is_none_or(is_here) {
        let error = Error::usage("the flow would read standard input elsewhere");
        return Err(error.remedy(
            "make a collection of it: euphrates copy-in NAME --format csv, and query that: from \
             \"@NAME\"",
        ));
    }
    command.files.standard_format("csv, or json_lines, parquet, arrow_ipc, records, lines")?;
    let path = input.path(scratch)?.to_string_lossy().into_owned();
    let mut rows = Document::new("table");
    command.files.source(&mut rows, &[path], Map::new(), false)?;
    Ok(rows)
}

/// The error of a query and a table that are both standard input.
fn taken() -> Error {
    let error = Error::usage("the query is read from standard input, and so is a table");
    error.remedy("write the query on the command line, or name its file: --file query.sql")
}

/// Whether `NAME=PATH` is standard input.
fn reads_standard_input(table: &str) -> bool {
    column_names::split_once(table, '=').is_some_and(|(_, path)| is_standard(path))
}

/// The name in the error of an unknown table.
fn unknown_table(error: &Error) -> Option<&str> {
    error.message().strip_prefix("no table named `")?.strip_suffix('`')
}

/// The name of the table that an error is about: an unknown one, or one that cannot be opened.
fn unreadable_table(error: &Error) -> Option<&str> {
    unknown_table(error).or_else(|| error.places().find_map(|place| place.strip_prefix("table ")))
}

/// The error of an unknown table, with the option that names one.
fn with_table(error: Error) -> Error {
    let Some(name) = unknown_table(&error) else { return error };
    let remedy = match Path::new(name).is_dir() {
        true => format!("`{name}` is a folder: from '{name}/'"),
        false => format!(
            "name its file or collection: --table {name}={name}.parquet, --table {name}=@{name}; \
             or write the path in the query, in single quotes: from '{name}.parquet'"
        ),
    };
    let is_like = error.advice().is_some_and(|advice| advice.starts_with("did you mean"));
    if is_like { error } else { error.better_remedy(remedy) }
}

/// The flows that read the named tables.
fn tables(
    command: &SqlArguments,
    input: &StandardInput,
    scratch: &Path,
) -> Result<BTreeMap<String, Document>> {
    let mut tables = BTreeMap::new();
    for text in &command.tables {
        let (name, path) = column_names::split_once(text, '=').ok_or_else(|| {
            let error = Error::usage(format!("`{text}` is not a name and a path"));
            error.remedy("write it like --table sales=sales.parquet")
        })?;
        let name = column_names::unquoted(name).to_string();
        let rows = match is_standard(path) {
            true => standard_table(command, input, scratch)?,
            false => {
                let mut rows = Document::new("table");
                command.files.source(&mut rows, &[path.to_string()], Map::new(), false)?;
                rows
            }
        };
        if tables.insert(name.clone(), rows).is_some() {
            return Err(Error::usage(format!("two tables are named `{name}`")));
        }
    }
    Ok(tables)
}
