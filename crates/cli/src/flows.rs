//! `run`, `check`, `show`, `code`, `modules`: flows from documents and Python files.

use std::collections::BTreeMap;
use std::path::Path;

use euphrates_engine::Options;
use euphrates_engine::run::consent::{self, CheckResult, Consent};
use euphrates_flow::check::Unit;
use euphrates_flow::code::{self, code as write_code};
use euphrates_flow::draw::{self, draw};
use euphrates_flow::{Document, Error, ModuleSpec, Result};
use serde_json::{Value, json};

use crate::arguments::{Check, Code, Language, Log, Modules, Picture, Run, Show};
use crate::{Host, print, rows, run as drive};

/// `euphrates run`
pub fn run(command: Run, log: Log, host: &dyn Host) -> Result<u8> {
    if let Some(folder) = &command.record {
        return drive::for_studio(folder, &command, host);
    }
    let document = load(&command.flow, host)?;
    let options = Options {
        variables: variables(&command.params)?,
        ..drive::options(&command.resources, host)?
    };
    let report = drive::run(&document, &host.registry(), &options, log)?;
    for (id, collected) in &report.collected {
        print(&rows::table(id, collected)?)?;
    }
    Ok(0)
}

/// `euphrates check`
pub fn check(command: Check, host: &dyn Host) -> Result<u8> {
    let document = load(&command.flow, host)?;
    let options = Options { variables: variables(&command.params)?, ..Options::default() };
    // Naming a Python file runs it, so its functions may run as well.
    let consent = match command.trust || is_python(&command.flow) {
        true => Consent::Given,
        false => Consent::Withheld,
    };
    let seen = consent::check(&document, &host.registry(), &options, consent)?;
    print(&explain(&seen))?;
    Ok(0)
}

/// `euphrates show`
pub fn show(command: Show, host: &dyn Host) -> Result<u8> {
    let Some(flow) = command.flow.filter(|_| !command.schema) else {
        let schema = serde_json::to_string_pretty(&Document::json_schema()).unwrap_or_default();
        print(&(schema + "\n"))?;
        return Ok(0);
    };
    let drawn = |format| load(&flow, host).map(|document| draw(&document, format));
    let text = match command.r#as {
        Picture::Mermaid => drawn(draw::Format::Mermaid)?,
        Picture::Dot => drawn(draw::Format::Dot)?,
        Picture::Svg => drawn(draw::Format::Svg)?,
        Picture::Json => load_to_keep(&flow, host)?.to_json(),
        Picture::Script => host.script(&flow)?,
    };
    print(&format!("{}\n", text.trim_end()))?;
    Ok(0)
}

/// `euphrates code`
pub fn code(command: Code, host: &dyn Host) -> Result<u8> {
    let document = load_to_keep(&command.flow, host)?;
    let language = match command.lang {
        Language::Python => code::Language::Python,
        Language::Rust => code::Language::Rust,
    };
    let text = write_code(&document, &host.registry(), language)?;
    print(&format!("{}\n", text.trim_end()))?;
    Ok(0)
}

/// `euphrates modules`
pub fn modules(command: Modules, host: &dyn Host) -> Result<u8> {
    let registry = host.registry();
    let text = match (&command.module, command.json) {
        (Some(name), false) => page(registry.find(name)?),
        (Some(name), true) => registry.find(name)?.to_json().to_string() + "\n",
        (None, true) => {
            let all: Vec<Value> = registry.iter().map(ModuleSpec::to_json).collect();
            json!(all).to_string() + "\n"
        }
        (None, false) => {
            let width = registry.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
            let line = |spec: &ModuleSpec| format!("{:width$}  {}\n", spec.name, spec.summary);
            registry.iter().map(line).collect()
        }
    };
    print(&text)?;
    Ok(0)
}

/// A module for people: what it does, its ports, its options.
fn page(spec: &ModuleSpec) -> String {
    let schema = (spec.config_schema)();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut text = format!("{}: {}\n\n{}\n", spec.name, spec.summary, spec.detail);
    for (name, option) in schema["properties"].as_object().into_iter().flatten() {
        let need = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let doc = option["description"].as_str().unwrap_or_default().replace('\n', " ");
        text += &format!("\n  {name} ({need})\n      {doc}\n");
    }
    text
}

/// The flow in a file, JSON or what a Python file builds, to be used in this process.
pub fn load(path: &Path, host: &dyn Host) -> Result<Document> {
    read(path, host, false)
}

/// The same, as a document that is kept.
fn load_to_keep(path: &Path, host: &dyn Host) -> Result<Document> {
    read(path, host, true)
}

fn read(path: &Path, host: &dyn Host, is_kept: bool) -> Result<Document> {
    let cannot = |error| Error::os("read the flow", path, &error);
    if is_python(path) {
        std::fs::File::open(path).map_err(cannot)?;
        return host.flow_of_python(path, is_kept);
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    Document::from_json(&text).map_err(|error| error.at(path.display()))
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// `name=value`; a value that is not JSON is text.
pub fn variables(params: &[String]) -> Result<BTreeMap<String, Value>> {
    let one = |param: &String| {
        let (name, value) = param.split_once('=').ok_or_else(|| {
            Error::usage(format!("`{param}` is no variable")).remedy("write -p name=value")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok((name.to_string(), value))
    };
    params.iter().map(one).collect()
}

/// How a flow would run, and why so.
pub fn explain(flow: &CheckResult) -> String {
    let extent = match flow.unchecked.is_empty() {
        true => "",
        false => " as far as it was checked",
    };
    let mut text = format!("flow `{}` is sound{extent}\n", flow.name);
    for node in &flow.nodes {
        text += &format!("  {} × {}: {}\n", node.id, node.count, node.spec.summary);
    }
    for edge in &flow.edges {
        let unit = if edge.unit == Unit::Run { "whole runs" } else { "batches" };
        let (from, to) = (&flow.nodes[edge.from.0].id, &flow.nodes[edge.to.0].id);
        text +=
            &format!("  {from} → {to}: {:?} queue of {unit}, because {}\n", edge.kind, edge.why);
    }
    for node in &flow.unchecked {
        let why = match node.calls_user_code {
            true => "calls user code",
            false => "follows a module that calls user code",
        };
        text += &format!("  {} ({}) was not checked: it {why}\n", node.id, node.module);
    }
    if !flow.unchecked.is_empty() {
        text += "--trust checks these too, and calls the code that the flow names\n";
    }
    text
}
