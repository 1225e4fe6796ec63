//! Terminal output: results to standard output; errors, warnings and reports to standard error.

use std::io::{ErrorKind, IsTerminal, Write};

use euphrates_flow::{Error, Result};
use serde_json::json;

use crate::options::Log;

/// Writes to standard output. A closed pipe is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Whether standard output shows colours.
pub fn is_coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints an error with its places, row and remedy; as a JSON object if the log is in JSON.
pub fn print_error(log: Log, error: &Error) {
    if log == Log::Json {
        let kind = format!("{:?}", error.kind()).to_lowercase();
        let places: Vec<_> = error.places().map(ToString::to_string).collect();
        let error = json!({
            "kind": kind,
            "places": places,
            "message": error.message(),
            "row": error.row().map(ToString::to_string),
            "remedy": error.advice(),
        });
        return say(&json!({"event": "error", "error": error}).to_string());
    }
    let mut err = std::io::stderr().lock();
    let coloured = err.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (red, bold, off) =
        if coloured { ("\x1b[31;1m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let mut text = format!("{red}error{off}: ");
    for place in error.places() {
        text += &format!("{bold}{place}{off}: ");
    }
    text += error.message();
    if let Some(row) = error.row() {
        text += &format!("\n  {bold}row{off}: {row}");
    }
    if let Some(advice) = error.advice() {
        text += &format!("\n  {bold}remedy{off}: {advice}");
    }
    // Without a standard error there is no place to report the failure to write.
    let _ = writeln!(err, "{text}");
}

/// Prints a warning: a condition that needs attention but is no error.
pub fn warn(log: Log, text: &str) {
    match log {
        Log::Json => say(&json!({"event": "warning", "message": text}).to_string()),
        _ => say(&format!("warning: {text}")),
    }
}

/// Warns of spellings that work for one more version, each with its replacement.
pub fn warn_outdated(log: Log, spellings: &[(&str, String)]) {
    for (old, new) in spellings.iter().filter(|_| log != Log::Quiet) {
        warn(log, &format!("{old} is outdated, and will be removed: write {new}"));
    }
}

/// Prints a line of progress or of a report to standard error.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
