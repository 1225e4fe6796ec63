//! `completion`: scripts that complete commands, options and values in a shell.

use clap::{Args, CommandFactory};
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
    let mut script = vec![];
    generate(command.shell, &mut Arguments::command(), "euphrates", &mut script);
    print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_all_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = vec![];
            generate(shell, &mut Arguments::command(), "euphrates", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
