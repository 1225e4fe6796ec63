//! Reads flows from JSON documents and Python files, and the values of their variables.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use euphrates_flow::{Document, Error, Result};
use euphrates_formats::{format_of, format_of_bytes};
use serde_json::Value;

use crate::host::Host;
use crate::spelling::{first_rows_of, shell_word};

/// Bytes of a file that tell what it holds.
const BEGIN_BYTES: u64 = 64;

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
        File::open(path).map_err(cannot)?;
        return host.flow_of_python(path, is_kept);
    }
    let begin = begin_of(path).map_err(cannot)?;
    let name = path.to_string_lossy();
    // Such a file may be large, and is no document whatever its end is.
    if format_of_bytes(&begin).is_some() || is_of_data(&name) {
        return Err(no_flow(&name));
    }
    let text = std::fs::read(path).map_err(cannot)?;
    let document = String::from_utf8(text)
        .map_err(|_| Error::usage("the flow is not UTF-8 text"))
        .and_then(|text| Document::from_json(&text));
    document.map_err(|error| {
        let error = error.at(&name);
        match begin.trim_ascii_start().first() {
            Some(b'{') => error,
            _ => error.remedy(FLOWS),
        }
    })
}

/// What commands on flows take.
const FLOWS: &str =
    "name a flow document, whose text is a JSON object, or a Python file that builds a flow";

/// The first bytes of a file.
fn begin_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut begin = vec![];
    File::open(path)?.take(BEGIN_BYTES).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Whether the name is that of data or of a query. Flow documents are JSON, or any text.
fn is_of_data(name: &str) -> bool {
    let about = format_of(name, None).map(|format| format.about());
    let may_be_text = name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".log");
    name.ends_with(".sql") || (about.is_ok() && !may_be_text)
}

fn no_flow(name: &str) -> Error {
    match name.ends_with(".sql") {
        true => Error::usage(format!("{name} is a query, and this command takes flows"))
            .remedy(format!("run it: euphrates sql --file {}", shell_word(name))),
        false => Error::usage(format!("{name} is data, and this command takes flows"))
            .remedy(format!("{FLOWS}; print the first rows of data: {}", first_rows_of(name))),
    }
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
