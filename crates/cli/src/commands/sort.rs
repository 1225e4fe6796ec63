//! `sort`: sorts files or a collection into a file or a collection.

use std::path::Path;

use clap::Args;
use euphrates_flow::{Document, Error, Result};
use serde_json::json;

use crate::column_names;
use crate::options::ResourceOptions;
use crate::options::files::{FileOptions, no_output};
use crate::options::text::TextOptions;

/// Arguments of `euphrates sort`.
#[derive(Debug, Args)]
pub struct SortArguments {
    /// Files, folders, globs or s3:// addresses; or one @collection; or `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Where the rows go: a file, a folder/, a @collection, or `-` for standard output
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: Option<String>,
    /// Columns to sort by, most significant first, for example "price desc, name nulls first";
    /// nulls come last otherwise [default: the key of records, the whole line of text lines]
    #[arg(long, short = 'k')]
    pub by: Option<String>,
    /// Keep the order of rows with equal keys
    #[arg(long)]
    pub stable: bool,
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

impl SortArguments {
    /// The output behind the inputs, an outdated spelling. A file that exists there is an input
    /// whose output was forgotten, unless it is to be replaced.
    pub fn former_output(&self) -> Option<&str> {
        let (last, inputs) = self.inputs.split_last()?;
        let is_input = !self.files.overwrite && Path::new(last).exists();
        (self.output.is_none() && !inputs.is_empty() && !is_input).then_some(last)
    }
}

/// The flow that sorts.
pub fn flow(command: &SortArguments) -> Result<Document> {
    let (inputs, output) = match (&command.output, command.former_output()) {
        (Some(output), _) => (command.inputs.as_slice(), output.as_str()),
        (None, Some(output)) => (&command.inputs[..command.inputs.len() - 1], output),
        (None, None) => return Err(no_output("sorted", &command.inputs[0])),
    };
    let mut flow = Document::new("sort");
    let source = command.files.source(&mut flow, inputs, command.text.config(), command.stable)?;
    let by = keys(command, &inputs[0])?;
    let sort = flow.place("sort", json!({"by": by, "stable": command.stable}), None);
    let sink = command.files.sink(&mut flow, output)?;
    flow.attach(&source, &sort);
    flow.attach(&sort, &sink);
    Ok(flow)
}

/// The sort keys: the columns of `--by`, or else the default key of the input's format.
fn keys(command: &SortArguments, input: &str) -> Result<Vec<String>> {
    if let Some(by) = &command.by {
        return Ok(column_names::split(by, ',').into_iter().map(String::from).collect());
    }
    let packed = [".gz", ".bz2", ".zst"].iter().find_map(|packed| input.strip_suffix(packed));
    let ending = || packed.unwrap_or(input).rsplit_once('.').map(|(_, ending)| ending);
    match command.files.format.as_deref().or_else(ending) {
        Some("records" | "dat" | "gensort") => Ok(vec!["key".into()]),
        Some("lines" | "txt") => Ok(vec!["line".into()]),
        _ => Err(Error::usage("there are no columns to sort by").remedy(
            "name them: --by name, or --by 'price desc, name'; euphrates sql \"describe 'a.csv'\" \
             lists those of a.csv",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, Command};
    use clap::Parser;

    fn flow_of(words: &str) -> Result<Document> {
        let words = format!("euphrates sort {words}");
        match Arguments::try_parse_from(words.split_whitespace()).unwrap().command {
            Command::Sort(command) => flow(&command),
            _ => unreachable!(),
        }
    }

    #[test]
    fn text_options_configure_the_scan_only() {
        let flow =
            flow_of("a.csv -o b.csv --by a --types a=string --delimiter ; --no-header").unwrap();
        let config = &flow.modules[0].config;
        assert_eq!(config["types"], json!({"a": "string"}));
        assert_eq!((&config["delimiter"], &config["header"]), (&json!(";"), &json!(false)));
        assert!(!flow.modules[2].config.contains_key("delimiter"));
        let error = flow_of("@a -o b.csv --by a --no-header").unwrap_err().to_string();
        assert!(error.contains("a collection has its types"), "{error}");
    }

    #[test]
    fn an_existing_file_behind_the_inputs_is_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csv");
        std::fs::write(&path, "a\n").unwrap();
        let words = format!("a.csv {} --by a", path.display());
        let error = flow_of(&words).unwrap_err().to_string();
        assert!(error.contains("no output"), "{error}");
        assert!(flow_of(&format!("{words} --overwrite")).is_ok());
    }

    #[test]
    fn an_output_behind_the_inputs_still_works() {
        let new = flow_of("a.csv b.csv -o c.csv --by a").unwrap();
        assert_eq!(flow_of("a.csv b.csv c.csv --by a").unwrap().to_json(), new.to_json());
        let error = flow_of("a.csv --by a").unwrap_err().to_string();
        assert!(error.contains("-o sorted.csv"), "{error}");
    }
}
