//! `copy-in` and `copy-out`: copy standard input into a collection, and a collection to standard
//! output, so that other programs exchange data with Euphrates through pipes.

use clap::Args;
use euphrates_flow::{Document, Result};
use serde_json::{Value, json};

use crate::host::Host;
use crate::options::files::parse_collection;
use crate::options::text::{TextOptions, given, parse_character};
use crate::options::{Log, ResourceOptions};
use crate::runner;

/// Arguments of `euphrates copy-in`.
#[derive(Debug, Args)]
pub struct CopyInArguments {
    /// Name of the collection
    #[arg(value_parser = parse_collection)]
    pub collection: String,
    /// Format of standard input: arrow_ipc, csv, json_lines, records, lines
    #[arg(long, default_value = "arrow_ipc")]
    pub format: String,
    /// Options of text input.
    #[command(flatten)]
    pub text: TextOptions,
    /// Replace the collection if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// Arguments of `euphrates copy-out`.
#[derive(Debug, Args)]
pub struct CopyOutArguments {
    /// Name of the collection
    #[arg(value_parser = parse_collection)]
    pub collection: String,
    /// Format of standard output: arrow_ipc, csv, json_lines, records, lines
    #[arg(long, default_value = "arrow_ipc")]
    pub format: String,
    /// CSV: the character between fields, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub delimiter: Option<char>,
    /// CSV: do not write the names of the columns
    #[arg(long)]
    pub no_header: bool,
    /// CSV: the character around fields that need it, or '' for none [default: "]
    #[arg(long, value_name = "CHARACTER")]
    pub quote: Option<String>,
    /// CSV: the escape character, like a backslash [default: none; a quote within quotes is
    /// doubled]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub escape: Option<char>,
    /// CSV: what is written for a null, like NA [default: nothing]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub null_value: Option<String>,
    /// Compression of the output, unless it is arrow_ipc: gzip, bzip2 or zstd
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// Runs a flow from standard input to a collection.
pub fn copy_in(command: CopyInArguments, log: Log, host: &dyn Host) -> Result<()> {
    let mut flow = Document::new("copy-in");
    let mut config = command.text.config();
    config.insert("format".into(), command.format.into());
    let source = flow.place("copy_in", Value::Object(config), None);
    let config = json!({"collection": command.collection, "overwrite": command.overwrite});
    let sink = flow.place("write", config, None);
    flow.attach(&source, &sink);
    let options = runner::options(&command.resources, host)?;
    runner::run(&flow, &host.registry(), &options, log).map(drop)
}

/// Runs a flow from a collection to standard output.
pub fn copy_out(command: CopyOutArguments, log: Log, host: &dyn Host) -> Result<()> {
    let mut flow = Document::new("copy-out");
    let config = json!({"collection": command.collection, "order": true});
    let source = flow.place("read", config, None);
    let config = given(json!({
        "delimiter": command.delimiter, "header": command.no_header.then_some(false),
        "quote": command.quote, "escape": command.escape, "format": command.format,
        "null_value": command.null_value, "compression": command.compression,
    }));
    let sink = flow.place("copy_out", Value::Object(config), None);
    flow.attach(&source, &sink);
    let options = runner::options(&command.resources, host)?;
    runner::run(&flow, &host.registry(), &options, log).map(drop)
}
