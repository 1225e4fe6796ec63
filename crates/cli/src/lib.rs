//! The `euphrates` command line, shared by the bare program and the Python wheel.

mod column_names;
mod commands;
mod flow_file;
mod host;
mod line_output;
mod options;
mod progress;
mod runner;
mod signals;
mod subflows;
mod supervisor;
mod table;
mod terminal;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use euphrates_engine::cluster::served::connect_served_disks;
use euphrates_flow::secrets::redacted;

use commands::Arguments;
pub use euphrates_engine::cluster::options::ClusterOptions;
pub use host::{Bare, Host};
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
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output and is no failure. An error message quotes the
            // arguments, so secrets in them are redacted.
            let message = error.to_string();
            let _ = match redacted(&message) {
                plain if plain == message => error.print(),
                plain => std::io::stderr().write_all(plain.as_bytes()),
            };
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    let log = arguments.log;
    connect_served_disks();
    match commands::execute(arguments, host) {
        Ok(code) => code,
        Err(error) => {
            terminal::print_error(log, &error);
            error.kind().exit_code()
        }
    }
}
