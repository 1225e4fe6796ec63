//! `sql`: runs a query over files and collections.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;
use euphrates_engine::run::check::open_end;
use euphrates_engine::run::consent::{self, Consent};
use euphrates_flow::{Document, Error, Result};
use euphrates_sql::{Explained, TableFacts};
use serde_json::{Map, json};

use crate::column_names;
use crate::commands::check;
use crate::host::Host;
use crate::options::files::FileOptions;
use crate::options::{Log, ResourceOptions, storage};
use crate::runner;
use crate::terminal::print;

/// Arguments of `euphrates sql`.
#[derive(Debug, Args)]
pub struct SqlArguments {
    /// The query, whose tables are named by --table, or are paths in quotes: from 'a.parquet'
    /// [default: standard
    /// input; on a terminal, a shell that runs statements until .quit]
    #[arg(conflicts_with = "file")]
    pub query: Option<String>,
    /// A file with the query
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A table of the query and its file, folder, glob, s3:// address or @collection; may be
    /// repeated
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<String>,
    /// A file, a folder/ or a @collection for the rows [default: the first rows are printed]
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: Option<String>,
    /// Formats of input and output.
    #[command(flatten)]
    pub files: FileOptions,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// Runs the query, and prints the first rows if they go nowhere else; or explains it.
pub fn run(command: &SqlArguments, log: Log, host: &dyn Host) -> Result<()> {
    let has_text = command.query.is_some() || command.file.is_some();
    if !has_text && std::io::stdin().is_terminal() {
        tables(command)?;
        // What is wrong is wrong before the first statement.
        storage::apply(&mut Document::new("options"), &command.files.storage)?;
        return host.sql_shell(&command.tables, &command.files.storage);
    }
    let options = runner::options(&command.resources, log, host)?;
    let facts_of = |rows: &Document| {
        let mut rows = rows.clone();
        storage::apply(&mut rows, &command.files.storage)?;
        let (schema, bytes) = open_end(&rows, &host.registry(), &options)?;
        Ok(TableFacts { schema, bytes })
    };
    let (explained, query) = euphrates_sql::explained(&text(command)?)?;
    let mut flow = euphrates_sql::flow(&query, &tables(command)?, &facts_of)?;
    storage::apply(&mut flow, &command.files.storage)?;
    let last = flow.modules.last().map(|node| (node.id.clone(), node.module.clone()));
    let (last, module) = last.ok_or_else(|| Error::failed("the query has no modules"))?;
    let is_sink = matches!(module.as_str(), "save" | "save_dataset" | "write");
    let sink = match &command.output {
        Some(_) if is_sink => {
            let error = Error::usage("the statement says where its rows go, and so does --output");
            return Err(error.remedy("leave one of them out"));
        }
        Some(output) => Some(command.files.sink(&mut flow, output)?),
        None if is_sink => None,
        None => Some(flow.place("collect", json!({}), None)),
    };
    if let Some(sink) = sink {
        flow.attach(&last, &sink);
    }
    match explained {
        Explained::Rows => {}
        Explained::Plan => {
            let seen = consent::check(&flow, &host.registry(), &options, Consent::Given)?;
            return print(&check::explain(&seen));
        }
        Explained::Run => {
            let report = runner::run(&flow, &host.registry(), &options, Log::Quiet)?;
            return print(&format!("{report}\n"));
        }
    }
    if command.files.print || command.output.is_some() || is_sink {
        return runner::run_or_print(&flow, &command.files, &command.resources, log, host);
    }
    runner::run_and_print_rows(&flow, &host.registry(), &options, log)
}

/// The text of the query.
fn text(command: &SqlArguments) -> Result<String> {
    if let Some(path) = &command.file {
        let wrong = |error| Error::usage(format!("cannot read {}: {error}", path.display()));
        return std::fs::read_to_string(path).map_err(wrong);
    }
    if let Some(query) = command.query.as_ref().filter(|query| *query != "-") {
        return Ok(query.clone());
    }
    let mut text = String::new();
    let wrong = |error| Error::usage(format!("cannot read standard input: {error}"));
    std::io::stdin().read_to_string(&mut text).map_err(wrong)?;
    Ok(text)
}

/// The flows that read the named tables.
fn tables(command: &SqlArguments) -> Result<BTreeMap<String, Document>> {
    let mut tables = BTreeMap::new();
    for text in &command.tables {
        let (name, path) = column_names::split_once(text, '=').ok_or_else(|| {
            let error = Error::usage(format!("`{text}` is not a name and a path"));
            error.remedy("write it like --table sales=sales.parquet")
        })?;
        let name = column_names::unquoted(name).to_string();
        let mut rows = Document::new("table");
        command.files.source(&mut rows, &[path.to_string()], Map::new(), false)?;
        if tables.insert(name.clone(), rows).is_some() {
            return Err(Error::usage(format!("two tables are named `{name}`")));
        }
    }
    Ok(tables)
}
