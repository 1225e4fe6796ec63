//! `join`: joins two files or collections into a file or a collection.

use clap::Args;
use euphrates_flow::document::Port;
use euphrates_flow::{Document, Result};
use serde_json::{Map, Value, json};

use crate::column_names;
use crate::options::ResourceOptions;
use crate::options::files::{FileOptions, collection};
use crate::options::text::{TextFormat, given, parse_type, typed};

/// Arguments of `euphrates join`.
#[derive(Debug, Args)]
pub struct JoinArguments {
    /// A file, folder, glob, s3:// address, @collection, or `-` for standard input
    pub left: String,
    /// The file, folder, glob, s3:// address or @collection to join LEFT with
    pub right: String,
    /// Where the rows go: a file, a folder/, a @collection, or `-` for standard output
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    pub output: String,
    /// Columns that must be equal, like "id, day", or "id=customer_id" if they differ in name; a
    /// name with a comma or an equals sign stands in double quotes
    #[arg(long, value_name = "KEYS")]
    pub on: String,
    /// Which rows come out: inner, left, right, full, semi or anti
    #[arg(long, default_value = "inner")]
    pub how: String,
    /// Another condition on each pair of rows, in SQL: 'price > low'
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// The side that is held in memory: left, right or auto, the one with fewer bytes
    /// [default: auto]
    #[arg(long)]
    pub build: Option<String>,
    /// Added to names of right columns that the left has, too [default: _right]
    #[arg(long)]
    pub suffix: Option<String>,
    /// CSV, JSON lines: the type of a column of LEFT, like zip=string; may be repeated
    #[arg(long, value_name = "COLUMN=TYPE", value_parser = parse_type)]
    pub left_types: Vec<(String, String)>,
    /// CSV, JSON lines: the type of a column of RIGHT; may be repeated
    #[arg(long, value_name = "COLUMN=TYPE", value_parser = parse_type)]
    pub right_types: Vec<(String, String)>,
    /// CSV syntax, encoding and compression, of both sides.
    #[command(flatten)]
    pub text: TextFormat,
    /// Formats of input and output.
    #[command(flatten)]
    pub files: FileOptions,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// The flow that joins.
pub fn flow(command: &JoinArguments) -> Result<Document> {
    let mut flow = Document::new("join");
    let sides = [(&command.left, &command.left_types), (&command.right, &command.right_types)];
    let is_any_file = sides.iter().any(|(path, _)| collection(path).is_none());
    let mut sources = vec![];
    for (path, types) in sides {
        // If the other side is a file, text options are meant for that side only.
        let fields = match collection(path) {
            Some(_) if is_any_file => Map::new(),
            _ => command.text.config(),
        };
        let text = typed(types).chain(fields).collect();
        sources.push(command.files.source(&mut flow, std::slice::from_ref(path), text, false)?);
    }
    let on: Vec<Value> = column_names::split(&command.on, ',').into_iter().map(key).collect();
    let JoinArguments { how, condition, build, suffix, .. } = command;
    let config =
        json!({"on": on, "how": how, "where": condition, "build": build, "suffix": suffix});
    let join = flow.place("join", Value::Object(given(config)), None);
    let sink = command.files.sink(&mut flow, &command.output)?;
    for (source, side) in sources.iter().zip(["left", "right"]) {
        flow.attach(source, &join).input = Some(Port::Name(side.into()));
    }
    flow.attach(&join, &sink);
    Ok(flow)
}

/// One join key: `NAME`, or `LEFT=RIGHT`.
fn key(text: &str) -> Value {
    match column_names::split_once(text, '=') {
        Some((left, right)) => {
            json!({"left": column_names::unquoted(left), "right": column_names::unquoted(right)})
        }
        None => column_names::unquoted(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, Command};
    use clap::Parser;

    fn flow_of<const N: usize>(words: [&str; N]) -> Result<Document> {
        let command = ["euphrates", "join"].into_iter().chain(words);
        match Arguments::try_parse_from(command).unwrap().command {
            Command::Join(command) => flow(&command),
            _ => unreachable!(),
        }
    }

    #[test]
    fn arguments_become_a_flow() {
        let on = r#"x, y=z, "a=b", "c,d"=e"#;
        let more = ["--how", "left", "--where", "v>w"];
        let [how, left, condition, what] = more;
        let words = ["a.csv", "@b", "-o", "c.parquet", "--on", on, how, left, condition, what];
        let flow = flow_of(words).unwrap();
        let kinds: Vec<&str> = flow.modules.iter().map(|node| node.module.as_str()).collect();
        assert_eq!(kinds, ["scan", "read", "join", "save"]);
        let config = json!({
            "on": ["x", {"left": "y", "right": "z"}, "a=b", {"left": "c,d", "right": "e"}],
            "how": "left",
            "where": "v>w",
        });
        assert_eq!(Value::Object(flow.modules[2].config.clone()), config);
    }

    #[test]
    fn column_types_belong_to_one_side_and_collections_reject_them() {
        let [left, right] = ["--left-types", "--right-types"];
        let words = ["a.csv", "b.csv", "-o", "c", "--on", "x", left, "x=string", right, "x=int8"];
        let flow = flow_of(words).unwrap();
        let types = [json!({"x": "string"}), json!({"x": "int8"})];
        assert_eq!(
            [&flow.modules[0].config["types"], &flow.modules[1].config["types"]],
            [&types[0], &types[1]]
        );
        let flow = flow_of(["a.csv", "@b", "-o", "c", "--on", "x", "--no-header"]).unwrap();
        assert_eq!(flow.modules[0].config["header"], json!(false));
        for words in [
            ["@a", "@b", "-o", "c", "--on", "x", "--delimiter", ";"],
            ["a.csv", "@b", "-o", "c", "--on", "x", "--right-types", "x=int8"],
        ] {
            let error = flow_of(words).unwrap_err().to_string();
            assert!(error.contains("a collection has its types"), "{error}");
        }
    }
}
