//! Renders SVG: a card for every module, a line for every queue. The picture has no script, font or
//! link; a style element holds the light and the dark colours.

use std::fmt::Write;

use euphrates_flow::Document;
use euphrates_flow::document::Node;

use crate::labels::{clipped, joined, label, options};
use crate::layout::{BoxSize, Layout, Point, layout};

/// Margin around the picture.
const MARGIN: f64 = 20.0;
/// Gap between layers, unless a label needs more.
const GAP_X: f64 = 56.0;
/// How far a line that goes back bends outwards, in pixels.
const BEND: f64 = 26.0;
const PADDING: f64 = 14.0;
const TITLE_PX: f64 = 14.0;
const SMALL_PX: f64 = 11.0;
const LINE_PX: f64 = 16.0;
/// Height of the header with the flow's name.
const HEADER_PX: f64 = 34.0;

/// Light and dark colours. Classes, not variables: every renderer supports them.
const STYLE: &str = "\
.euphrates text{font-family:ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',\
sans-serif;fill:#1f2933}\
.euphrates .mono{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace}\
.euphrates .name{font-weight:600}\
.euphrates .quiet,.euphrates .key{fill:#66758a}\
.euphrates .card{fill:#ffffff;stroke:#d5dde6}\
.euphrates .line{fill:none;stroke:#8fa1b5;stroke-width:1.6}\
.euphrates .tip{fill:#8fa1b5}\
.euphrates .label{fill:#f5f8fa}\
.euphrates .source{fill:#0e8a7d}.euphrates .inner{fill:#3b6fd4}.euphrates .sink{fill:#c2611a}\
.euphrates .back{fill:#f5f8fa}\
@media (prefers-color-scheme:dark){\
.euphrates text{fill:#e6edf3}.euphrates .quiet,.euphrates .key{fill:#93a1b1}\
.euphrates .card{fill:#1c232c;stroke:#343e4a}\
.euphrates .line{stroke:#66788c}.euphrates .tip{fill:#66788c}\
.euphrates .label,.euphrates .back{fill:#12171d}\
.euphrates .source{fill:#2fbfae}.euphrates .inner{fill:#6c9bf5}.euphrates .sink{fill:#ee9350}}";

/// The card of a module.
struct Card {
    name: String,
    id: String,
    options: Vec<String>,
    count: String,
    role: &'static str,
    size: BoxSize,
}

/// Renders the picture of a flow.
pub fn draw(document: &Document) -> String {
    let queues = joined(document);
    let cards: Vec<Card> = document
        .modules
        .iter()
        .enumerate()
        .map(|(number, node)| {
            let fed = queues.iter().any(|(_, to, _)| *to == number);
            let feeds = queues.iter().any(|(from, ..)| *from == number);
            Card::new(
                node,
                if !fed {
                    "source"
                } else if feeds {
                    "inner"
                } else {
                    "sink"
                },
            )
        })
        .collect();
    let labels: Vec<String> = queues.iter().map(|(.., edge)| label(edge)).collect();
    let widest = labels.iter().map(|label| text_width(label, SMALL_PX)).fold(0.0, f64::max);
    let gap = GAP_X.max(widest + 40.0);
    let sizes: Vec<BoxSize> = cards.iter().map(|card| card.size).collect();
    let ends: Vec<(usize, usize)> = queues.iter().map(|(from, to, _)| (*from, *to)).collect();
    let placed = layout(&sizes, &ends, gap);
    let mut svg = frame(document, &placed, &cards);
    for (points, label) in placed.lines.iter().zip(&labels) {
        line(&mut svg, points, label);
    }
    for (card, corner) in cards.iter().zip(&placed.boxes) {
        card.draw(&mut svg, *corner);
    }
    svg + "</g></svg>\n"
}

fn frame(document: &Document, placed: &Layout, cards: &[Card]) -> String {
    let title = clipped(&document.name, 60);
    let about = match cards.len() {
        0 => "no modules yet".to_string(),
        1 => "1 module".to_string(),
        many => format!("{many} modules"),
    };
    let header = text_width(&title, TITLE_PX) * 1.1 + text_width(&about, SMALL_PX) + 24.0;
    let width = placed.size.width.max(header).ceil() + 2.0 * MARGIN;
    let height = placed.size.height.ceil() + HEADER_PX + 2.0 * MARGIN;
    let (shown, about_x) = (escaped(&title), text_width(&title, TITLE_PX) * 1.1 + 14.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"euphrates\" role=\"img\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         style=\"max-width:100%;height:auto\"><title>{shown}</title><style>{STYLE}</style>\
         <rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"12\"/>\n\
         <text class=\"name\" x=\"{MARGIN}\" y=\"{}\" font-size=\"{TITLE_PX}\">{shown}</text>\
         <text class=\"quiet\" x=\"{:.1}\" y=\"{}\" font-size=\"{SMALL_PX}\">{about}</text>\n\
         <g transform=\"translate({MARGIN} {})\">\n",
        MARGIN + 8.0,
        MARGIN + about_x,
        MARGIN + 8.0,
        MARGIN + HEADER_PX,
    )
}

impl Card {
    fn new(node: &Node, role: &'static str) -> Card {
        let name = clipped(&node.module, 28);
        let number = node.id.strip_prefix(node.module.as_str());
        let is_usual = number.is_some_and(|rest| rest.starts_with('_'));
        let id = if is_usual { String::new() } else { clipped(&node.id, 28) };
        let count = node.count.map(|count| format!("×{count}")).unwrap_or_default();
        let options = options(node);
        let title = text_width(&name, TITLE_PX) * 1.1 + text_width(&count, SMALL_PX) + 34.0;
        let mono = |text: &String| text.chars().count() as f64 * SMALL_PX * 0.62;
        let inner = options.iter().map(mono).fold(title, f64::max);
        let inner = inner.max(text_width(&id, SMALL_PX));
        let lines = options.len() + usize::from(!id.is_empty());
        let height = 2.0 * PADDING + TITLE_PX + lines as f64 * LINE_PX + extra(lines);
        let size = BoxSize { width: (inner + 2.0 * PADDING).max(112.0).ceil(), height };
        Card { name, id, options, count, role, size }
    }

    fn draw(&self, svg: &mut String, corner: Point) {
        let BoxSize { width, height } = self.size;
        let left = PADDING;
        let mut text = format!(
            "<g transform=\"translate({:.1} {:.1})\"><rect class=\"card\" width=\"{width}\" \
             height=\"{height}\" rx=\"9\"/><circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" \
             r=\"4.5\"/>",
            corner.x,
            corner.y,
            self.role,
            left + 4.5,
            PADDING + 7.5
        );
        let mut y = PADDING + TITLE_PX - 1.5;
        let mut put = |class: &str, x: f64, y: f64, size: f64, words: &str| {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
                 xml:space=\"preserve\">{words}</text>"
            );
        };
        put("name", left + 17.0, y, TITLE_PX, &escaped(&self.name));
        if !self.count.is_empty() {
            let x = width - PADDING - text_width(&self.count, SMALL_PX);
            put("quiet", x, y, SMALL_PX, &escaped(&self.count));
        }
        y += extra(1);
        if !self.id.is_empty() {
            y += LINE_PX;
            put("quiet", left, y, SMALL_PX, &escaped(&self.id));
        }
        for option in &self.options {
            y += LINE_PX;
            let words = match option.split_once(": ") {
                Some((key, value)) => {
                    format!("<tspan class=\"key\">{}: </tspan>{}", escaped(key), escaped(value))
                }
                None => format!("<tspan class=\"key\">{}</tspan>", escaped(option)),
            };
            put("mono", left, y, SMALL_PX, &words);
        }
        svg.push_str(&text);
        svg.push_str("</g>\n");
    }
}

/// Gap between the title and the lines below it.
fn extra(lines: usize) -> f64 {
    if lines > 0 { 4.0 } else { 0.0 }
}

/// Draws a line through points, with an arrow at its end and its label in the middle of its last
/// segment.
fn line(svg: &mut String, points: &[Point], label: &str) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let end = Point { x: last.x - 6.0, y: last.y };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    let mut from = *first;
    for (nth, point) in points[1..].iter().enumerate() {
        let to = if nth + 2 == points.len() { end } else { *point };
        path += &match to.x > from.x {
            true => {
                let bend = (to.x - from.x) / 2.0;
                let (a, b) = (from.x + bend, to.x - bend);
                format!(" C{a:.1} {:.1} {b:.1} {:.1} {:.1} {:.1}", from.y, to.y, to.x, to.y)
            }
            // A line that goes back bends outwards, or is straight.
            false if (to.y - from.y).abs() < 1.0 => format!(" L{:.1} {:.1}", to.x, to.y),
            false => {
                let side = if nth == 0 { BEND } else { -BEND };
                let (a, b) = (from.x + side, to.x + side);
                format!(" C{a:.1} {:.1} {b:.1} {:.1} {:.1} {:.1}", from.y, to.y, to.x, to.y)
            }
        };
        from = *point;
    }
    let (x, y) = (last.x, last.y);
    let _ = write!(
        svg,
        "<path class=\"line\" d=\"{path}\"/><path class=\"tip\" d=\"M{x:.1} {y:.1}l-9 -4.5v9z\"/>"
    );
    if !label.is_empty() {
        let before = points[points.len() - 2];
        let middle = Point { x: (before.x + end.x) / 2.0, y: (before.y + end.y) / 2.0 };
        let width = text_width(label, SMALL_PX) + 10.0;
        let _ = write!(
            svg,
            "<rect class=\"label\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\" \
             rx=\"8\"/><text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL_PX}\" \
             text-anchor=\"middle\">{}</text>",
            middle.x - width / 2.0,
            middle.y - 8.0,
            middle.x,
            middle.y + 3.8,
            escaped(label)
        );
    }
    svg.push('\n');
}

/// Approximate width of a text in a sans-serif font, in pixels.
fn text_width(text: &str, size: f64) -> f64 {
    let ems = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' | '!' => 0.32,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '→' => 0.95,
        c if c.is_ascii_uppercase() => 0.7,
        c if c.is_ascii() => 0.6,
        _ => 1.0,
    };
    text.chars().map(ems).sum::<f64>() * size
}

/// Escapes text for XML, and replaces characters that XML cannot hold or that change the reading
/// direction.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_string(),
        '<' => "&lt;".to_string(),
        '>' => "&gt;".to_string(),
        '"' => "&quot;".to_string(),
        '\'' => "&#39;".to_string(),
        ' ' => " ".to_string(),
        c if c.escape_debug().count() == 1 => c.to_string(),
        '\\' => "\\".to_string(),
        _ => "\u{fffd}".to_string(),
    };
    text.chars().map(escape).collect()
}
