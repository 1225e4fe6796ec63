//! Generates Python: a call of the module's function where its configuration allows it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::expr::Expr;
use super::names::{local_names, placements};
use crate::document::{Document, Edge, Node, Port, variable_name};
use crate::spec::Registry;

/// Keywords, which cannot be names.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];
const OWN_NAMES: &[&str] = &["eu", "flow", "print"];

/// Generates the whole script.
pub fn write(document: &Document, registry: &Registry) -> String {
    let reserved = [KEYWORDS, OWN_NAMES].concat();
    let names = local_names(document, &reserved);
    let attached = |id: &str| document.queues.iter().any(|edge| edge.from == id || edge.to == id);
    let flow = Expr::group("eu.Flow(", ")").and(string(&document.name));
    let mut declared = line(flow, "flow = ");
    for (name, variable) in &document.variables {
        let mut call = Expr::group("flow.variable(", ")").and(string(name));
        if let Some(default) = &variable.default {
            call = call.with("default=", plain(default));
        }
        if let Some(doc) = &variable.doc {
            call = call.with("doc=", Expr::Text(string(doc)));
        }
        declared += &line(call, "");
    }
    let mut placed = String::new();
    for (node, usual_id) in placements(document) {
        let mut call = Expr::group("flow.place(", ")").with("", module(node, document, registry));
        if let Some(count) = node.count {
            call = call.with("count=", Expr::Text(count.to_string()));
        }
        if let Some(count) = node.per_worker {
            call = call.with("per_worker=", Expr::Text(count.to_string()));
        }
        if !node.workers.is_empty() {
            call = call.with("workers=", plain(&node.workers.clone().into()));
        }
        if !usual_id {
            call = call.with("id=", Expr::Text(string(&node.id)));
        }
        let before =
            if attached(&node.id) { format!("{} = ", names[&*node.id]) } else { "".into() };
        placed += &line(call, &before);
    }
    let queues = document.queues.iter().map(|edge| line(attach(edge, &names), "")).collect();
    let layout = document.layout.as_ref().map(|layout| line(plain(layout), "flow.layout = "));
    let sections = [
        "import euphrates as eu\n".into(),
        declared,
        placed,
        queues,
        layout.unwrap_or_default(),
        "if __name__ == \"__main__\":\n    print(flow.go())\n".into(),
    ];
    let is_there = |section: &String| !section.is_empty();
    sections.into_iter().filter(is_there).collect::<Vec<String>>().join("\n")
}

fn line(expression: Expr, before: &str) -> String {
    expression.lay_out(0, before, "\n")
}

/// `eu.scan("a.csv", columns=["x"])`, or `eu.module("scan", {…})` where a function call could not
/// express it: an unknown module or option, a missing required option, a null.
fn module(node: &Node, document: &Document, registry: &Registry) -> Expr {
    call(node, document, registry).unwrap_or_else(|| {
        let call = Expr::group("eu.module(", ")").and(string(&node.module));
        if node.config.is_empty() { call } else { call.with("", object(&node.config, &plain)) }
    })
}

fn call(node: &Node, document: &Document, registry: &Registry) -> Option<Expr> {
    let spec = registry.find(&node.module).ok()?;
    let schema = (spec.config_schema)();
    let empty = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let sayable = |(key, value): (&String, &Value)| match known.get(key) {
        // A call takes any table here, but a document can only hold its path.
        Some(option) if option.get("x-python") == Some(&Value::from("Any")) => {
            value.is_string() || variable_name(value).is_some()
        }
        // A call wraps a single name in a list.
        Some(option) if lists(option) => !value.is_null() && !value.is_string(),
        Some(_) => !value.is_null(),
        None => false,
    };
    let complete = required.iter().all(|key| node.config.contains_key(*key));
    if !complete || !node.config.iter().all(sayable) {
        return None;
    }
    let value = |value: &Value| with_variables(value, document);
    let mut call = Expr::group(format!("eu.{}(", name(spec.name)), ")");
    // Positional arguments follow the order of the declaration.
    for key in known.keys().filter(|key| required.contains(&key.as_str())) {
        call = call.with("", value(&node.config[key]));
    }
    for (key, given) in node.config.iter().filter(|(key, _)| !required.contains(&key.as_str())) {
        call = call.with(format!("{}=", name(key)), value(given));
    }
    Some(call)
}

/// Whether an option is a list, as columns are.
fn lists(option: &Value) -> bool {
    let is_array = match option.get("type") {
        Some(Value::Array(kinds)) => kinds.contains(&"array".into()),
        kind => kind.and_then(Value::as_str) == Some("array"),
    };
    is_array && option.get("items").is_some_and(Value::is_object)
}

/// A name as Python spells it: a keyword gets an underscore behind it.
fn name(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_string() }
}

fn attach(edge: &Edge, names: &BTreeMap<&str, String>) -> Expr {
    let end = |id: &str| names.get(id).cloned().unwrap_or_else(|| string(id));
    let mut call = Expr::group("flow.attach(", ")").and(end(&edge.from)).and(end(&edge.to));
    let port = |port: &Port| match port {
        Port::Position(position) => Expr::Text(position.to_string()),
        Port::Name(name) => Expr::Text(string(name)),
    };
    if let Some(kind) = edge.queue {
        call = call.with("queue=", Expr::Text(string(kind.word())));
    }
    if let Some(output) = &edge.output {
        call = call.with("output=", port(output));
    }
    if let Some(input) = &edge.input {
        call = call.with("input=", port(input));
    }
    if let Some(bytes_max) = edge.bytes_max {
        call = call.with("bytes_max=", Expr::Text(bytes_max.to_string()));
    }
    call
}

/// A value in which declared variables become calls of `eu.var`.
fn with_variables(value: &Value, document: &Document) -> Expr {
    let declared = variable_name(value).filter(|name| document.variables.contains_key(*name));
    match (declared, value) {
        (Some(name), _) => Expr::Text(format!("eu.var({})", string(name))),
        (None, Value::Array(items)) => {
            let list = Expr::group("[", "]");
            items.iter().fold(list, |list, item| list.with("", with_variables(item, document)))
        }
        (None, Value::Object(map)) => object(map, &|value| with_variables(value, document)),
        (None, other) => plain(other),
    }
}

fn plain(value: &Value) -> Expr {
    Expr::Text(match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => {
            let list = Expr::group("[", "]");
            return items.iter().fold(list, |list, item| list.with("", plain(item)));
        }
        Value::Object(map) => return object(map, &plain),
    })
}

fn object(map: &Map<String, Value>, value: &dyn Fn(&Value) -> Expr) -> Expr {
    let members = map.iter().map(|(key, member)| (format!("{}: ", string(key)), value(member)));
    Expr::Group { open: "{".into(), members: members.collect(), close: "}" }
}

/// A string literal in which only printable characters stand for themselves: no quote can end it
/// early, and no mark can change the reading direction.
pub fn string(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            '\r' => literal.push_str("\\r"),
            '\'' => literal.push(c),
            // `escape_debug` leaves printable characters as they are.
            c if c.escape_debug().count() == 1 => literal.push(c),
            c if (c as u32) <= 0xff => literal += &format!("\\x{:02x}", c as u32),
            c if (c as u32) <= 0xffff => literal += &format!("\\u{:04x}", c as u32),
            c => literal += &format!("\\U{:08x}", c as u32),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Language, code};
    use serde_json::json;

    #[test]
    fn deceptive_characters_are_escaped() {
        for (text, literal) in [
            (r#""); import os #"#, r#""\"); import os #""#),
            ("a\u{202e}b", r#""a\u202eb""#),
            ("\u{2066}", r#""\u2066""#),
            ("é→", "\"é→\""),
            ("\0\u{7f}\u{85}\u{2028}", r#""\x00\x7f\x85\u2028""#),
            ("\u{e0041}", r#""\U000e0041""#),
            (r"\", r#""\\""#),
        ] {
            assert_eq!(string(text), literal);
        }
    }

    #[test]
    fn only_unusual_ids_are_written_out() {
        let mut document = Document::new("x");
        document.place("scan", json!({}), None);
        document.place_as("import", "scan", json!({"a": null}), Some(2));
        document.attach("scan_1", "import");
        let text = code(&document, &Registry::default(), Language::Python).unwrap();
        assert!(text.contains("scan_1 = flow.place(eu.module(\"scan\"))\n"), "{text}");
        let strange =
            r#"module_1 = flow.place(eu.module("scan", {"a": None}), count=2, id="import")"#;
        assert!(text.contains(strange), "{text}");
        assert!(text.contains("flow.attach(scan_1, module_1)\n"), "{text}");
        document.modules[0].id = "import".into();
        assert!(code(&document, &Registry::default(), Language::Python).is_err());
    }
}
