//! `aggregate`: groups a file or a collection, and computes values of each group.

use clap::Args;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

use crate::column_names;
use crate::options::ResourceOptions;
use crate::options::files::{FileOptions, no_output};
use crate::options::text::TextOptions;

/// Arguments of `euphrates aggregate`.
#[derive(Debug, Args)]
pub struct AggregateArguments {
    /// A file, folder, glob, s3:// address, @collection, or `-` for standard input
    pub input: String,
    /// The former place of the output.
    #[arg(hide = true, conflicts_with = "output")]
    pub former_output: Option<String>,
    /// Where the rows go: a file, a folder/, a @collection, or `-` for standard output
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: Option<String>,
    /// Columns whose values make a group, like "city, year"; a name with a comma stands in double
    /// quotes [default: all rows are one group]
    #[arg(long, value_name = "COLUMNS")]
    pub by: Option<String>,
    /// A column of the result, its name and an expression, like "total=sum(price)"; may be repeated
    #[arg(long = "value", value_name = "NAME=WHAT")]
    pub values: Vec<String>,
    /// Formats of input and output.
    #[command(flatten)]
    pub files: FileOptions,
    /// Options of text input.
    #[command(flatten)]
    pub text: TextOptions,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// The flow that aggregates.
pub fn flow(command: &AggregateArguments) -> Result<Document> {
    let output = command.output.as_ref().or(command.former_output.as_ref());
    let output = output.ok_or_else(|| no_output("groups", &command.input))?;
    let mut flow = Document::new("aggregate");
    let (input, text) = (std::slice::from_ref(&command.input), command.text.config());
    let source = command.files.source(&mut flow, input, text, false)?;
    let by =
        command.by.iter().flat_map(|by| column_names::split(by, ',')).map(column_names::unquoted);
    let by: Vec<&str> = by.collect();
    let mut values = Map::new();
    for text in &command.values {
        let (name, what) = value(text)?;
        if values.insert(name.into(), what.into()).is_some() {
            let error = Error::usage(format!("two values are named `{name}`"));
            return Err(error.remedy("give one of them another name"));
        }
    }
    let config = json!({"by": by, "values": Value::Object(values)});
    let aggregate = flow.place("aggregate", config, None);
    let sink = command.files.sink(&mut flow, output)?;
    flow.attach(&source, &aggregate);
    flow.attach(&aggregate, &sink);
    Ok(flow)
}

/// Splits `NAME=WHAT`; quotes around the name are removed.
fn value(text: &str) -> Result<(&str, &str)> {
    let named = |name: &str| !name.is_empty() && (name.starts_with('"') || !name.contains('('));
    let parts = column_names::split_once(text, '=').filter(|(name, _)| named(name));
    parts.map(|(name, what)| (column_names::unquoted(name), what)).ok_or_else(|| {
        let error = Error::usage(format!("`{text}` has no name"));
        error.remedy("write it like --value 'total=sum(price)'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, Command};
    use clap::Parser;

    fn flow_of(words: &str) -> Result<Document> {
        let words = format!("euphrates aggregate {words}");
        match Arguments::try_parse_from(words.split_whitespace()).unwrap().command {
            Command::Aggregate(command) => flow(&command),
            _ => unreachable!(),
        }
    }

    #[test]
    fn arguments_become_a_flow() {
        let flow = flow_of("@a -o b.csv --by x,y --value n=count() --value total=sum(v)").unwrap();
        let kinds: Vec<&str> = flow.modules.iter().map(|node| node.module.as_str()).collect();
        assert_eq!(kinds, ["read", "aggregate", "save"]);
        let config = json!({"by": ["x", "y"], "values": {"n": "count()", "total": "sum(v)"}});
        assert_eq!(Value::Object(flow.modules[1].config.clone()), config);
    }

    #[test]
    fn unnamed_and_duplicate_values_are_errors() {
        for (words, said) in [
            ("a b --value sum(v)", "`sum(v)` has no name"),
            ("a b --value sum(a=b)", "`sum(a=b)` has no name"),
            ("a b --value n=count() --value n=sum(v)", "two values are named `n`"),
        ] {
            let error = flow_of(words).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
