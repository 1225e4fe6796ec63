//! `run`: runs a flow document or a Python flow file.

pub mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use euphrates_engine::Options;
use euphrates_flow::Result;
use euphrates_server::run_process::{self, RunProcess};
use euphrates_server::run_record::RunRecord;

use crate::flow_file::{load, variables};
use crate::host::Host;
use crate::options::{Log, ResourceOptions};
use crate::runner;
use crate::signals::Signals;

/// Arguments of `euphrates run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// The value of a variable; JSON, or else text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// What the flow may use.
    #[command(flatten)]
    pub resources: ResourceOptions,
    /// Run for a studio: what is to be done is in this folder, and how it goes is told there
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub record: Option<PathBuf>,
    /// With --record: it ends with this process, which started it
    #[arg(long, value_name = "PID", hide = true, requires = "record")]
    pub ends_with: Option<u32>,
}

/// Runs the flow and prints the rows that it collected.
pub fn run(command: RunArguments, log: Log, host: &dyn Host) -> Result<()> {
    if let Some(folder) = &command.record {
        return run_for_studio(folder, &command, host);
    }
    let document = load(&command.flow, host)?;
    let options = Options {
        variables: variables(&command.params)?,
        ..runner::options(&command.resources, host)?
    };
    runner::run_and_print_rows(&document, &host.registry(), &options, log)
}

/// Runs the flow of a run record, and writes progress and outcome to the record.
fn run_for_studio(folder: &Path, command: &RunArguments, host: &dyn Host) -> Result<()> {
    let signals = Signals::listen();
    run_process::run(RunProcess {
        record: RunRecord::at(folder),
        registry: &host.registry(),
        options: &|| runner::options(&command.resources, host),
        ends_with: command.ends_with,
        is_interrupted: &|| signals.received(),
    })
}
