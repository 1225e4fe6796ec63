//! `worker`: runs a worker process, which executes parts of flows and programs for masters.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use euphrates_engine::cluster::rendezvous::{Joined, MemberLine, join, own_host};
use euphrates_engine::cluster::served::{RequestOrder, ServeOptions, parse_order};
use euphrates_engine::cluster::{
    Address, Leave, Secret, Security, WorkerDrain, WorkerProperties, WorkerServer, WorkerSettings,
};
use euphrates_engine::machine;
use euphrates_flow::{Kind, Result};
use euphrates_server::metrics::collector::of_parts;
use euphrates_server::metrics::server::MetricsServer;

use crate::host::Host;
use crate::options::cluster::{parse_drain_timeout, parse_lost_after, parse_security};
use crate::options::parse_bytes;
use crate::signals::Signals;
use crate::supervisor::supervised;
use crate::terminal::{print, say};

/// Poll interval of signals and of the parent process. A lost connection wakes the worker earlier.
const LIVENESS_POLL: Duration = Duration::from_millis(50);
/// Pause between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long a worker retries to connect when it starts before its master or rendezvous.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `euphrates worker`.
#[derive(Debug, Args)]
pub struct WorkerArguments {
    /// What it is called; letters, digits, `-`, `_` and `.` [default: the machine's name]
    #[arg(long)]
    name: Option<String>,
    /// Where it listens: host:port, or unix:/path [default: where the other end of --join sees it]
    #[arg(long, value_name = "ADDRESS", required_unless_present = "join")]
    listen: Option<Address>,
    /// The master, or the keeper, that it joins
    #[arg(long, value_name = "ADDRESS")]
    join: Option<Address>,
    /// Join again whenever the other end of --join has gone, until told to end
    #[arg(long, requires = "join")]
    stay: bool,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Seconds that its flows may take to end after SIGTERM, until it leaves them; a second SIGTERM
    /// ends it at once
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_drain_timeout)]
    drain_timeout: Duration,
    /// Something that is true of it, like gpu or zone=a; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Processors it may use [default: all]
    #[arg(long)]
    cores: Option<usize>,
    /// Memory it may use [default: the machine's, or its control group's]
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<usize>,
    /// Folder for what does not fit the memory; may be repeated, one for each disk
    #[arg(long)]
    scratch: Vec<PathBuf>,
    /// Memory, beside that, for what flows on other machines spill
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    lend_memory: Option<usize>,
    /// How others are kept out where it listens at a port: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
    /// Seconds after which an end that says nothing is lost [default: 10, or 2 on one machine]
    #[arg(long, value_name = "SECONDS", value_parser = parse_lost_after)]
    lost_after: Option<Duration>,
    /// Serve the disks of this home to programs with striped files on several machines
    #[arg(long, value_name = "HOME")]
    serve: Option<PathBuf>,
    /// Serve the catalog of that home, too: exactly one worker of a cluster does
    #[arg(long, requires = "serve")]
    serve_catalog: bool,
    /// The order of requests that wait for a served disk: first, random, hash, or late
    #[arg(long, value_name = "ORDER", default_value = "late", value_parser = parse_order)]
    serve_order: RequestOrder,
    /// Serve metrics for Prometheus at HOST:PORT/metrics, to whoever reaches the address; or at a
    /// port of this machine alone
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// It ends with this process, which started it
    #[arg(long, value_name = "PID", hide = true)]
    child_of: Option<u32>,
    /// The pid of its supervisor, with which it ends
    #[arg(long, value_name = "PID", hide = true)]
    kept_by: Option<u32>,
}

/// Serves masters until a signal arrives, it is drained, or the process that started this one has
/// ended.
pub fn run(command: WorkerArguments, host: &dyn Host) -> Result<u8> {
    if command.stay && command.kept_by.is_none() {
        let name = command.name.unwrap_or_else(machine::name);
        return supervised(&name, command.drain_timeout);
    }
    let registry = host.worker_registry();
    let signals = Signals::listen_apart();
    let (secret, security) = (Secret::read(&command.token_file)?, command.channel_security);
    let lent_bytes = command.lend_memory.unwrap_or(0) as u64;
    let own_memory_bytes = || machine::memory_bytes().saturating_sub(lent_bytes);
    let member = WorkerProperties {
        name: command.name.unwrap_or_else(machine::name),
        labels: command.labels,
        cores: command.cores.unwrap_or_else(machine::cores),
        memory_bytes: command.memory.map_or_else(own_memory_bytes, |bytes| bytes as u64),
        host: machine::host(),
        lent_bytes,
    };
    let listen = match (command.listen, &command.join) {
        (Some(listen), Some(join)) => {
            retry(&signals, CONNECT_TIMEOUT, || advertised(listen.clone(), join))?
        }
        (Some(listen), None) => listen,
        (None, Some(join)) => {
            Address::Tcp(format!("{}:0", retry(&signals, CONNECT_TIMEOUT, || own_host(join))?))
        }
        (None, None) => unreachable!("one of both is required"),
    };
    let setting = WorkerSettings {
        member: member.clone(),
        listen,
        secret: secret.clone(),
        security,
        lost_after: command.lost_after,
        scratch: command.scratch,
    };
    let alone = Arc::new(AtomicBool::new(false));
    let files = command.serve.map(|home| ServeOptions {
        home,
        has_catalog: command.serve_catalog,
        order: command.serve_order,
    });
    let server = WorkerServer::start_serving(setting, registry, files.as_ref(), wakes(&alone))?;
    let served = command.metrics.map(|address| -> Result<MetricsServer> {
        let (totals, name) = (server.totals_reader(), member.name.clone());
        let served = MetricsServer::start(&address, Arc::new(move || of_parts(totals(), &name)))?;
        say(&format!("metrics at http://{}/metrics", served.address));
        Ok(served)
    });
    let served = served.transpose()?;
    let name = member.name.clone();
    let joined = Joined { member, address: server.address().clone() };
    let mut joining = Joining {
        to: command.join,
        joined,
        secret,
        security,
        lost_after: command.lost_after,
        stay: command.stay,
        drain: Arc::default(),
    };
    if joining.to.is_none() && command.child_of.is_none() {
        print(&format!("listening at {}\n", server.address()))?;
    }
    let mut connection = retry(&signals, CONNECT_TIMEOUT, || joining.join())?;
    let parent = command.child_of.or(command.kept_by);
    let is_orphan = || parent.is_some_and(|parent| machine::parent() != Some(parent));
    let is_left = || is_orphan() || (command.child_of.is_some() && alone.load(SeqCst));
    let (began, mut drain) = (Instant::now(), WorkerDrain::new(command.drain_timeout));
    while !signals.interrupted() && !is_left() {
        thread::park_timeout(LIVENESS_POLL);
        server.refusals().iter().for_each(|line| say(line));
        let now = began.elapsed();
        let is_terminated = signals.take_terminated() && drain.on_terminate(now);
        let is_requested = joining.drain.swap(false, SeqCst) || signals.take_requested();
        let is_requested = is_requested && drain.on_request(now);
        if is_terminated || is_requested {
            server.drain();
            connection.iter().for_each(|(_, line)| line.drain());
            say(&format!("worker {name} drains"));
        }
        if let Some(leave) = drain.leave(now, server.is_used()) {
            say(&left(&name, leave));
            break;
        }
        if connection.as_ref().is_some_and(|(ended, _)| ended.load(SeqCst)) {
            connection = match joining.stay {
                // It finishes its flows, which do not need the keeper.
                true if drain.is_draining() => None,
                true => joining.join_again(&signals)?,
                false => break,
            };
        }
    }
    drop((connection, served, server));
    if command.child_of.is_some() {
        // A killed master leaves the token file behind; its last worker removes the folder.
        let _ = std::fs::remove_file(&command.token_file);
        let folder = command.token_file.parent();
        let _ = folder.map(std::fs::remove_dir);
    }
    Ok(0)
}

/// The line that reports why a draining worker has left.
fn left(name: &str, leave: Leave) -> String {
    let why = match leave {
        Leave::Unused => "no flow uses it",
        Leave::Deadline => "flows use it, but --drain-timeout is over",
        Leave::Terminated => "flows use it, but it was terminated again",
    };
    format!("worker {name} leaves: {why}")
}

/// Retries for at most `timeout`, because the other end, or the name of its machine, may not be
/// available yet.
fn retry<T>(
    signals: &Signals,
    timeout: Duration,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        match attempt() {
            Err(error) if error.kind() == Kind::Resource => {
                if signals.received() {
                    return Err(error);
                }
                if Instant::now() > deadline {
                    return Err(error.at(format!("tried for {} s", timeout.as_secs())));
                }
                thread::sleep(RETRY_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// A callback that sets the flag and wakes the calling thread.
fn wakes(flag: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
    let (flag, waiting) = (flag.clone(), thread::current());
    move || {
        flag.store(true, SeqCst);
        waiting.unpark();
    }
}

/// Replaces a wildcard address by the address of this machine that the other end sees.
fn advertised(listen: Address, join: &Address) -> Result<Address> {
    let Address::Tcp(host_port) = &listen else { return Ok(listen) };
    let all = ["0.0.0.0:", "[::]:"].into_iter().find_map(|all| host_port.strip_prefix(all));
    match all {
        Some(port) => Ok(Address::Tcp(format!("{}:{port}", own_host(join)?))),
        None => Ok(listen),
    }
}

/// The parameters of the connection to a master or rendezvous.
struct Joining {
    to: Option<Address>,
    joined: Joined,
    secret: Secret,
    security: Security,
    lost_after: Option<Duration>,
    stay: bool,
    /// Set when the other end requests a drain.
    drain: Arc<AtomicBool>,
}

/// A flag that is set when the other end has gone, and the connection to it.
type MasterConnection = (Arc<AtomicBool>, MemberLine);

impl Joining {
    fn join(&mut self) -> Result<Option<MasterConnection>> {
        let Some(to) = &self.to else { return Ok(None) };
        let ended = Arc::new(AtomicBool::new(false));
        let (on_drain, on_end) = (wakes(&self.drain), wakes(&ended));
        let on = (on_drain, move |_| on_end());
        let line = join(to, &self.joined, &self.secret, self.security, self.lost_after, on)?;
        Ok(Some((ended, line)))
    }

    /// Reconnects; returns `None` if a signal arrives first.
    fn join_again(&mut self, signals: &Signals) -> Result<Option<MasterConnection>> {
        loop {
            match self.join() {
                Err(error) if error.kind() == Kind::Resource && !signals.received() => {
                    thread::sleep(RETRY_PAUSE);
                }
                Err(_) if signals.received() => return Ok(None),
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Error;

    #[test]
    fn unavailable_peers_are_retried_until_the_timeout() {
        let (signals, mut tries) = (Signals::listen(), 0);
        let mut attempt = |comes_at| {
            tries += 1;
            let absent = || Error::resource("cannot resolve keeper:7");
            if tries < comes_at { Err(absent().remedy("check the name")) } else { Ok(tries) }
        };
        assert_eq!(retry(&signals, CONNECT_TIMEOUT, || attempt(2)).unwrap(), 2);
        let error = retry(&signals, Duration::ZERO, || attempt(usize::MAX)).unwrap_err();
        let wanted = "tried for 0 s: cannot resolve keeper:7\n  remedy: check the name";
        assert_eq!(error.to_string(), wanted);
        let wrong = || -> Result<()> { Err(Error::usage("another token")) };
        assert_eq!(retry(&signals, CONNECT_TIMEOUT, wrong).unwrap_err().kind(), Kind::Usage);
    }
}
