//! Errors of the command line itself: what is wrong with its words, and what to type instead.

mod other_words;

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use euphrates_flow::Error;
use euphrates_flow::error::did_you_mean;
use euphrates_formats::format_of;

use self::other_words::{COMMANDS, OPTIONS, OptionAnswer};
use crate::commands::{Arguments, command_of};
use crate::spelling::{first_rows_of, shell_word};

/// The error of words that the grammar refuses; `None` where the message of the parser is enough.
/// `words` begin with the program's name.
pub fn explained(refused: &clap::Error, words: &[String]) -> Option<Error> {
    let mut root = Arguments::command();
    root.build();
    let command_before = |end: &str| {
        command_of(&root, words.iter().skip(1).map(String::as_str).take_while(|word| *word != end))
    };
    let text = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match refused.kind() {
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            let command = command_before(&word);
            Some(match word.starts_with('-') && !word.contains(char::is_whitespace) {
                true => unknown_option(&word, words, command),
                false => superfluous(&word, command),
            })
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            Some(unknown_command(&word, words, command_before(&word)))
        }
        ErrorKind::MissingRequiredArgument => match refused.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => Some(incomplete(missing, command_before("--"))),
            _ => None,
        },
        ErrorKind::ValueValidation => {
            // `sort -t ,` of coreutils; here, -t is the outdated name of --cores.
            let is_cores = text(ContextKind::InvalidArg)?.starts_with("--threads");
            let value = text(ContextKind::InvalidValue).filter(|_| is_cores)?;
            let error = Error::usage(format!("`{value}` is no number of cores"));
            let value = shell_word(&value);
            Some(error.remedy(format!("the character between fields is --delimiter {value}")))
        }
        _ => None,
    }
}

/// The name of a command with those above it: `euphrates file put`.
fn name_of(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn unknown_option(word: &str, words: &[String], command: &Command) -> Error {
    let error = Error::usage(format!("`{}` has no option {word}", name_of(command)));
    let has = |name: &str| long_options(command).any(|long| format!("--{long}") == name);
    let fits = |row: &&OptionAnswer| {
        row.others.contains(&word) && row.is_of(command.get_name()) && has(row.option())
    };
    match OPTIONS.iter().find(fits) {
        Some(OptionAnswer { answer, is_renamed: true, .. }) => {
            error.remedy(format!("write {answer}{}", with_renamed(word, answer, words)))
        }
        Some(OptionAnswer { answer, .. }) => error.remedy(format!("write {answer}")),
        None => {
            let near = did_you_mean(word.trim_start_matches('-'), long_options(command));
            let near = near.map(|name| format!("did you mean --{name}? "));
            let near = near.filter(|_| word.starts_with("--")).unwrap_or_default();
            error.remedy(format!("{near}`{} --help` lists its options", name_of(command)))
        }
    }
}

fn long_options(command: &Command) -> impl Iterator<Item = &str> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    shown.filter_map(|option| option.get_long())
}

/// The whole command line with an option renamed, behind a colon; nothing if the option stands
/// together with its value, as in `-kx`.
fn with_renamed(old: &str, new: &str, words: &[String]) -> String {
    let renamed = |word: &String| match word.strip_prefix(old) {
        Some("") => Some(new.to_string()),
        Some(rest) if rest.starts_with('=') => Some(format!("{new}{rest}")),
        _ => None,
    };
    if !words.iter().any(|word| renamed(word).is_some()) {
        return String::new();
    }
    let typed = words.iter().skip(1);
    let typed = typed.map(|word| shell_word(&renamed(word).unwrap_or_else(|| word.clone())));
    format!(": euphrates {}", typed.collect::<Vec<_>>().join(" "))
}

fn superfluous(word: &str, command: &Command) -> Error {
    if word.starts_with('-') {
        let error = Error::usage(format!("`{word}` begins like an option"));
        return error.remedy("write what is no option behind two hyphens: -- TEXT");
    }
    let error = Error::usage(format!("`{}` does not expect `{word}`", name_of(command)));
    match command.get_name() {
        "sql" => error.remedy(
            "write the whole query in double quotes, and paths in single quotes: euphrates sql \
             \"select * from 'sales.csv'\"",
        ),
        _ => error.remedy(example_of(command)),
    }
}

/// An example of the command, else where its help is.
fn example_of(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    match help.lines().find(|line| line.starts_with("  euphrates ")) {
        Some(example) => format!("for example: {}", example.trim()),
        None => format!("`{} --help` describes its arguments", name_of(command)),
    }
}

fn incomplete(missing: &[String], command: &Command) -> Error {
    let error = Error::usage(format!("`{}` needs {}", name_of(command), missing.join(", ")));
    error.remedy(example_of(command))
}

fn unknown_command(word: &str, words: &[String], parent: &Command) -> Error {
    let error = Error::usage(format!("`{}` has no command `{word}`", name_of(parent)));
    let names: Vec<&str> = parent.get_subcommands().map(Command::get_name).collect();
    let list = format!("commands: {}", names.join(", "));
    let is_top = name_of(parent) == parent.get_name();
    let own = COMMANDS.iter().find(|(others, _)| is_top && others.contains(&word));
    let answer = own.map(|(_, answer)| {
        let file = words.iter().skip(2).find(|word| is_data(word));
        format!("write {}", answer.replace("FILE", file.map_or("sales.csv", String::as_str)))
    });
    let near = || did_you_mean(word, names.iter().copied());
    let near = || near().map(|name| format!("did you mean `{} {name}`?", name_of(parent)));
    let answer = answer.or_else(|| is_top.then(|| content(word)).flatten()).or_else(near);
    error.remedy(match answer {
        Some(answer) => format!("{answer}\n  {list}"),
        None => list,
    })
}

/// What to do with a file or a statement in the place of a command.
fn content(word: &str) -> Option<String> {
    let first = word.split_whitespace().next()?.to_lowercase();
    let ending = Path::new(word).extension().and_then(|ending| ending.to_str());
    let path = shell_word(word);
    match ending {
        Some("py" | "json") => Some(format!("write euphrates run {path}")),
        Some("sql") => Some(format!("write euphrates sql --file {path}")),
        _ if is_data(word) => Some(format!("write {}", first_rows_of(word))),
        _ if word.contains(' ') && ["select", "with", "from"].contains(&first.as_str()) => {
            Some(format!("write euphrates sql {path}"))
        }
        _ => None,
    }
}

fn is_data(word: &str) -> bool {
    !word.starts_with('-') && format_of(word, None).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn refused(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(String::from).collect();
        let refused = Arguments::try_parse_from(&words).unwrap_err();
        explained(&refused, &words).unwrap().to_string()
    }

    #[test]
    fn options_of_other_tools_are_answered_with_the_command_line_to_type() {
        for (words, answer) in [
            ("sort a.csv --key x -o b", "write --by: euphrates sort a.csv --by x -o b"),
            ("sort a.csv --order-by=x;y", "write --by: euphrates sort a.csv '--by=x;y'"),
            ("join a b --using x -o c", "write --on: euphrates join a b --on x -o c"),
            ("sort a.csv -r", "write --by 'name desc'"),
            ("aggregate a --group-by x", "write --by: euphrates aggregate a --by x"),
            ("sort a.csv --stabel", "did you mean --stable?"),
            ("sort a.csv -t ;", "the character between fields is --delimiter ';'"),
            ("sort a.csv --zzz", "`euphrates sort --help` lists its options"),
        ] {
            let error = refused(&format!("euphrates {words}"));
            assert!(error.contains(answer), "{error}");
        }
    }

    #[test]
    fn unknown_commands_are_answered_with_the_nearest_and_all() {
        for (words, answer) in [
            ("sotr a.csv", "did you mean `euphrates sort`?"),
            ("head a.csv", "euphrates sql \"select * from 'a.csv' limit 10\""),
            ("a.csv", "euphrates sql \"select * from 'a.csv'\""),
            ("flow.py", "euphrates run flow.py"),
            ("qqqq", "commands: sort, sql, join"),
            ("file putt", "did you mean `euphrates file put`?"),
        ] {
            let error = refused(&format!("euphrates {words}"));
            assert!(error.contains(answer) && error.contains("commands: "), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_an_example() {
        let error = refused("euphrates join a.csv b.csv");
        assert!(error.contains("needs --output <OUTPUT>, --on <KEYS>"), "{error}");
        assert!(error.contains("for example: euphrates join sales.csv cities.csv --on"), "{error}");
    }

    #[test]
    fn a_query_without_quotes_is_named() {
        let error = refused("euphrates sql select x from a.csv");
        assert!(error.contains("the whole query in double quotes"), "{error}");
    }

    /// The words of a line for a shell, which has quotes but no variables.
    fn words_of(line: &str) -> Vec<String> {
        let (mut words, mut quote, mut word) = (vec![], None, String::new());
        for c in line.chars().chain([' ']) {
            match (c, quote) {
                (c, Some(open)) if c == open => quote = None,
                ('"' | '\'', None) => quote = Some(c),
                (' ', None) => {
                    words.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty()))
                }
                (c, _) => word.push(c),
            }
        }
        words
    }

    fn parses(line: &str) -> Result<(), clap::Error> {
        let words = words_of(line);
        let begin = words.iter().position(|word| word == "euphrates").unwrap();
        let is_word = |word: &&String| !["|", "<", ">"].contains(&word.as_str());
        match Arguments::try_parse_from(words[begin..].iter().take_while(is_word)) {
            Err(error) if error.use_stderr() => Err(error),
            _ => Ok(()),
        }
    }

    #[test]
    fn examples_in_the_help_are_accepted() {
        fn check(command: &Command, examples: &mut usize) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in
                help.lines().filter(|line| line.starts_with("  ") && line.contains("euphrates "))
            {
                parses(line).unwrap_or_else(|error| panic!("{line}: {error}"));
                *examples += 1;
            }
            command.get_subcommands().for_each(|below| check(below, examples));
        }
        let mut examples = 0;
        check(&Arguments::command(), &mut examples);
        assert!(examples > 10);
    }

    #[test]
    fn answers_for_options_name_options_that_exist_and_others_that_do_not() {
        let mut root = Arguments::command();
        root.build();
        for row in OPTIONS {
            let of = |command: &&Command| {
                row.is_of(command.get_name())
                    && long_options(command).any(|long| format!("--{long}") == row.option())
            };
            let commands: Vec<&Command> = root.get_subcommands().filter(of).collect();
            assert!(!commands.is_empty(), "no command has {}", row.option());
            for command in commands.iter().filter(|_| !row.commands.is_empty()) {
                for other in row.others {
                    let exists = long_options(command).any(|long| format!("--{long}") == *other);
                    assert!(!exists, "{} has {other}", command.get_name());
                }
            }
            for name in row.commands {
                assert!(commands.iter().any(|command| command.get_name() == *name), "{name}");
            }
        }
    }

    #[test]
    fn answers_for_commands_are_accepted() {
        for (others, answer) in COMMANDS {
            let line = answer.split(" (").next().unwrap();
            let line = line.split_once("euphrates").map(|(_, rest)| format!("euphrates{rest}"));
            parses(&line.unwrap()).unwrap_or_else(|error| panic!("{answer}: {error}"));
            let known = Arguments::command();
            let known = |name: &&str| known.find_subcommand(name).is_some();
            assert!(!others.iter().any(known), "{others:?}");
        }
    }
}
