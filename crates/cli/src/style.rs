//! How things look on a terminal.

use std::io::{IsTerminal, Write};

use euphrates_flow::Error;
use serde_json::json;

use crate::arguments::Log;

/// Prints an error: what, where, and what to do about it; as an object if the log is in JSON.
pub fn complain(log: Log, error: &Error) {
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
    // If standard error is gone, nobody is left to tell.
    let _ = writeln!(err, "{text}");
}

/// Prints what is not as it should be, and not an error.
pub fn warn(log: Log, text: &str) {
    match log {
        Log::Json => say(&json!({"event": "warning", "message": text}).to_string()),
        _ => say(&format!("warning: {text}")),
    }
}

/// Prints a line of progress or of a report, to standard error.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
