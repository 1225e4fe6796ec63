//! Generates Rust: a program on the crates `euphrates-flow`, `-engine` and `-modules`, and
//! `serde_json`.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::expr::Expr;
use super::names::{local_names, placements};
use crate::document::{Document, Edge, Node, Port, QueueKind, Variable};

/// Keywords, and names that the program uses itself.
const RESERVED: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "flow", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "queue", "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type",
    "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Generates the whole program.
pub fn write(document: &Document) -> String {
    let body = body(document);
    let run = "go(&flow(), &euphrates_modules::registry(), &Options::default())?";
    let main = format!(
        "fn main() -> Result<()> {{\n    let report = {run};\n    println!(\"{{report}}\");\n    \
         Ok(())\n}}\n"
    );
    let head = imports(&body);
    format!("{head}{main}\n/// The flow.\npub fn flow() -> Document {{\n{body}    flow\n}}\n")
}

fn imports(body: &str) -> String {
    // A literal of the document may contain these texts too. The program then has an unused import,
    // which is only a warning.
    let parts: Vec<&str> = [("Port::", "Port"), ("Variable {", "Variable")]
        .iter()
        .filter_map(|(used, name)| body.contains(used).then_some(*name))
        .collect();
    let mut text =
        String::from("//! A flow, as a program.\n\nuse euphrates_engine::{Options, go};\n");
    match parts[..] {
        [] => {}
        [one] => text += &format!("use euphrates_flow::document::{one};\n"),
        _ => text += &format!("use euphrates_flow::document::{{{}}};\n", parts.join(", ")),
    }
    let kind = if body.contains("QueueKind::") { "QueueKind, " } else { "" };
    text += &format!("use euphrates_flow::{{Document, {kind}Result}};\n");
    if body.contains("json!(") {
        text += "use serde_json::json;\n";
    }
    text + "\n"
}

fn body(document: &Document) -> String {
    let names = local_names(document, RESERVED);
    let mut text =
        line(Expr::Text(format!("Document::new({:?})", document.name)), "let mut flow = ");
    for (name, variable) in &document.variables {
        text += &line(declare(name, variable), "");
    }
    for (node, usual_id) in placements(document) {
        let id = node.id.as_str();
        let used = document.queues.iter().any(|edge| edge.from == id || edge.to == id);
        let before = if used { format!("let {} = ", names[id]) } else { String::new() };
        text += &line(place(node, usual_id), &before);
        text += &placement_fields(node);
    }
    for edge in &document.queues {
        text += &attach(edge, &names);
    }
    if let Some(layout) = &document.layout {
        text += &line(Expr::group("Some(", ")").with("", json(layout)), "flow.layout = ");
    }
    text
}

fn line(expression: Expr, before: &str) -> String {
    expression.lay_out(4, before, ";\n")
}

fn declare(name: &str, variable: &Variable) -> Expr {
    let some = |given: Option<Expr>| match given {
        Some(value) => Expr::group("Some(", ")").with("", value),
        None => Expr::Text("None".into()),
    };
    let doc = variable.doc.as_ref().map(|doc| Expr::Text(format!("{doc:?}.into()")));
    let value = Expr::group("Variable { ", " }")
        .with("default: ", some(variable.default.as_ref().map(json)))
        .with("doc: ", some(doc));
    Expr::group("flow.variables.insert(", ")").and(format!("{name:?}.into()")).with("", value)
}

fn place(node: &Node, usual_id: bool) -> Expr {
    let call = match usual_id {
        true => Expr::group("flow.place(", ")"),
        false => Expr::group("flow.place_as(", ")").and(format!("{:?}", node.id)),
    };
    let config = Value::Object(node.config.clone());
    call.and(format!("{:?}", node.module)).with("", json(&config)).and(format!("{:?}", node.count))
}

/// Assignments of the placement fields of the module placed last.
fn placement_fields(node: &Node) -> String {
    let per_worker = node.per_worker.map(|count| format!("node.per_worker = Some({count});"));
    let names: Vec<String> = node.workers.iter().map(|name| format!("{name:?}.into()")).collect();
    let workers =
        (!names.is_empty()).then(|| format!("node.workers = vec![{}];", names.join(", ")));
    let fields = per_worker.into_iter().chain(workers);
    let last = "    let node = flow.modules.last_mut().expect(\"just placed\");\n";
    let lines: Vec<String> = fields.map(|field| format!("    {field}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("{last}{}", lines.concat()) }
}

fn attach(edge: &Edge, names: &BTreeMap<&str, String>) -> String {
    let end = |id: &str| names.get(id).map_or(format!("{id:?}"), |name| format!("&{name}"));
    let call = Expr::group("flow.attach(", ")").and(end(&edge.from)).and(end(&edge.to));
    let port = |port: &Port| match port {
        Port::Position(position) => format!("Some(Port::Position({position}))"),
        Port::Name(name) => format!("Some(Port::Name({name:?}.into()))"),
    };
    let kind = |kind: QueueKind| format!("Some(QueueKind::{kind:?})");
    let fields = [
        ("output", edge.output.as_ref().map(port)),
        ("input", edge.input.as_ref().map(port)),
        ("queue", edge.queue.map(kind)),
        ("bytes_max", edge.bytes_max.map(|bytes| format!("Some({bytes})"))),
    ];
    let given: Vec<_> =
        fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
    match &given[..] {
        [] => line(call, ""),
        [(field, value)] => call.lay_out(4, "", &format!(".{field} = {value};\n")),
        several => several.iter().fold(line(call, "let queue = "), |text, (field, value)| {
            text + &format!("    queue.{field} = {value};\n")
        }),
    }
}

fn json(value: &Value) -> Expr {
    match inner(value) {
        Expr::Text(text) => Expr::Text(format!("json!({text})")),
        Expr::Group { open, members, close } => {
            let close = if close == "}" { "})" } else { "])" };
            Expr::Group { open: format!("json!({open}"), members, close }
        }
    }
}

fn inner(value: &Value) -> Expr {
    match value {
        Value::Array(items) => {
            let list = Expr::group("[", "]");
            items.iter().fold(list, |list, item| list.with("", inner(item)))
        }
        Value::Object(map) => {
            let member = |(key, value): (&String, &Value)| (format!("{key:?}: "), inner(value));
            Expr::Group { open: "{".into(), members: map.iter().map(member).collect(), close: "}" }
        }
        Value::Number(number) => Expr::Text(literal(number)),
        Value::String(text) => Expr::Text(format!("{text:?}")),
        Value::Null => Expr::Text("null".into()),
        Value::Bool(truth) => Expr::Text(truth.to_string()),
    }
}

/// A number literal, with a type suffix where `i32` is too small.
fn literal(number: &Number) -> String {
    match (number.as_i64(), number.as_u64()) {
        (Some(small), _) if i32::try_from(small).is_ok() => number.to_string(),
        (Some(_), _) => format!("{number}_i64"),
        (None, Some(_)) => format!("{number}_u64"),
        (None, None) => number.to_string(),
    }
}
