//! `modules`: lists the modules of this program, or describes one.

use clap::Args;
use euphrates_flow::{ModuleSpec, Result};
use serde_json::{Value, json};

use crate::host::Host;
use crate::terminal::print;

/// Arguments of `euphrates modules`.
#[derive(Debug, Args)]
pub struct Modules {
    /// The module to describe
    pub module: Option<String>,
    /// Print the specs as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Prints the list of modules, or the description of one.
pub fn run(command: Modules, host: &dyn Host) -> Result<()> {
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
    print(&text)
}

/// The description of a module as text: summary, detail, options and the example in Python.
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
    if !spec.example.is_empty() {
        text += "\nExample in Python:\n\n";
        spec.example.lines().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}
