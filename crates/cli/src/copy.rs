//! `copy-in` and `copy-out`: collections and pipes, so that any program can be fed.

use euphrates_flow::{Document, Result};
use serde_json::json;

use crate::arguments::{CopyIn, CopyOut, Log};
use crate::{Host, run as drive};

/// `euphrates copy-in`
pub fn copy_in(command: CopyIn, log: Log, host: &dyn Host) -> Result<u8> {
    let mut flow = Document::new("copy-in");
    let source = flow.place("copy_in", json!({"format": command.format}), None);
    let config = json!({"collection": command.collection, "overwrite": command.overwrite});
    let sink = flow.place("write", config, None);
    flow.attach(&source, &sink);
    drive::run(&flow, &host.registry(), &drive::options(&command.resources), log)?;
    Ok(0)
}

/// `euphrates copy-out`
pub fn copy_out(command: CopyOut, log: Log, host: &dyn Host) -> Result<u8> {
    let mut flow = Document::new("copy-out");
    let config = json!({"collection": command.collection, "order": true});
    let source = flow.place("read", config, None);
    let sink = flow.place("copy_out", json!({"format": command.format}), None);
    flow.attach(&source, &sink);
    drive::run(&flow, &host.registry(), &drive::options(&command.resources), log)?;
    Ok(0)
}
