//! Reads flows from JSON documents and Python files, and the values of their variables.

use std::collections::BTreeMap;
use std::path::Path;

use euphrates_flow::{Document, Error, Result};
use serde_json::Value;

use crate::host::Host;

/// Loads a flow to be used in this process.
pub fn load(path: &Path, host: &dyn Host) -> Result<Document> {
    read(path, host, false)
}

/// Loads a flow as a document that outlives this process.
pub fn load_to_keep(path: &Path, host: &dyn Host) -> Result<Document> {
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

/// Whether a file is a Python file, by its extension.
pub fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Parses `name=value` pairs; a value that is not JSON is text.
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
