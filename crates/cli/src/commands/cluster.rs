//! `cluster`, `drain` and `token`: run the rendezvous of a persistent cluster, drain one of its
//! workers, and create its token.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use euphrates_engine::cluster::rendezvous::draining as keeper;
use euphrates_engine::cluster::rendezvous::{Joined, Rendezvous};
use euphrates_engine::cluster::{Address, Secret, Security};
use euphrates_flow::{Error, Result};

use crate::options::cluster::{parse_lost_after, parse_security};
use crate::signals::Signals;
use crate::terminal::{print, say};

/// Poll interval of signals and of the member list.
const MEMBERS_POLL: Duration = Duration::from_millis(50);

/// Arguments of `euphrates token`.
#[derive(Debug, Args)]
pub struct Token {
    /// The new file, which nobody else may read
    file: PathBuf,
}

/// Arguments of `euphrates cluster`.
#[derive(Debug, Args)]
pub struct ClusterCommand {
    /// Where workers join, and masters ask for them: host:port
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// How others are kept out: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
    /// Seconds after which an end that says nothing is lost [default: 10, or 2 on one machine]
    #[arg(long, value_name = "SECONDS", value_parser = parse_lost_after)]
    lost_after: Option<Duration>,
}

/// Arguments of `euphrates drain`.
#[derive(Debug, Args)]
pub struct DrainArguments {
    /// The keeper, or the program, that the worker has joined: host:port
    #[arg(value_name = "ADDRESS")]
    keeper: Address,
    /// The name of the worker
    #[arg(long, value_name = "NAME")]
    worker: String,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// How others are kept out: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
}

/// Writes a new token to a new file.
pub fn token(command: Token) -> Result<()> {
    if command.file.symlink_metadata().is_ok() {
        return Err(Error::usage(format!("{:?} exists already", command.file))
            .remedy("name a new file, or remove it if nothing uses its token any more"));
    }
    Secret::random()?.write(&command.file)
}

/// Runs the rendezvous until a signal arrives; the workers that joined end with it.
pub fn run(command: ClusterCommand) -> Result<()> {
    let signals = Signals::listen();
    let secret = Secret::read(&command.token_file)?;
    let rendezvous =
        Rendezvous::open(&command.listen, &secret, command.channel_security, command.lost_after)?;
    print(&format!("workers join at {}\n", rendezvous.address()))?;
    // A worker that was restarted between two polls has the same name but another port.
    let (mut known, mut draining): (Vec<Joined>, Vec<String>) = Default::default();
    while !signals.received() {
        std::thread::sleep(MEMBERS_POLL);
        rendezvous.refusals().iter().for_each(|line| say(line));
        let now = rendezvous.joined();
        for left in known.iter().filter(|one| !now.contains(one)) {
            print(&format!("{} has left\n", left.member.name))?;
        }
        for come in now.iter().filter(|one| !known.contains(one)) {
            print(&format!("{} has joined\n", come.member.name))?;
        }
        let drain = rendezvous.draining();
        for name in drain.iter().filter(|name| !draining.contains(name)) {
            print(&format!("{name} drains\n"))?;
        }
        (known, draining) = (now, drain);
    }
    Ok(())
}

/// Drains a worker, and waits until it has left.
pub fn drain(command: DrainArguments) -> Result<()> {
    let signals = Signals::listen();
    let DrainArguments { keeper: address, worker, token_file, channel_security } = command;
    let secret = Secret::read(&token_file)?;
    keeper::drain(&address, &worker, &secret, channel_security, &|| signals.received())?;
    print(&format!("{worker} has left\n"))
}
