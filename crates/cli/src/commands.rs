//! The command line grammar, and the dispatch to one file for each command or pair of commands.

mod aggregate;
mod check;
mod cluster;
mod collections;
mod copy;
mod gc;
mod gensort;
mod join;
mod launch;
mod modules;
mod mount;
mod perturb;
mod ps;
mod run;
/// Setting up a machine and a shell.
mod setup {
    pub mod completion;
    pub mod doctor;
    mod trials;
}
mod show;
mod sim;
mod sort;
mod sql;
mod studio;
mod worker;

use clap::{Parser, Subcommand};
use euphrates_engine::machine;
use euphrates_flow::Result;
use euphrates_store::commit;

use crate::examples;
use crate::host::Host;
use crate::options::{Log, ResourceOptions};
use crate::runner::run_or_print;

/// Sort, shuffle and move data at the speed your machines have.
#[derive(Debug, Parser)]
// The name is fixed, because the wheel runs as `python -c`.
#[command(name = "euphrates", bin_name = "euphrates", version)]
#[command(max_term_width = 100, arg_required_else_help = true, after_help = examples::ALL)]
pub struct Arguments {
    /// Format of progress, reports and errors.
    #[arg(long, global = true, value_enum, default_value_t = Log::Auto)]
    pub log: Log,
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sort the rows of files or of a collection.
    #[command(after_help = examples::SORT)]
    Sort(sort::SortArguments),
    /// Run an SQL query over files and collections.
    #[command(after_help = examples::SQL)]
    Sql(sql::SqlArguments),
    /// Join the rows of two files or collections.
    #[command(after_help = examples::JOIN)]
    Join(join::JoinArguments),
    /// Group the rows of a file or a collection, and compute sums, counts and the like.
    #[command(after_help = examples::AGGREGATE)]
    Aggregate(aggregate::AggregateArguments),
    /// Make the sort benchmark's records (as gensort 1.5).
    Gensort(gensort::Gensort),
    /// Check that the sort benchmark's records are in order (as valsort 1.5).
    Valsort(gensort::Valsort),
    /// Read standard input into a collection.
    #[command(after_help = examples::COPY_IN)]
    CopyIn(copy::CopyInArguments),
    /// Write a collection to standard output.
    #[command(after_help = examples::COPY_OUT)]
    CopyOut(copy::CopyOutArguments),
    /// List the collections of the home folder.
    Ls(collections::Ls),
    /// Describe a collection (schema, segments, sizes), or list the columns of a file.
    Describe(collections::Describe),
    /// Check collections: read every copy of every block, and compare checksums.
    Verify(collections::CollectionNames),
    /// Rewrite damaged or lost parts of mirrored collections from their mirrors.
    Repair(collections::CollectionNames),
    /// Remove collections, with all their copies.
    Rm(collections::CollectionNames),
    /// Write, read and maintain striped files: bytes across many disks, with parity.
    File(collections::striped::FileArguments),
    /// Mount the striped files as a folder, in which any program reads and writes them.
    Mount(mount::MountArguments),
    /// Run a flow: a document, or a Python file that builds one.
    #[command(after_help = examples::RUN)]
    Run(run::RunArguments),
    /// Run a flow with a part slowed down, and report what that cost.
    #[command(after_help = perturb::WHEN_HELP)]
    Perturb(perturb::Perturb),
    /// Print the report of a run from its event log, or how far the run came.
    Report(run::report::ReportArguments),
    /// Check a flow without running it, and explain how it would run.
    #[command(after_help = examples::CHECK)]
    Check(check::CheckArguments),
    /// Show a flow as a picture or as a document.
    #[command(after_help = examples::SHOW)]
    Show(show::Show),
    /// Print the Python or Rust code that builds a flow.
    Code(show::Code),
    /// List the modules, which are the operators of flows, or describe one.
    Modules(modules::Modules),
    /// Simulate scheduling on a cluster of up to ten thousand nodes.
    Sim(sim::Sim),
    /// Edit flows in the browser, run them, and see where they are slow.
    Studio(studio::StudioArguments),
    /// Run a worker, which executes flows for the programs that use its cluster.
    #[command(after_help = examples::WORKER)]
    Worker(worker::WorkerArguments),
    /// Keep a cluster, which workers join, and on which any number of programs run flows.
    Cluster(cluster::ClusterCommand),
    /// Drain a worker of a cluster: it finishes the flows that use it, and leaves.
    Drain(cluster::DrainArguments),
    /// Make the token of a cluster: the secret that its workers and programs share.
    Token(cluster::Token),
    /// Remove what killed processes have left: temporary files and unfinished output.
    Gc(gc::Gc),
    /// Run any program on the workers of a cluster, and print its output.
    #[command(after_help = examples::LAUNCH)]
    Launch(launch::LaunchCommand),
    /// List the flows and programs that run on a cluster.
    Ps(ps::Ps),
    /// End flows and programs that run on a cluster.
    Kill(ps::Kill),
    /// Measure this machine (cores, memory, disks, connections) and recommend changes.
    Doctor,
    /// Sort and query generated data, slow a part of a flow down, and print the reports.
    Demo {
        /// A tenth of the data.
        #[arg(long)]
        small: bool,
    },
    /// Print a script that completes commands and options in a shell.
    Completion(setup::completion::CompletionArguments),
}

impl Command {
    /// The outdated spellings among the arguments, each with its replacement.
    pub fn outdated(&self) -> Vec<(&'static str, String)> {
        let output = match self {
            Command::Sort(command) => command.former_output(),
            Command::Aggregate(command) => command.former_output.as_deref(),
            _ => None,
        };
        let output = output.map(|path| ("an output behind the inputs", format!("-o {path}")));
        let threads = self.resources().and_then(|resources| resources.threads);
        let threads = threads.map(|count| ("--threads (-t)", format!("--cores {count}")));
        output.into_iter().chain(threads).collect()
    }

    /// The resource options of a command that runs a flow.
    fn resources(&self) -> Option<&ResourceOptions> {
        Some(match self {
            Command::Sort(command) => &command.resources,
            Command::Sql(command) => &command.resources,
            Command::Join(command) => &command.resources,
            Command::Aggregate(command) => &command.resources,
            Command::CopyIn(command) => &command.resources,
            Command::CopyOut(command) => &command.resources,
            Command::Run(command) => &command.resources,
            Command::Perturb(command) => &command.resources,
            _ => return None,
        })
    }
}

/// The command, or the command below it, that words name; `root` if they name none.
pub fn command_of<'a, 'b>(
    root: &'a clap::Command,
    words: impl Iterator<Item = &'b str>,
) -> &'a clap::Command {
    words.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// Executes one command and returns its exit code; a few commands have codes of their own.
pub fn execute(arguments: Arguments, host: &dyn Host) -> Result<u8> {
    let log = arguments.log;
    use Command::{Describe, Ls, Repair, Rm, Verify};
    if matches!(arguments.command, Ls(_) | Describe(_) | Verify(_) | Repair(_) | Rm(_)) {
        // A flow that died after its commit decision may not have made its output visible yet.
        commit::resolve(&machine::home());
    }
    match arguments.command {
        Command::Sort(command) => {
            run_or_print(&sort::flow(&command)?, &command.files, &command.resources, log, host)
        }
        Command::Join(command) => {
            run_or_print(&join::flow(&command)?, &command.files, &command.resources, log, host)
        }
        Command::Aggregate(command) => {
            run_or_print(&aggregate::flow(&command)?, &command.files, &command.resources, log, host)
        }
        Command::Sql(command) => sql::run(&command, log, host),
        Command::Gensort(command) => gensort::generate(command),
        Command::Valsort(command) => return gensort::validate(command),
        Command::CopyIn(command) => copy::copy_in(command, log, host),
        Command::CopyOut(command) => copy::copy_out(command, log, host),
        Command::Ls(command) => return collections::ls(command, log),
        Command::Describe(command) => collections::describe(command, log, host),
        Command::Verify(command) => return Ok(collections::verify(command, log)),
        Command::Repair(command) => return Ok(collections::repair(command, log)),
        Command::Rm(command) => collections::rm(command),
        Command::File(command) => return collections::striped::run(command, log),
        Command::Mount(command) => mount::run(command, log),
        Command::Run(command) => run::run(command, log, host),
        Command::Perturb(command) => perturb::run(command, log, host),
        Command::Report(command) => run::report::run(&command),
        Command::Check(command) => check::run(command, host),
        Command::Show(command) => show::show(command, host),
        Command::Code(command) => show::code(command, host),
        Command::Modules(command) => modules::run(command, host),
        Command::Sim(command) => sim::run(command),
        Command::Studio(command) => studio::run(command, host),
        Command::Worker(command) => return worker::run(command, host),
        Command::Cluster(command) => cluster::run(command),
        Command::Drain(command) => cluster::drain(command),
        Command::Token(command) => cluster::token(command),
        Command::Gc(command) => gc::run(command),
        Command::Launch(command) => return launch::run(command, log, host),
        Command::Ps(command) => ps::ps(command, host),
        Command::Kill(command) => ps::kill_all(command, host),
        Command::Doctor => setup::doctor::run(),
        Command::Demo { small } => host.demo(small),
        Command::Completion(command) => setup::completion::run(&command),
    }
    .map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn usage_names_the_command_whatever_the_program_is_called() {
        for called in ["euphrates", "-c", "/somewhere/__main__.py"] {
            let wrong = Arguments::try_parse_from([called, "worker", "--bogus"]).unwrap_err();
            assert!(wrong.to_string().contains("Usage: euphrates worker "), "{wrong}");
        }
    }
}
