//! Renders a flow as a picture: SVG for people, Mermaid and DOT for other tools. Rendering runs and
//! imports nothing; the contents of a document reach the picture as escaped text only.

mod labels;
mod layout;
mod svg;

use std::str::FromStr;

use euphrates_flow::error::unknown;
use euphrates_flow::{Document, Error, Result};

use crate::labels::{joined, label, lines};

/// Output format of a picture.
///
/// ```
/// use euphrates_draw::PictureFormat;
///
/// assert_eq!("dot".parse::<PictureFormat>()?, PictureFormat::Dot);
/// let error = "dott".parse::<PictureFormat>().unwrap_err();
/// assert_eq!(error.advice(), Some("did you mean `dot`?"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// A self-contained picture that follows the light or dark preference of its reader.
    Svg,
    /// A Mermaid flowchart, which Markdown can embed.
    Mermaid,
    /// A graph in the DOT language, which Graphviz lays out.
    Dot,
}

impl FromStr for PictureFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<PictureFormat> {
        match name {
            "svg" => Ok(PictureFormat::Svg),
            "mermaid" => Ok(PictureFormat::Mermaid),
            "dot" => Ok(PictureFormat::Dot),
            _ => Err(unknown("format", name, ["svg", "mermaid", "dot"].into_iter())),
        }
    }
}

/// Draws the flow. Queues to or from modules that do not exist are left out.
///
/// ```
/// use euphrates_draw::{PictureFormat, draw};
/// use euphrates_flow::Document;
///
/// let mut flow = Document::new("numbers");
/// let numbers = flow.place("generate", serde_json::json!({"rows": 10}), None);
/// let count = flow.place("count", serde_json::json!({}), None);
/// flow.attach(&numbers, &count);
/// assert!(draw(&flow, PictureFormat::Svg).starts_with("<svg"));
/// assert!(draw(&flow, PictureFormat::Mermaid).contains("-->"));
/// ```
pub fn draw(document: &Document, format: PictureFormat) -> String {
    match format {
        PictureFormat::Svg => svg::draw(document),
        PictureFormat::Mermaid => mermaid(document),
        PictureFormat::Dot => dot(document),
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

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::document::Port;
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
    fn document_text_never_becomes_syntax() {
        let svg = draw(&hostile(), PictureFormat::Svg);
        assert!(!svg.contains("<script") && !svg.contains('\0'), "{svg}");
        assert!(!svg.contains("&amp;amp;amp;") && svg.contains("&amp;amp;"), "{svg}");
        let mermaid = draw(&hostile(), PictureFormat::Mermaid);
        assert!(!mermaid.contains("<script") && !mermaid.contains('`'), "{mermaid}");
        let quotes = mermaid.matches('"').count();
        assert_eq!(quotes, 2 + 2 + 2, "{mermaid}");
        let dot = draw(&hostile(), PictureFormat::Dot);
        assert_eq!(dot.matches("->").count(), 3, "{dot}");
        assert!(dot.contains(r#"\"]; <script>"#), "{dot}");
    }

    #[test]
    fn an_empty_flow_can_be_drawn() {
        for format in [PictureFormat::Svg, PictureFormat::Mermaid, PictureFormat::Dot] {
            assert!(!draw(&Document::new("empty"), format).is_empty());
        }
    }
}
