//! `check`: checks a flow without running it, and explains how it would run.

use std::path::PathBuf;

use clap::Args;
use euphrates_engine::Options;
use euphrates_engine::run::consent::{self, CheckResult, Consent};
use euphrates_flow::Result;
use euphrates_flow::check::QueueUnit;

use crate::flow_file::{is_python, load, variables};
use crate::host::Host;
use crate::terminal::print;

/// Arguments of `euphrates check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// The value of a variable; JSON, or else text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Call the functions, classes and queries that the document names, to learn their columns.
    /// They run as this user: only for documents of people you trust. A Python file is run anyway
    #[arg(long)]
    pub trust: bool,
}

/// Checks the flow and prints its modules and queues.
pub fn run(command: CheckArguments, host: &dyn Host) -> Result<()> {
    let document = load(&command.flow, host)?;
    let options = Options { variables: variables(&command.params)?, ..Options::default() };
    // The command runs a Python file anyway, so it may call its functions as well.
    let consent = match command.trust || is_python(&command.flow) {
        true => Consent::Given,
        false => Consent::Withheld,
    };
    let seen = consent::check(&document, &host.registry(), &options, consent)?;
    print(&explain(&seen))
}

/// Describes how a flow would run: its modules, queues, and what was not checked.
pub(crate) fn explain(flow: &CheckResult) -> String {
    let extent = match flow.unchecked.is_empty() {
        true => "",
        false => " as far as it was checked",
    };
    let mut text = format!("flow `{}` is sound{extent}\n", flow.name);
    for node in &flow.nodes {
        text += &format!("  {} × {}: {}\n", node.id, node.count, node.spec.summary);
        text.extend(node.bound.extent.iter().map(|extent| format!("    {extent}\n")));
    }
    for edge in &flow.edges {
        let unit = if edge.unit == QueueUnit::Run { "whole runs" } else { "batches" };
        let (from, to) = (&flow.nodes[edge.from.0].id, &flow.nodes[edge.to.0].id);
        text +=
            &format!("  {from} → {to}: {:?} queue of {unit}, because {}\n", edge.kind, edge.why);
    }
    for node in &flow.unchecked {
        let why = match node.calls_user_code {
            true => "calls user code",
            false => "follows a module that calls user code",
        };
        text += &format!("  {} ({}) was not checked: it {why}\n", node.id, node.module);
    }
    if !flow.unchecked.is_empty() {
        text += "--trust checks these too, and calls the code that the flow names\n";
    }
    text
}
