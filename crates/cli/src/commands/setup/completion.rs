//! `completion`: scripts that complete commands, options and values in a shell.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory, ValueHint};
use clap_complete::{Shell, generate};
use euphrates_flow::Result;

use crate::commands::Arguments;
use crate::terminal::print;

/// Arguments of `euphrates completion`.
#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// The shell: bash, zsh, fish, elvish or powershell
    #[arg(hide_possible_values = true)]
    pub shell: Shell,
}

/// Prints the script.
pub fn run(command: &CompletionArguments) -> Result<()> {
    print(&script_for(command.shell))
}

fn script_for(shell: Shell) -> String {
    let mut script = vec![];
    generate(shell, &mut completed(&Arguments::command()), "euphrates", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Options with one of a few values, by their names. A parser of the command line that listed the
/// values would refuse others in its own words; the engine names the nearest one.
const VALUES: &[(&str, &[&str])] = &[
    ("format", &["csv", "json_lines", "parquet", "arrow_ipc", "records", "lines"]),
    ("output-format", &["csv", "json_lines", "parquet", "arrow_ipc", "records", "lines"]),
    ("output-compression", &["none", "snappy", "lz4", "zstd", "gzip", "bzip2"]),
    ("compression", &["none", "gzip", "bzip2", "zstd"]),
    ("how", &["inner", "left", "right", "full", "semi", "anti"]),
    ("build", &["auto", "left", "right"]),
    ("queues", &["late_binding", "static", "round_robin", "shortest", "credit", "sparrow"]),
    ("channel-security", &["tls", "token"]),
];

/// Arguments that are paths, and may be other things, too.
const PATHS: [&str; 5] = ["input", "inputs", "left", "right", "output"];

/// The command without its hidden arguments, and with the values that its options may have.
fn completed(command: &Command) -> Command {
    // A name lives as long as the program.
    let name: &'static str = command.get_name().to_string().leak();
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let mut copy = Command::new(name).args(shown.cloned().map(with_values));
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        let version: &'static str = version.to_string().leak();
        copy = copy.version(version);
    }
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    copy.subcommands(below.map(completed))
}

fn with_values(argument: Arg) -> Arg {
    let known = VALUES.iter().find(|(name, _)| argument.get_long() == Some(name));
    match known {
        Some((_, values)) => argument.value_parser(PossibleValuesParser::new(*values)),
        None if PATHS.contains(&argument.get_id().as_str()) => {
            argument.value_hint(ValueHint::AnyPath)
        }
        None => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

    #[test]
    fn scripts_know_all_commands() {
        for shell in SHELLS {
            let script = script_for(shell);
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn scripts_know_the_values_of_options_and_no_hidden_options() {
        for shell in SHELLS {
            let script = script_for(shell);
            for hidden in ["--threads", "-l threads", "former"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
        let zsh = script_for(Shell::Zsh);
        assert!(zsh.contains(":(csv json_lines parquet arrow_ipc records lines)"));
        let files = |line: &str| line.contains("inputs -- ") && line.contains(":_files");
        assert!(zsh.lines().any(files));
        let fish = script_for(Shell::Fish);
        assert!(fish.contains("parquet\\t''"));
        let bash = script_for(Shell::Bash);
        assert!(bash.contains("compgen -W \"inner left right full semi anti\""));
    }

    #[test]
    fn values_are_of_options_that_exist() {
        fn has(command: &Command, long: &str) -> bool {
            command.get_arguments().any(|argument| argument.get_long() == Some(long))
                || command.get_subcommands().any(|below| has(below, long))
        }
        for (name, _) in VALUES {
            assert!(has(&Arguments::command(), name), "{name}");
        }
    }
}
