//! A flow as a picture: SVG to look at, Mermaid and DOT for other tools. Nothing is run or
//! imported, and whatever a document holds reaches the picture as text only.

mod layout;
mod svg;

use std::str::FromStr;

use serde_json::Value;

use crate::document::{Document, Edge, Node, Port, variable_name};
use crate::error::{Error, Result, unknown};

/// What a picture is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A picture that needs nothing but itself, light or dark as its reader prefers.
    Svg,
    /// A Mermaid flowchart.
    Mermaid,
    /// Graphviz.
    Dot,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        match name {
            "svg" => Ok(Format::Svg),
            "mermaid" => Ok(Format::Mermaid),
            "dot" => Ok(Format::Dot),
            _ => Err(unknown("format", name, ["svg", "mermaid", "dot"].into_iter())),
        }
    }
}

/// A picture of the flow. Queues to or from modules that do not exist are left out.
pub fn draw(document: &Document, format: Format) -> String {
    match format {
        Format::Svg => svg::draw(document),
        Format::Mermaid => mermaid(document),
        Format::Dot => dot(document),
    }
}

fn mermaid(document: &Document) -> String {
    let mut text = String::from("flowchart LR\n");
    for (number, node) in document.modules.iter().enumerate() {
        let lines: Vec<String> = lines(node).iter().map(|line| mermaid_text(line)).collect();
        text += &format!("  m{number}[\"{}\"]\n", lines.join("<br/>"));
    }
    for (from, to, edge) in joined(document) {
        match label(edge) {
            label if label.is_empty() => text += &format!("  m{from} --> m{to}\n"),
            label => text += &format!("  m{from} -- \"{}\" --> m{to}\n", mermaid_text(&label)),
        }
    }
    text
}

/// Text in which every character that Mermaid could take for syntax is a numbered entity.
fn mermaid_text(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || " _.,:/=×*$-".contains(c);
    let escape = |c: char| if plain(c) { c.to_string() } else { format!("#{};", c as u32) };
    text.chars().map(escape).collect()
}

fn dot(document: &Document) -> String {
    let mut text = format!("digraph {} {{\n", dot_text(&document.name));
    text += "  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";
    text += "  edge [fontname=\"sans-serif\", fontsize=10];\n";
    for (number, node) in document.modules.iter().enumerate() {
        text += &format!("  m{number} [label={}];\n", dot_text(&lines(node).join("\n")));
    }
    for (from, to, edge) in joined(document) {
        match label(edge) {
            label if label.is_empty() => text += &format!("  m{from} -> m{to};\n"),
            label => text += &format!("  m{from} -> m{to} [label={}];\n", dot_text(&label)),
        }
    }
    text + "}\n"
}

fn dot_text(text: &str) -> String {
    let escape = |c: char| match c {
        '"' => "\\\"".to_string(),
        '\\' => "\\\\".to_string(),
        '\n' => "\\n".to_string(),
        c if c.is_control() => " ".to_string(),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// What is written on a module: its name, and its options as far as they fit.
fn lines(node: &Node) -> Vec<String> {
    let count = node.count.map(|count| format!(" ×{count}")).unwrap_or_default();
    let mut lines = vec![clipped(&format!("{}{count}", node.module), 28)];
    lines.extend(options(node));
    lines
}

/// The most options shown on a module.
const OPTIONS_MAX: usize = 3;
/// The most characters of an option.
const OPTION_CHARS: usize = 30;

fn options(node: &Node) -> Vec<String> {
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

/// One line of at most this many characters.
fn clipped(text: &str, chars_max: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.chars().count() {
        chars if chars > chars_max => {
            text.chars().take(chars_max - 1).collect::<String>().trim_end().to_string() + "…"
        }
        _ => text,
    }
}

/// What is written on a queue: only what the document says itself.
fn label(edge: &Edge) -> String {
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
fn joined(document: &Document) -> Vec<(usize, usize, &Edge)> {
    let position = |id: &str| document.modules.iter().position(|node| node.id == id);
    let ends = |edge| -> Option<(usize, usize, &Edge)> {
        let edge: &Edge = edge;
        Some((position(&edge.from)?, position(&edge.to)?, edge))
    };
    document.queues.iter().filter_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hostile() -> Document {
        let text = "\"]; <script>alert('x')</script> \u{202e}&amp; `${x}`\n\0\\";
        let mut document = Document::new(text);
        document.place_as(text, text, json!({text: text, "list": [1, {"$var": text}]}), Some(3));
        document.place_as("b", text, json!({}), None);
        document.attach(text, "b").output = Some(Port::Name(text.into()));
        document.attach("b", text);
        document.attach("b", "b");
        document.attach("nobody", text);
        document
    }

    #[test]
    fn no_text_of_a_document_becomes_syntax() {
        let svg = draw(&hostile(), Format::Svg);
        assert!(!svg.contains("<script") && !svg.contains('\0'), "{svg}");
        assert!(!svg.contains("&amp;amp;amp;") && svg.contains("&amp;amp;"), "{svg}");
        let mermaid = draw(&hostile(), Format::Mermaid);
        assert!(!mermaid.contains("<script") && !mermaid.contains('`'), "{mermaid}");
        let quotes = mermaid.matches('"').count();
        assert_eq!(quotes, 2 + 2 + 2, "{mermaid}");
        let dot = draw(&hostile(), Format::Dot);
        assert_eq!(dot.matches("->").count(), 3, "{dot}");
        assert!(dot.contains(r#"\"]; <script>"#), "{dot}");
    }

    #[test]
    fn an_empty_flow_can_be_drawn() {
        for format in [Format::Svg, Format::Mermaid, Format::Dot] {
            assert!(!draw(&Document::new("empty"), format).is_empty());
        }
    }
}
