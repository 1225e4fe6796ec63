//! `show` and `code`: a flow as a picture, as its document, or as the code that builds it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use euphrates_draw::{PictureFormat, draw};
use euphrates_flow::code::{self, code as write_code};
use euphrates_flow::{Document, Result};

use crate::flow_file::{load, load_to_keep};
use crate::host::Host;
use crate::terminal::print;

/// Arguments of `euphrates show`.
#[derive(Debug, Args)]
pub struct Show {
    /// A flow document (JSON), or a Python file that builds one
    #[arg(required_unless_present = "schema")]
    pub flow: Option<PathBuf>,
    /// Format of what is printed
    #[arg(long, value_enum, default_value_t = Picture::Mermaid)]
    pub r#as: Picture,
    /// Print the JSON schema of flow documents instead
    #[arg(long)]
    pub schema: bool,
}

/// The output format of `show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// A Mermaid flowchart, for Markdown.
    Mermaid,
    /// A graph in the DOT language, for Graphviz.
    Dot,
    /// A picture that browsers show, as a file of its own.
    Svg,
    /// The flow document, as `euphrates run` reads it.
    Json,
    /// What the studio asks of a Python file: its flow, and the modules that it defines.
    #[value(hide = true)]
    Script,
}

/// Arguments of `euphrates code`.
#[derive(Debug, Args)]
pub struct Code {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// Language of the code
    #[arg(long, value_enum, default_value_t = CodeLanguage::Python)]
    pub lang: CodeLanguage,
}

/// Programming languages that `code` generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CodeLanguage {
    /// A script that imports `euphrates`.
    Python,
    /// A program that uses the crates `euphrates_engine` and `euphrates_flow`.
    Rust,
}

/// Prints the flow in the requested format.
pub fn show(command: Show, host: &dyn Host) -> Result<()> {
    let Some(flow) = command.flow.filter(|_| !command.schema) else {
        let schema = serde_json::to_string_pretty(&Document::json_schema()).unwrap_or_default();
        return print(&(schema + "\n"));
    };
    let drawn = |format| load(&flow, host).map(|document| draw(&document, format));
    let text = match command.r#as {
        Picture::Mermaid => drawn(PictureFormat::Mermaid)?,
        Picture::Dot => drawn(PictureFormat::Dot)?,
        Picture::Svg => drawn(PictureFormat::Svg)?,
        Picture::Json => load_to_keep(&flow, host)?.to_json(),
        Picture::Script => host.script(&flow)?,
    };
    print(&format!("{}\n", text.trim_end()))
}

/// Prints the program that builds the flow.
pub fn code(command: Code, host: &dyn Host) -> Result<()> {
    let document = load_to_keep(&command.flow, host)?;
    let language = match command.lang {
        CodeLanguage::Python => code::Language::Python,
        CodeLanguage::Rust => code::Language::Rust,
    };
    let text = write_code(&document, &host.registry(), language)?;
    print(&format!("{}\n", text.trim_end()))
}
