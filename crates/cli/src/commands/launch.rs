//! `launch`: runs a program on the workers of a cluster and prints its output here.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use clap::Args;
use euphrates_engine::cluster::launch::{CHUNK_BYTES_MAX, LaunchOrder, ProgramEnd};
use euphrates_engine::cluster::launch::{Launch, LaunchEvent, ProgramSlot, launch};
use euphrates_flow::Result;
use serde_json::json;

use crate::host::Host;
use crate::line_output::{LineFormat, LineOutput};
use crate::options::Log;
use crate::options::cluster::ClusterAccess;
use crate::signals::Signals;
use crate::terminal::{print, say};

/// Poll interval of signals.
const SIGNAL_POLL: Duration = Duration::from_millis(20);

/// Arguments of `euphrates launch`.
#[derive(Debug, Args)]
pub struct LaunchCommand {
    #[command(flatten)]
    access: ClusterAccess,
    /// Workers by name or label, with commas between; may be repeated [default: all]
    #[arg(long, value_name = "WORKERS", value_delimiter = ',')]
    on: Vec<String>,
    /// A variable for the program; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// The folder it works in, on every worker [default: the worker's]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Programs on each worker
    #[arg(long, value_name = "N", default_value_t = 1)]
    per_worker: usize,
    /// What the programs write as they write it, without the workers' names
    #[arg(long)]
    plain: bool,
    /// Have every program read this command's standard input
    #[arg(long, conflicts_with = "detach")]
    stdin: bool,
    /// Start it and go: it runs on, and what it writes is lost
    #[arg(long)]
    detach: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() {
        return Err("write NAME=VALUE".into());
    }
    Ok((name.into(), value.into()))
}

/// Starts the programs, prints their output, and returns the first non-zero exit code.
pub fn run(command: LaunchCommand, log: Log, host: &dyn Host) -> Result<u8> {
    let cluster = command.access.open(&command.on, host)?;
    let mut words = command.program.into_iter();
    let order = LaunchOrder {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        env: command.env.into_iter().collect(),
        cwd: command.cwd,
        is_detached: command.detach,
        has_stdin: command.stdin,
    };
    let launched = Arc::new(launch(&cluster, &order, &command.on, command.per_worker)?);
    if command.detach {
        print(&format!("{}\n", launched.id()))?;
        return Ok(0);
    }
    if command.stdin {
        let target = Arc::downgrade(&launched);
        thread::spawn(move || forward_stdin(&target));
    }
    // On a thread of its own: a write to a stopped terminal blocks.
    let (signals, target) = (Signals::listen(), Arc::downgrade(&launched));
    thread::spawn(move || forward_signals(&signals, &target));
    let ends = print_output(&launched, LineFormat::of(log, command.plain))?;
    if log != Log::Quiet {
        report(log, launched.slots(), &ends);
    }
    Ok(ends.iter().map(ProgramEnd::exit_code).find(|code| *code != 0).unwrap_or(0))
}

/// Forwards signals: the first interrupts the programs, the next ones kill them.
fn forward_signals(signals: &Signals, launched: &Weak<Launch>) {
    let mut is_second = false;
    while launched.strong_count() > 0 {
        thread::sleep(SIGNAL_POLL);
        if let Some(launched) = launched.upgrade().filter(|_| signals.take()) {
            launched.stop(is_second);
            is_second = true;
        }
    }
}

/// Copies standard input to the standard input of all programs.
fn forward_stdin(launched: &Weak<Launch>) {
    let mut chunk = vec![0; CHUNK_BYTES_MAX];
    let mut stdin = std::io::stdin().lock();
    // A read error ends the input.
    while let Ok(bytes) = std::io::Read::read(&mut stdin, &mut chunk) {
        match launched.upgrade() {
            Some(launched) if launched.feed(&chunk[..bytes]) => {}
            _ => return,
        }
    }
    if let Some(launched) = launched.upgrade() {
        launched.feed(&[]);
    }
}

/// Prints the output of the programs until all have ended. Returns their ends by rank; none if
/// the reader of standard output has gone.
fn print_output(launched: &Launch, format: LineFormat) -> Result<Vec<ProgramEnd>> {
    let mut ends: Vec<Option<ProgramEnd>> = vec![None; launched.slots().len()];
    let mut lines = LineOutput::new(launched.slots(), format);
    let mut within = Duration::ZERO;
    loop {
        match launched.step(within) {
            LaunchEvent::Wrote { rank, stream, bytes } => lines.add(rank, stream, &bytes)?,
            LaunchEvent::Ended { rank, end } => {
                lines.end(rank)?;
                ends[rank] = Some(end);
            }
            LaunchEvent::Quiet => lines.flush()?,
            LaunchEvent::Over => break,
        }
        if lines.is_closed() {
            // Like SIGPIPE for a program that writes to a closed pipe.
            launched.stop(true);
            return Ok(vec![]);
        }
        // Collect output while more is available, and flush before waiting.
        within = if lines.is_flushed() { Duration::MAX } else { Duration::ZERO };
    }
    lines.flush()?;
    Ok(ends.into_iter().flatten().collect())
}

/// Prints how programs ended that did not succeed; in JSON, how each ended.
fn report(log: Log, slots: &[ProgramSlot], ends: &[ProgramEnd]) {
    for (slot, end) in slots.iter().zip(ends) {
        if log == Log::Json {
            let code = (!matches!(end, ProgramEnd::Lost(_))).then(|| end.exit_code());
            let event = json!({
                "event": "ended", "name": slot.name, "worker": slot.worker,
                "exit_code": code, "how": end.to_string(),
            });
            say(&event.to_string());
        } else if let ProgramEnd::Lost(error) = end {
            say(&format!("{} {end}: {}", slot.name, error.message()));
        } else if end.exit_code() != 0 {
            say(&format!("{} {end}", slot.name));
        }
    }
}
