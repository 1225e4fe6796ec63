//! `euphrates cluster` and `euphrates token`: what a standing cluster needs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use euphrates_engine::cluster::join::Rendezvous;
use euphrates_engine::cluster::{Address, Secret, Security};
use euphrates_flow::Result;

use crate::print;
use crate::signals::Signals;
use crate::worker::parse_security;

/// How often the keeper looks whether it is told to end, and who has come.
const LOOK: Duration = Duration::from_millis(50);

/// `euphrates token`
#[derive(Debug, Args)]
pub struct Token {
    /// The new file, which nobody else may read
    file: PathBuf,
}

/// `euphrates cluster`
#[derive(Debug, Args)]
pub struct Keep {
    /// Where workers join, and masters ask for them: host:port
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// How others are kept out: tls or token
    #[arg(long, value_name = "WAY", default_value = "tls", value_parser = parse_security)]
    channel_security: Security,
}

/// Makes a token.
pub fn token(command: Token) -> Result<u8> {
    Secret::random()?.write(&command.file)?;
    Ok(0)
}

/// Keeps a cluster until it is told to end: its workers end with it.
pub fn keep(command: Keep) -> Result<u8> {
    let signals = Signals::listen();
    let secret = Secret::read(&command.token_file)?;
    let kept = Rendezvous::open(&command.listen, &secret, command.channel_security)?;
    print(&format!("workers join at {}\n", kept.address()))?;
    let mut known: Vec<String> = vec![];
    while !signals.heard() {
        std::thread::sleep(LOOK);
        let now: Vec<String> = kept.joined().into_iter().map(|joined| joined.member.name).collect();
        for name in now.iter().filter(|name| !known.contains(name)) {
            print(&format!("{name} has joined\n"))?;
        }
        for name in known.iter().filter(|name| !now.contains(name)) {
            print(&format!("{name} has left\n"))?;
        }
        known = now;
    }
    Ok(0)
}
