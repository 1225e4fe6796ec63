//! Labels of a picture: the text on a module and on a queue.

use euphrates_flow::Document;
use euphrates_flow::document::{Edge, Node, Port, variable_name};
use serde_json::Value;

/// The label of a module: its name, and its options as far as they fit.
pub(crate) fn lines(node: &Node) -> Vec<String> {
    let count = node.count.map(|count| format!(" ×{count}")).unwrap_or_default();
    let mut lines = vec![clipped(&format!("{}{count}", node.module), 28)];
    lines.extend(options(node));
    lines
}

/// The most options shown on a module.
const OPTIONS_MAX: usize = 3;
/// The most characters of an option.
const OPTION_CHARS: usize = 30;

pub(crate) fn options(node: &Node) -> Vec<String> {
    let option = |(key, value): (&String, &Value)| {
        clipped(&format!("{key}: {}", shown(value)), OPTION_CHARS)
    };
    let all: Vec<String> = node.config.iter().map(option).collect();
    match all.len() {
        more if more > OPTIONS_MAX => {
            let mut some = all[..OPTIONS_MAX - 1].to_vec();
            some.push(format!("and {} more", more + 1 - OPTIONS_MAX));
            some
        }
        _ => all,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(map) if map.contains_key("$live") => "a Python object".into(),
        other => match variable_name(other) {
            Some(name) => format!("${name}"),
            None => other.to_string(),
        },
    }
}

/// The text on one line of at most `chars_max` characters, cut with an ellipsis.
pub(crate) fn clipped(text: &str, chars_max: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.chars().count() {
        chars if chars > chars_max => {
            text.chars().take(chars_max - 1).collect::<String>().trim_end().to_string() + "…"
        }
        _ => text,
    }
}

/// The label of a queue: only what the document says itself.
pub(crate) fn label(edge: &Edge) -> String {
    let port = |port: &Port| match port {
        Port::Position(position) => position.to_string(),
        Port::Name(name) => name.clone(),
    };
    let ports = match (&edge.output, &edge.input) {
        (None, None) => None,
        (Some(output), None) => Some(format!("{} →", port(output))),
        (None, Some(input)) => Some(format!("→ {}", port(input))),
        (Some(output), Some(input)) => Some(format!("{} → {}", port(output), port(input))),
    };
    let kind = edge.queue.map(|kind| kind.word().to_string());
    let parts: Vec<String> = ports.into_iter().chain(kind).collect();
    clipped(&parts.join(", "), 24)
}

/// The queues whose ends exist, with the positions of their ends.
pub(crate) fn joined(document: &Document) -> Vec<(usize, usize, &Edge)> {
    let position = |id: &str| document.modules.iter().position(|node| node.id == id);
    let ends = |edge| -> Option<(usize, usize, &Edge)> {
        let edge: &Edge = edge;
        Some((position(&edge.from)?, position(&edge.to)?, edge))
    };
    document.queues.iter().filter_map(ends).collect()
}
