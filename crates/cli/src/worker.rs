//! `euphrates worker`: a process that does what a master asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use euphrates_engine::cluster::join::{Joined, Line, join, own_host};
use euphrates_engine::cluster::{Address, Member, Secret, Security, Server, Setting};
use euphrates_engine::machine;
use euphrates_flow::{Kind, Result};

use crate::Host;
use crate::arguments::{parse_bytes, parse_lost_after};
use crate::kept::supervised;
use crate::signals::Signals;
use crate::style::say;

/// How often a worker looks whether it is still wanted; it is told when those who want it leave.
const LOOK: Duration = Duration::from_millis(50);

/// How long a worker that comes first waits for whom it joins.
const PATIENCE: Duration = Duration::from_secs(60);

/// `euphrates worker`
#[derive(Debug, Args)]
pub struct Worker {
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
    /// How others are kept out where it listens at a port: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
    /// Seconds after which an end that says nothing is lost [default: 10, or 2 on one machine]
    #[arg(long, value_name = "SECONDS", value_parser = parse_lost_after)]
    lost_after: Option<Duration>,
    /// It ends with this process, which started it
    #[arg(long, value_name = "PID", hide = true)]
    child_of: Option<u32>,
    /// The pid of its supervisor, with which it ends
    #[arg(long, value_name = "PID", hide = true)]
    kept_by: Option<u32>,
}

/// `tls` or `token`.
pub fn parse_security(word: &str) -> Result<Security, String> {
    match word {
        "tls" => Ok(Security::Tls),
        "token" => Ok(Security::Token),
        other => Err(format!("`{other}` is neither tls nor token")),
    }
}

/// Serves until it is told to end, or nobody is left who started it.
pub fn run(command: Worker, host: &dyn Host) -> Result<u8> {
    if command.stay && command.kept_by.is_none() {
        return supervised(&command.name.unwrap_or_else(machine::name));
    }
    let registry = host.worker_registry();
    let signals = Signals::listen();
    let (secret, security) = (Secret::read(&command.token_file)?, command.channel_security);
    let member = Member {
        name: command.name.unwrap_or_else(machine::name),
        labels: command.labels,
        cores: command.cores.unwrap_or_else(machine::cores),
        memory_bytes: command.memory.map_or_else(machine::memory_bytes, |bytes| bytes as u64),
        host: machine::host(),
    };
    let listen = match (command.listen, &command.join) {
        (Some(listen), Some(join)) => {
            at_last(&signals, PATIENCE, || seen_from(listen.clone(), join))?
        }
        (Some(listen), None) => listen,
        (None, Some(join)) => {
            Address::Tcp(format!("{}:0", at_last(&signals, PATIENCE, || own_host(join))?))
        }
        (None, None) => unreachable!("one of both is required"),
    };
    let setting = Setting {
        member: member.clone(),
        listen,
        secret: secret.clone(),
        security,
        lost_after: command.lost_after,
        scratch: command.scratch,
    };
    let alone = Arc::new(AtomicBool::new(false));
    let server = Server::start(setting, registry, tell(&alone))?;
    let joined = Joined { member, address: server.address().clone() };
    let mut line = Joining {
        to: command.join,
        joined,
        secret,
        security,
        lost_after: command.lost_after,
        stay: command.stay,
    };
    if line.to.is_none() && command.child_of.is_none() {
        crate::print(&format!("listening at {}\n", server.address()))?;
    }
    let mut held = at_last(&signals, PATIENCE, || line.join())?;
    let parent = command.child_of.or(command.kept_by);
    let is_orphan = || parent.is_some_and(|parent| machine::parent() != Some(parent));
    let is_left = || is_orphan() || (command.child_of.is_some() && alone.load(SeqCst));
    while !signals.heard() && !is_left() {
        thread::park_timeout(LOOK);
        server.refusals().iter().for_each(|line| say(line));
        if held.as_ref().is_some_and(|(ended, _)| ended.load(SeqCst)) {
            held = match line.stay {
                true => line.join_again(&signals)?,
                false => break,
            };
        }
    }
    drop((held, server));
    if command.child_of.is_some() {
        // A program that was killed could not; the last of its workers finds it empty.
        let _ = std::fs::remove_file(&command.token_file);
        let folder = command.token_file.parent();
        let _ = folder.map(std::fs::remove_dir);
    }
    Ok(0)
}

/// Tries for so long: the other end may be on its way, too, and so may the name of its machine.
fn at_last<T>(
    signals: &Signals,
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Err(error) if error.kind() == Kind::Resource => {
                if signals.heard() {
                    return Err(error);
                }
                if Instant::now() > deadline {
                    return Err(error.at(format!("tried for {} s", patience.as_secs())));
                }
                thread::sleep(10 * LOOK);
            }
            outcome => return outcome,
        }
    }
}

/// What sets this, and wakes the calling thread to see it.
fn tell(whether: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
    let (whether, me) = (whether.clone(), thread::current());
    move || {
        whether.store(true, SeqCst);
        me.unpark();
    }
}

/// An address that names all of this machine's, as the other end of a line sees it.
fn seen_from(listen: Address, join: &Address) -> Result<Address> {
    let Address::Tcp(place) = &listen else { return Ok(listen) };
    let all = ["0.0.0.0:", "[::]:"].into_iter().find_map(|all| place.strip_prefix(all));
    match all {
        Some(port) => Ok(Address::Tcp(format!("{}:{port}", own_host(join)?))),
        None => Ok(listen),
    }
}

/// How a worker joins.
struct Joining {
    to: Option<Address>,
    joined: Joined,
    secret: Secret,
    security: Security,
    lost_after: Option<Duration>,
    stay: bool,
}

/// Whether the other end has gone, and the line to it.
type Held = (Arc<AtomicBool>, Line);

impl Joining {
    fn join(&mut self) -> Result<Option<Held>> {
        let Some(to) = &self.to else { return Ok(None) };
        let ended = Arc::new(AtomicBool::new(false));
        let told = tell(&ended);
        let line =
            join(to, &self.joined, &self.secret, self.security, self.lost_after, move |_| told())?;
        Ok(Some((ended, line)))
    }

    /// Until the other end is there again.
    fn join_again(&mut self, signals: &Signals) -> Result<Option<Held>> {
        loop {
            match self.join() {
                Err(error) if error.kind() == Kind::Resource && !signals.heard() => {
                    thread::sleep(10 * LOOK);
                }
                Err(_) if signals.heard() => return Ok(None),
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
    fn what_may_still_come_is_tried_again_and_in_the_end_it_is_said_for_how_long() {
        let (signals, mut tries) = (Signals::listen(), 0);
        let mut attempt = |comes_at| {
            tries += 1;
            let absent = || Error::resource("no machine is known by keeper:7");
            if tries < comes_at { Err(absent().remedy("check the name")) } else { Ok(tries) }
        };
        assert_eq!(at_last(&signals, PATIENCE, || attempt(2)).unwrap(), 2);
        let error = at_last(&signals, Duration::ZERO, || attempt(usize::MAX)).unwrap_err();
        let told = "tried for 0 s: no machine is known by keeper:7\n  remedy: check the name";
        assert_eq!(error.to_string(), told);
        let wrong = || -> Result<()> { Err(Error::usage("another token")) };
        assert_eq!(at_last(&signals, PATIENCE, wrong).unwrap_err().kind(), Kind::Usage);
    }
}
