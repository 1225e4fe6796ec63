//! `sort`: files or a collection in, a file or a collection out.

use euphrates_engine::master::prepare;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value, json};

use crate::arguments::{Log, Sort};
use crate::{Host, print, run as drive};

/// `euphrates sort`
pub fn run(command: Sort, log: Log, host: &dyn Host) -> Result<u8> {
    let document = flow(&command)?;
    let options = drive::options(&command.resources, host)?;
    if command.print {
        let checked = prepare(&document, &host.registry(), &options)?;
        print(&format!("{}\n", checked.document.to_json()))?;
    } else {
        drive::run(&document, &host.registry(), &options, log)?;
    }
    Ok(0)
}

fn flow(command: &Sort) -> Result<Document> {
    let (output, inputs) = command.paths.split_last().expect("clap asks for two");
    let mut flow = Document::new("sort");
    let text = command.text.config();
    let source = match collection(&inputs[0]) {
        Some(_) if !text.is_empty() => {
            let error = Error::usage("a collection has its types, and no header or delimiter");
            return Err(error.remedy("leave out --types, --delimiter and --no-header"));
        }
        Some(name) if inputs.len() == 1 => {
            flow.place("read", json!({"collection": name, "order": command.stable}), None)
        }
        Some(_) => return Err(Error::usage("a collection cannot be mixed with other inputs")),
        None => {
            let mut config = text;
            config.insert("path".into(), json!(inputs));
            config.extend(command.format.clone().map(|format| ("format".into(), format.into())));
            config.insert("order".into(), command.stable.into());
            flow.place("scan", Value::Object(config), None)
        }
    };
    let by = keys(command, &inputs[0])?;
    let sort = flow.place("sort", json!({"by": by, "stable": command.stable}), None);
    let sink = match collection(output) {
        Some(name) => {
            flow.place("write", json!({"collection": name, "overwrite": command.overwrite}), None)
        }
        None => {
            let mut config = Map::new();
            config.insert("path".into(), output.as_str().into());
            let format = command.output_format.clone().or_else(|| same_format(command, output));
            config.extend(format.map(|format| ("format".into(), format.into())));
            config.insert("overwrite".into(), command.overwrite.into());
            flow.place("save", Value::Object(config), None)
        }
    };
    flow.attach(&source, &sort);
    flow.attach(&sort, &sink);
    Ok(flow)
}

/// `@name`.
fn collection(path: &str) -> Option<&str> {
    path.strip_prefix('@')
}

/// The columns named by `--by`, or those that a format is always sorted by.
fn keys(command: &Sort, input: &str) -> Result<Vec<String>> {
    if let Some(by) = &command.by {
        return Ok(by.split(',').map(|key| key.trim().to_string()).collect());
    }
    let format = command.format.as_deref().or_else(|| input.rsplit_once('.').map(|(_, end)| end));
    match format {
        Some("records" | "dat" | "gensort") => Ok(vec!["key".into()]),
        Some("lines" | "txt") => Ok(vec!["line".into()]),
        _ => Err(Error::usage("sort by what?").remedy("name columns: --by 'price desc, name'")),
    }
}

/// An output whose name says nothing is of the input's format, if that was given.
fn same_format(command: &Sort, output: &str) -> Option<String> {
    let name = output.rsplit('/').next().unwrap_or(output);
    command.format.clone().filter(|_| !name.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn flow_of(words: &str) -> Result<Document> {
        let words = format!("euphrates sort {words}");
        match Arguments::try_parse_from(words.split_whitespace()).unwrap().command {
            Command::Sort(command) => flow(&command),
            _ => unreachable!(),
        }
    }

    #[test]
    fn how_the_input_is_read_is_told_to_scan_alone() {
        let flow =
            flow_of("a.csv b.csv --by a --types a=string --delimiter ; --no-header").unwrap();
        let config = &flow.modules[0].config;
        assert_eq!(config["types"], json!({"a": "string"}));
        assert_eq!((&config["delimiter"], &config["header"]), (&json!(";"), &json!(false)));
        assert!(!flow.modules[2].config.contains_key("delimiter"));
        let error = flow_of("@a b.csv --by a --no-header").unwrap_err().to_string();
        assert!(error.contains("a collection has its types"), "{error}");
    }
}
