//! Spells the options in remedies as the command line has them.
//!
//! Remedies name options as Python does, in backticks (`overwrite=True`), because one error serves
//! both. The command line translates those that its command has; the others stay as they are.

use clap::{Arg, Command};
use euphrates_flow::Error;

/// The error with the options of its remedy in the spelling of `command`.
pub fn spelled(error: Error, command: &Command) -> Error {
    let remedy = error.advice().map(|advice| {
        let advice = options_spelled(advice, command);
        if EDITS_NO_FLOW.contains(&command.get_name()) { in_sql(&advice, command) } else { advice }
    });
    match remedy {
        Some(remedy) => error.better_remedy(remedy),
        None => error,
    }
}

/// Commands whose flow the user has not written, and can place no modules in.
const EDITS_NO_FLOW: [&str; 4] = ["sql", "sort", "join", "aggregate"];

/// Steps that a user of flows places as a module, and a query has as words.
const MODULES_IN_SQL: [(&str, &str); 3] = [
    ("place a `project` before one of them", "convert the columns of one of them"),
    ("with a `project`", "with CAST(… AS …)"),
    ("in a `project`", "with AS"),
];

/// The text with modules as words of SQL, which commands other than `sql` have not.
fn in_sql(text: &str, command: &Command) -> String {
    let Some((module, words)) = MODULES_IN_SQL.iter().find(|(module, _)| text.contains(module))
    else {
        return text.to_string();
    };
    let text = text.replace(module, words);
    if command.get_name() == "sql" { text } else { format!("{text}, in a query: `euphrates sql`") }
}

/// The text with each `name=value` in backticks that is an option of `command` in its spelling.
pub fn options_spelled(text: &str, command: &Command) -> String {
    let parts = text.split('`').enumerate().map(|(number, part)| {
        let option = (number % 2 == 1).then(|| option_of(part, command)).flatten();
        option.unwrap_or_else(|| part.to_string())
    });
    parts.collect::<Vec<_>>().join("`")
}

/// `--name value` for Python's `name=value`; `None` if the command has no such option.
fn option_of(text: &str, command: &Command) -> Option<String> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = match (name, value) {
        ("mode", "\"append\"") => ("append", "True"),
        ("mode", "\"overwrite\"") => ("overwrite", "True"),
        other => other,
    };
    let name = name.replace('_', "-");
    let has = |long: &str| command.get_arguments().any(|option| option.get_long() == Some(long));
    let takes_value = |option: &Arg| option.get_action().takes_values();
    let option = command.get_arguments().find(|option| option.get_long() == Some(&name));
    match (option, value) {
        (Some(option), value) if takes_value(option) => {
            Some(format!("--{name} {}", shell_word(&plain_value(value))))
        }
        (Some(_), "True") => Some(format!("--{name}")),
        (None, "False") if has(&format!("no-{name}")) => Some(format!("--no-{name}")),
        _ => None,
    }
}

/// A text of Python without its quotes, or a pair of a dictionary as `name=value`.
fn plain_value(value: &str) -> String {
    let unquoted = |text: &str| text.trim_matches('"').to_string();
    let pair = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match pair.and_then(|pair| pair.split_once(": ")) {
        Some((name, value)) => format!("{}={}", unquoted(name), unquoted(value)),
        None => unquoted(value),
    }
}

/// A word as it is typed in a shell: quoted if the shell would change it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    match word.contains('\'') && !word.contains(['"', '$', '`', '\\', '!']) {
        true => format!("\"{word}\""),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The command line that prints the first rows of a file.
pub fn first_rows_of(path: &str) -> String {
    let query = format!("select * from '{}'", path.replace('\'', "''"));
    format!("euphrates sql {}", shell_word(&query))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, command_of};
    use clap::CommandFactory;

    #[test]
    fn options_of_the_command_are_spelled_as_it_has_them() {
        let root = Arguments::command();
        for (words, python, ours) in [
            ("sort", "replace it: `overwrite=True`", "replace it: `--overwrite`"),
            (
                "sort",
                r#"give `format="csv"` or `header=False`"#,
                "give `--format csv` or `--no-header`",
            ),
            ("sort", r#"`delimiter=";"`"#, "`--delimiter ';'`"),
            ("sort", r#"`delimiter="\t"`"#, r"`--delimiter '\t'`"),
            ("sort", r#"`types={"zip": "string"}`"#, "`--types zip=string`"),
            ("file put", "`data=2`", "`--data 2`"),
            ("sort", "`mode=\"append\"`, `mode=\"overwrite\"`", "`--append`, `--overwrite`"),
            ("sort", "`on_error=\"skip\"`", "`on_error=\"skip\"`"),
            ("run", "`overwrite=True`", "`overwrite=True`"),
            ("sort", "did you mean `format`?", "did you mean `format`?"),
        ] {
            let command = command_of(&root, words.split(' '));
            assert_eq!(options_spelled(python, command), ours);
        }
    }

    #[test]
    fn modules_are_words_of_sql_where_no_flow_is_written() {
        let root = Arguments::command();
        let error = || Error::usage("x").remedy("cast one with a `project` before the join");
        for (words, remedy) in [
            ("sql", "cast one with CAST(… AS …) before the join"),
            ("join", "cast one with CAST(… AS …) before the join, in a query: `euphrates sql`"),
            ("run", "cast one with a `project` before the join"),
        ] {
            let error = spelled(error(), command_of(&root, words.split(' ')));
            assert_eq!(error.advice(), Some(remedy));
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (word, typed) in [
            ("a.csv", "a.csv"),
            ("", "''"),
            ("price desc", "'price desc'"),
            ("select 1 from 'a.csv'", "\"select 1 from 'a.csv'\""),
            ("it's $5", r"'it'\''s $5'"),
        ] {
            assert_eq!(shell_word(word), typed);
        }
    }
}
