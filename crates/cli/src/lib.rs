//! The `euphrates` command, for the wheel and for `cargo install` alike.

mod aggregate;
mod arguments;
mod collections;
mod copy;
mod doctor;
mod ends;
mod flows;
mod gc;
mod gensort;
mod join;
mod keep;
mod kept;
mod launch;
mod lines;
mod names;
mod perturb;
mod progress;
mod ps;
mod rows;
mod run;
mod signals;
mod sim;
mod sort;
mod studio;
mod style;
mod worker;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use euphrates_engine::cluster::Cluster;
use euphrates_engine::cluster::open::open;
use euphrates_engine::machine;
use euphrates_flow::secrets::hidden;
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_io::commit;

use arguments::{Arguments, Command};
pub use euphrates_engine::cluster::options::ClusterOptions;

/// What the command line needs of the program it lives in.
pub trait Host {
    /// The modules flows can be made of.
    fn registry(&self) -> Registry;
    /// The flow a Python file builds. If the document is kept beyond this process, it must not
    /// hold what lives in this process only.
    fn flow_of_python(&self, path: &Path, is_kept: bool) -> Result<Document>;
    /// The flow a Python file builds and the modules that it defines, as JSON on one line.
    fn script(&self, path: &Path) -> Result<String>;
    /// What starts this program once more, with a command behind it.
    fn program(&self) -> Vec<OsString>;
    /// What starts a worker of this program.
    fn worker_command(&self) -> Vec<OsString> {
        self.program().into_iter().chain(["worker".into()]).collect()
    }
    /// What it is started with in its environment, besides this program's.
    fn worker_environment(&self) -> Vec<(OsString, OsString)> {
        vec![]
    }
    /// This process is a worker from now on: the modules that it runs parts of flows with.
    fn worker_registry(&self) -> Registry {
        self.registry()
    }
    /// Opens a cluster by the words it is asked for with.
    fn open_cluster(&self, words: &str, options: &ClusterOptions) -> Result<Arc<Cluster>> {
        open(words, options)
    }
}

/// The bare program: built-in modules, no Python.
pub struct Bare;

impl Host for Bare {
    fn registry(&self) -> Registry {
        euphrates_modules::registry()
    }

    fn flow_of_python(&self, path: &Path, _: bool) -> Result<Document> {
        Err(no_python(path))
    }

    fn script(&self, path: &Path) -> Result<String> {
        Err(no_python(path))
    }

    fn program(&self) -> Vec<OsString> {
        vec![std::env::current_exe().map_or("euphrates".into(), |path| path.into())]
    }
}

fn no_python(path: &Path) -> Error {
    Error::usage(format!("{path:?} is a Python file, and this program has no Python"))
        .remedy("install the wheel (`pip install euphrates`), or give the flow as JSON")
}

/// Runs the command line and returns its exit code: 0 ok, 1 flow failed, 2 usage, 3 corrupt data,
/// 4 resources, 130 interrupted.
pub fn main(arguments: impl IntoIterator<Item = OsString>, host: &dyn Host) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output and is no failure. A complaint repeats what was given.
            let told = error.to_string();
            let _ = match hidden(&told) {
                plain if plain == told => error.print(),
                plain => std::io::stderr().write_all(plain.as_bytes()),
            };
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    let log = arguments.log;
    match dispatch(arguments, host) {
        Ok(code) => code,
        Err(error) => {
            style::complain(log, &error);
            error.kind().exit_code()
        }
    }
}

fn dispatch(arguments: Arguments, host: &dyn Host) -> Result<u8> {
    let log = arguments.log;
    use Command::{Describe, Ls, Repair, Rm, Verify};
    if matches!(arguments.command, Ls(_) | Describe(_) | Verify(_) | Repair(_) | Rm(_)) {
        // What a dead flow has decided is there, though it may not be visible yet.
        commit::resolve(&machine::home());
    }
    match arguments.command {
        Command::Sort(command) => sort::run(command, log, host),
        Command::Join(command) => join::run(command, log, host),
        Command::Aggregate(command) => aggregate::run(command, log, host),
        Command::Gensort(command) => gensort::generate(command),
        Command::Valsort(command) => gensort::validate(command),
        Command::CopyIn(command) => copy::copy_in(command, log, host),
        Command::CopyOut(command) => copy::copy_out(command, log, host),
        Command::Ls(command) => collections::ls(command, log),
        Command::Describe(command) => collections::describe(command, log),
        Command::Verify(command) => collections::verify(command, log),
        Command::Repair(command) => collections::repair(command, log),
        Command::Rm(command) => collections::rm(command),
        Command::Run(command) => flows::run(command, log, host),
        Command::Perturb(command) => perturb::run(command, log, host),
        Command::Check(command) => flows::check(command, host),
        Command::Show(command) => flows::show(command, host),
        Command::Code(command) => flows::code(command, host),
        Command::Modules(command) => flows::modules(command, host),
        Command::Sim(command) => sim::run(command),
        Command::Studio(command) => studio::run(command, host),
        Command::Worker(command) => worker::run(command, host),
        Command::Cluster(command) => keep::keep(command),
        Command::Token(command) => keep::token(command),
        Command::Gc(command) => gc::run(command),
        Command::Launch(command) => launch::run(command, log, host),
        Command::Ps(command) => ps::ps(command, host),
        Command::Kill(command) => ps::end(command, host),
        Command::Doctor => doctor::run(),
    }
}

/// Writes to standard output; a reader that has gone away is no failure.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(()),
    }
}
