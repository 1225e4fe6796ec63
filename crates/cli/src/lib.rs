//! The `euphrates` command line, shared by the bare program and the Python wheel.

mod column_names;
mod commands;
mod examples;
mod flow_file;
mod host;
mod line_output;
mod options;
mod progress;
mod runner;
mod signals;
mod spelling;
mod subflows;
mod supervisor;
mod table;
mod terminal;
mod usage_errors;
mod wrapping;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser};
use euphrates_engine::cluster::served::connect_served_disks;
use euphrates_flow::secrets::redacted;

use commands::{Arguments, command_of};
pub use euphrates_engine::cluster::options::ClusterOptions;
pub use host::{Bare, Host};
use options::Log;
pub use options::storage::apply as apply_storage;
pub use subflows::allow_subflows;

/// Runs the command line and returns its exit code: 0 ok, 1 flow failed, 2 usage, 3 corrupt data,
/// 4 resources, 130 interrupted.
///
/// ```
/// use euphrates_cli::{Bare, main};
/// use std::ffi::OsString;
///
/// assert_eq!(main(["euphrates", "cuont"].map(OsString::from), &Bare), 2, "no such command");
/// ```
pub fn main(arguments: impl IntoIterator<Item = OsString>, host: &dyn Host) -> u8 {
    let words: Vec<OsString> = arguments.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error, &words),
    };
    let log = arguments.log;
    let outdated = arguments.command.outdated();
    connect_served_disks();
    match commands::execute(arguments, host) {
        Ok(code) => {
            // Not before: an error is to be read first, and the next attempt may differ.
            terminal::warn_outdated(log, &outdated);
            code
        }
        Err(error) => {
            let (code, mut root) = (error.kind().exit_code(), Arguments::command());
            root.build();
            let words = words.iter().skip(1).filter_map(|word| word.to_str());
            terminal::print_error(log, &spelling::spelled(error, command_of(&root, words)));
            code
        }
    }
}

/// Prints help, or what is wrong with the arguments, and returns the exit code.
fn refuse(error: &clap::Error, words: &[OsString]) -> u8 {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into()).collect();
    if let Some(explained) = usage_errors::explained(error, &texts) {
        let is_json = |pair: &[String]| pair == ["--log", "json"];
        let is_json =
            texts.windows(2).any(is_json) || texts.iter().any(|word| word == "--log=json");
        terminal::print_error(if is_json { Log::Json } else { Log::Auto }, &explained);
        return explained.kind().exit_code();
    }
    // Help goes to standard output and is no failure. An error message quotes the arguments, so
    // secrets in them are redacted.
    if !error.use_stderr() {
        let help = error.render();
        let help = if terminal::is_coloured() { help.ansi().to_string() } else { help.to_string() };
        return u8::from(terminal::print(&wrapping::wrapped(&help)).is_err());
    }
    let message = error.to_string();
    let _ = match redacted(&message) {
        plain if plain == message => error.print(),
        plain => std::io::stderr().write_all(plain.as_bytes()),
    };
    2
}
