//! `studio`: serves the flow editor, and opens it in the browser.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use clap::Args;
use euphrates_engine::machine;
use euphrates_flow::{Error, Result};
use euphrates_server::{Server, ServerSettings};

use crate::host::Host;
use crate::signals::Signals;
use crate::terminal::{print, say};

/// Poll interval of signals and of the Enter key.
const INPUT_POLL: Duration = Duration::from_millis(50);

/// Arguments of `euphrates studio`.
#[derive(Debug, Args)]
pub struct StudioArguments {
    /// The flow, or the Python file that builds one, that is opened first
    pub flow: Option<PathBuf>,
    /// The project's folder: nothing else is read or written [default: the current one, or the
    /// flow's]
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// The port on this machine [default: 1999, or another that is free]
    #[arg(long)]
    pub port: Option<u16>,
    /// Print the link only, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// Change nothing, and run nothing
    #[arg(long)]
    pub read_only: bool,
    /// Runs end with the studio; else they go on, and the next one finds them
    #[arg(long)]
    pub end_runs: bool,
    /// Show what an event log tells as a run, at its pace
    #[arg(long, value_name = "FILE", conflicts_with = "read_only")]
    pub replay: Option<PathBuf>,
    /// A name with a port by which browsers reach it through a tunnel, like laptop:8000; may be
    /// repeated
    #[arg(long = "allowed-host", value_name = "HOST:PORT")]
    pub allowed_hosts: Vec<String>,
}

/// Runs the server until a signal arrives.
pub fn run(command: StudioArguments, host: &dyn Host) -> Result<()> {
    let signals = Signals::listen();
    let (root, flow) = project(command.root, command.flow.as_deref())?;
    // Relative to where the command was given.
    let replay = command.replay.map(std::path::absolute).transpose();
    let replay = replay.map_err(|error| Error::os("find", "the event log", &error))?;
    // Checks resolve relative paths of flows like runs do: from the project's folder.
    std::env::set_current_dir(&root)
        .map_err(|error| Error::os("go to the project's folder", &root, &error))?;
    let server = Server::start(ServerSettings {
        root: root.clone(),
        flow,
        port: command.port,
        read_only: command.read_only,
        allowed_hosts: command.allowed_hosts,
        end_runs: command.end_runs,
        registry: host.registry(),
        program: host.program(),
        environment: host.worker_environment(),
        home: machine::home(),
    })?;
    let (address, link) = (server.address, server.link()?);
    print(&format!("{} at {address}\n{link}\n", root.display()))?;
    if let Some(log) = &replay {
        print(&format!("run {} shows {}\n", server.replay(log)?, log.display()))?;
    }
    if std::io::stdin().is_terminal() {
        print("Enter: another link; Ctrl-C: the end\n")?;
        listen_for_enter();
    }
    if !command.no_open {
        open(&server.link_file()?);
    }
    while !signals.received() {
        std::thread::sleep(INPUT_POLL);
        server.refusals().iter().for_each(|line| say(line));
        if ENTER.swap(false, SeqCst) {
            print(&format!("{}\n", server.link()?))?;
        }
    }
    Ok(())
}

/// Set when the user has pressed Enter.
static ENTER: AtomicBool = AtomicBool::new(false);

fn listen_for_enter() {
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            if line.is_err() {
                return;
            }
            ENTER.store(true, SeqCst);
        }
    });
}

/// The project's folder, and the flow's path relative to it.
fn project(root: Option<PathBuf>, flow: Option<&Path>) -> Result<(PathBuf, Option<String>)> {
    let whole = |path: &Path| path.canonicalize().map_err(|error| Error::os("open", path, &error));
    let flow = flow.map(whole).transpose()?;
    let here = whole(Path::new("."))?;
    let root = match (&root, &flow) {
        (Some(root), _) => whole(root)?,
        (None, Some(flow)) if !flow.starts_with(&here) => {
            flow.parent().map_or(here, Path::to_path_buf)
        }
        (None, _) => here,
    };
    let Some(flow) = flow else { return Ok((root, None)) };
    match flow.strip_prefix(&root).ok().and_then(Path::to_str) {
        Some(name) => Ok((root.clone(), Some(name.to_string()))),
        None => {
            let message = format!("{} is not beneath {}", flow.display(), root.display());
            Err(Error::usage(message).remedy("give another --root, or leave it out"))
        }
    }
}

/// Opens a browser. A failure is ignored, because the link has been printed.
fn open(file: &Path) {
    let mut command = Command::new("xdg-open");
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
