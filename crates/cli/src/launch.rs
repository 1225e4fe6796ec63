//! `euphrates launch`: any program on the workers of a cluster, and what it writes, here.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use clap::Args;
use euphrates_engine::cluster::launch::{CHUNK_BYTES_MAX, End, Launch, Order, Place, Step, launch};
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::options::ClusterOptions;
use euphrates_engine::cluster::{Cluster, Security};
use euphrates_flow::Result;
use serde_json::json;

use crate::Host;
use crate::arguments::{Log, parse_lost_after};
use crate::lines::{Lines, Look};
use crate::signals::Signals;
use crate::style::say;
use crate::worker::parse_security;

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// A cluster that is there, or is started for this.
#[derive(Debug, Args)]
pub struct Reached {
    /// The cluster: at:HOST:PORT for a kept one, processes:N on this machine, or join:HOST:PORT
    /// with workers that come there
    #[arg(long, value_name = "CLUSTER")]
    cluster: String,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Workers to wait for, or that there must be
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How others are kept out: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
    /// Seconds after which an end that says nothing is lost [default: 10, or 2 on one machine]
    #[arg(long, value_name = "SECONDS", value_parser = parse_lost_after)]
    lost_after: Option<Duration>,
}

impl Reached {
    /// Opens it, as far as it is needed: some workers, or all if none is said.
    pub fn open(&self, on: &[String], host: &dyn Host) -> Result<Arc<Cluster>> {
        let options = ClusterOptions {
            worker_command: host.worker_command(),
            worker_environment: host.worker_environment(),
            token_file: self.token_file.clone(),
            workers: self.workers,
            within: None,
            on: on.to_vec(),
            security: Some(self.channel_security),
            lost_after: self.lost_after,
        };
        open(&self.cluster, &options)
    }
}

/// `euphrates launch`
#[derive(Debug, Args)]
pub struct Start {
    #[command(flatten)]
    reached: Reached,
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

/// Starts it, brings home what it writes, and says how it has ended.
pub fn run(command: Start, log: Log, host: &dyn Host) -> Result<u8> {
    let cluster = command.reached.open(&command.on, host)?;
    let mut words = command.program.into_iter();
    let order = Order {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        env: command.env.into_iter().collect(),
        cwd: command.cwd,
        is_detached: command.detach,
        has_stdin: command.stdin,
    };
    let launched = Arc::new(launch(&cluster, &order, &command.on, command.per_worker)?);
    if command.detach {
        crate::print(&format!("{}\n", launched.id()))?;
        return Ok(0);
    }
    if command.stdin {
        let fed = Arc::downgrade(&launched);
        thread::spawn(move || feed(&fed));
    }
    // Whoever writes to a terminal that has been stopped cannot look for Ctrl-C as well.
    let (signals, heard) = (Signals::listen(), Arc::downgrade(&launched));
    thread::spawn(move || pass_on(&signals, &heard));
    let ends = tell(&launched, Look::of(log, command.plain))?;
    if log != Log::Quiet {
        report(log, launched.places(), &ends);
    }
    Ok(ends.iter().map(End::exit_code).find(|code| *code != 0).unwrap_or(0))
}

/// The first signal is passed on as a word; one more is meant.
fn pass_on(signals: &Signals, launched: &Weak<Launch>) {
    let mut is_meant = false;
    while launched.strong_count() > 0 {
        thread::sleep(LOOK);
        if let Some(launched) = launched.upgrade().filter(|_| signals.heard_again()) {
            launched.stop(is_meant);
            is_meant = true;
        }
    }
}

/// What is read here, all programs read.
fn feed(launched: &Weak<Launch>) {
    let mut chunk = vec![0; CHUNK_BYTES_MAX];
    let mut stdin = std::io::stdin().lock();
    // What cannot be read is the end.
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

/// Prints what comes until all have ended; how, in their order.
fn tell(launched: &Launch, look: Look) -> Result<Vec<End>> {
    let mut ends: Vec<Option<End>> = vec![None; launched.places().len()];
    let mut lines = Lines::new(launched.places(), look);
    let mut within = Duration::ZERO;
    loop {
        match launched.step(within) {
            Step::Wrote { rank, stream, bytes } => lines.add(rank, stream, &bytes)?,
            Step::Ended { rank, end } => {
                lines.end(rank)?;
                ends[rank] = Some(end);
            }
            Step::Quiet => lines.flush()?,
            Step::Over => break,
        }
        if lines.nobody_reads() {
            // As a pipe does with a program that writes to it; nobody wants to hear more.
            launched.stop(true);
            return Ok(vec![]);
        }
        // While more is there, it is gathered; then what there is is shown.
        within = if lines.is_flushed() { Duration::MAX } else { Duration::ZERO };
    }
    lines.flush()?;
    Ok(ends.into_iter().flatten().collect())
}

/// Who has not ended well.
fn report(log: Log, places: &[Place], ends: &[End]) {
    for (place, end) in places.iter().zip(ends) {
        if log == Log::Json {
            let code = (!matches!(end, End::Lost(_))).then(|| end.exit_code());
            let told = json!({
                "event": "ended", "name": place.name, "worker": place.worker,
                "exit_code": code, "how": end.to_string(),
            });
            say(&told.to_string());
        } else if let End::Lost(error) = end {
            say(&format!("{} {end}: {}", place.name, error.message()));
        } else if end.exit_code() != 0 {
            say(&format!("{} {end}", place.name));
        }
    }
}
