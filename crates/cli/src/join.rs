//! `join`: two files or collections in, a file or a collection out.

use clap::Args;
use euphrates_flow::document::Port;
use euphrates_flow::{Document, Result};
use serde_json::{Map, Value, json};

use crate::arguments::{Log, Resources};
use crate::{Host, run as drive};

/// `euphrates join`
#[derive(Debug, Args)]
pub struct Join {
    /// A file, folder, glob, s3:// address or @collection
    pub left: String,
    /// Another one
    pub right: String,
    /// A file or a @collection
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: String,
    /// Columns that must be equal, like "id, day", or "id=customer_id" if they differ in name
    #[arg(long, value_name = "KEYS")]
    pub on: String,
    /// Which rows come out: inner, left, right, full, semi or anti
    #[arg(long, default_value = "inner")]
    pub how: String,
    /// What else must be true of a pair, in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// The side that is held in memory: left, right or auto, the one with fewer bytes
    /// [default: auto]
    #[arg(long)]
    pub build: Option<String>,
    /// Stands behind names of the right that the left has too [default: _right]
    #[arg(long)]
    pub suffix: Option<String>,
    /// Replace the output if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// What the flow may use.
    #[command(flatten)]
    pub resources: Resources,
}

/// Runs it.
pub fn run(command: Join, log: Log, host: &dyn Host) -> Result<u8> {
    let document = flow(&command);
    drive::run(&document, &host.registry(), &drive::options(&command.resources, host)?, log)?;
    Ok(0)
}

fn flow(command: &Join) -> Document {
    let mut flow = Document::new("join");
    let [left, right] = [&command.left, &command.right].map(|path| match path.strip_prefix('@') {
        Some(name) => flow.place("read", json!({"collection": name}), None),
        None => flow.place("scan", json!({"path": path}), None),
    });
    let mut config = Map::new();
    config.insert("on".into(), command.on.split(',').map(key).collect());
    config.insert("how".into(), command.how.as_str().into());
    let given =
        [("where", &command.condition), ("build", &command.build), ("suffix", &command.suffix)];
    for (name, value) in given {
        config.extend(value.as_ref().map(|value| (name.into(), value.as_str().into())));
    }
    let join = flow.place("join", Value::Object(config), None);
    let overwrite = command.overwrite;
    let sink = match command.output.strip_prefix('@') {
        Some(name) => {
            flow.place("write", json!({"collection": name, "overwrite": overwrite}), None)
        }
        None => flow.place("save", json!({"path": command.output, "overwrite": overwrite}), None),
    };
    flow.attach(&left, &join).input = Some(Port::Name("left".into()));
    flow.attach(&right, &join).input = Some(Port::Name("right".into()));
    flow.attach(&join, &sink);
    flow
}

/// `name`, or `name=other`.
fn key(text: &str) -> Value {
    match text.split_once('=') {
        Some((left, right)) => json!({"left": left.trim(), "right": right.trim()}),
        None => text.trim().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn words_become_a_flow() {
        let words = "euphrates join a.csv @b -o c.parquet --on x,y=z --how left --where v>w";
        let command = Arguments::try_parse_from(words.split_whitespace()).unwrap().command;
        let Command::Join(command) = command else { unreachable!() };
        let flow = flow(&command);
        let kinds: Vec<&str> = flow.modules.iter().map(|node| node.module.as_str()).collect();
        assert_eq!(kinds, ["scan", "read", "join", "save"]);
        let config = json!({
            "on": ["x", {"left": "y", "right": "z"}], "how": "left", "where": "v>w",
        });
        assert_eq!(Value::Object(flow.modules[2].config.clone()), config);
    }
}
