//! `copy-in` and `copy-out`: collections and pipes, so that any program can be fed.

use euphrates_flow::{Document, Result};
use serde_json::{Value, json};

use crate::arguments::{CopyIn, CopyOut, Log};
use crate::ends::Fields;
use crate::{Host, run as drive};

/// `euphrates copy-in`
pub fn copy_in(command: CopyIn, log: Log, host: &dyn Host) -> Result<u8> {
    let mut flow = Document::new("copy-in");
    let mut config = command.text.config();
    config.insert("format".into(), command.format.into());
    let source = flow.place("copy_in", Value::Object(config), None);
    let config = json!({"collection": command.collection, "overwrite": command.overwrite});
    let sink = flow.place("write", config, None);
    flow.attach(&source, &sink);
    drive::run(&flow, &host.registry(), &drive::options(&command.resources, host)?, log)?;
    Ok(0)
}

/// `euphrates copy-out`
pub fn copy_out(command: CopyOut, log: Log, host: &dyn Host) -> Result<u8> {
    let mut flow = Document::new("copy-out");
    let config = json!({"collection": command.collection, "order": true});
    let source = flow.place("read", config, None);
    let CopyOut { delimiter, no_header, quote, escape, .. } = command;
    let mut config = Fields { delimiter, no_header, quote, escape, ..Fields::default() }.config();
    config.insert("format".into(), command.format.into());
    let given = [("null_value", command.null_value), ("compression", command.compression)];
    config.extend(given.into_iter().filter_map(|(name, one)| Some((name.into(), one?.into()))));
    let sink = flow.place("copy_out", Value::Object(config), None);
    flow.attach(&source, &sink);
    drive::run(&flow, &host.registry(), &drive::options(&command.resources, host)?, log)?;
    Ok(0)
}
