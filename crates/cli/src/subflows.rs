//! Runs the flows within modules: the program knows both the engine and the modules.

use std::time::Duration;

use euphrates_engine::{Options, start};
use euphrates_flow::module::Collected;
use euphrates_flow::{Document, Error, ModuleSpec, Result, Setup};

/// How often a flow within a module looks whether the flow around it has been cancelled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The least memory of such a flow.
const MEMORY_BYTES_MIN: usize = 16 << 20;

/// Lets modules run flows in this process.
///
/// ```
/// euphrates_cli::allow_subflows();
/// ```
pub fn allow_subflows() {
    euphrates_modules::run_subflows_by(run);
}

fn run(
    document: &Document,
    extra: &'static ModuleSpec,
    memory_bytes: usize,
    setup: &Setup,
) -> Result<Collected> {
    let registry = euphrates_modules::registry().with([extra]);
    let options = Options {
        memory_bytes: Some(memory_bytes.max(MEMORY_BYTES_MIN)),
        home: Some(setup.home.clone()),
        scratch: setup.scratch.clone(),
        ..Options::default()
    };
    let mut running = start(document, &registry, &options)?;
    while !running.wait_for(CANCEL_POLL_INTERVAL) {
        if let Err(stopped) = setup.cancel.check() {
            running.cancel();
            // It ends with the same error, after its instances have.
            let _ = running.wait();
            return Err(stopped);
        }
    }
    let mut collected = running.finish()?.collected;
    collected.pop_first().map(|(_, rows)| rows).ok_or_else(|| Error::failed("it collects nothing"))
}
