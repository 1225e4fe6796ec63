//! Clusters by a few words, as programs and the command line write them: `processes:4`,
//! `join:HOST:PORT` for workers that are to come here, `at:HOST:PORT` for those a keeper has.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use euphrates_policy::suspicion::{ASKED_LEAST, ASKED_MOST};
use euphrates_wire::{Address, Secret, Security};

use super::Cluster;
use super::join::{Join, Rendezvous, StaticDriver, members};
use super::processes::Processes;
use crate::run::placement::{Member, chosen};

/// How long workers that come by themselves are waited for, unless that is said.
pub const JOIN_WAIT: Duration = Duration::from_secs(60);

/// What clusters are opened with, besides the words.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// What starts a worker, but for the arguments that say which.
    pub worker_command: Vec<OsString>,
    /// What it is started with in its environment, besides this program's.
    pub worker_environment: Vec<(OsString, OsString)>,
    /// A file with the cluster's token.
    pub token_file: Option<PathBuf>,
    /// Workers to wait for.
    pub workers: Option<usize>,
    /// How long.
    pub within: Option<Duration>,
    /// Of a kept cluster, only workers that are called so, or have such a label; all, if none is
    /// said. The others need not even answer.
    pub on: Vec<String>,
    /// How others are kept out, across machines; TLS if it is not said.
    pub security: Option<Security>,
    /// The limit on silence of any end, if not the default.
    pub lost_after: Option<Duration>,
}

impl ClusterOptions {
    fn secret(&self) -> Result<Secret> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            Error::usage("workers and their master must know the same token, and none is given")
                .remedy("make one (`euphrates token FILE`), and give the file: `--token-file FILE`")
        })?;
        Secret::read(file)
    }

    fn lost_after(&self) -> Result<Option<Duration>> {
        self.lost_after.map(check_lost_after).transpose()
    }

    fn security(&self) -> Security {
        self.security.unwrap_or(Security::Tls)
    }
}

/// Refuses limits on silence that are too short or too long.
pub fn check_lost_after(asked: Duration) -> Result<Duration> {
    if (ASKED_LEAST..=ASKED_MOST).contains(&asked) {
        return Ok(asked);
    }
    let (least, most) = (ASKED_LEAST.as_secs(), ASKED_MOST.as_secs());
    let message = format!("a limit of {} s on silence is out of range", asked.as_secs_f64());
    Err(Error::usage(message).remedy(format!("give {least} to {most} seconds")))
}

/// Opens a cluster.
pub fn open(words: &str, options: &ClusterOptions) -> Result<Arc<Cluster>> {
    let (kind, rest) = words.split_once(':').unwrap_or((words, ""));
    let opened = match kind {
        "processes" => processes(number(rest)?, options),
        "join" => join(&rest.parse()?, options),
        "at" => at(&rest.parse()?, options),
        other => {
            let known = ["processes", "join", "at", "ray"];
            Err(unknown("kind of cluster", other, known.into_iter()))
        }
    };
    opened.map(Arc::new)
}

/// So many workers on this machine.
pub fn processes(workers: usize, options: &ClusterOptions) -> Result<Cluster> {
    let secret = Secret::random()?;
    let driver = Processes::new(workers, options, &secret)?;
    Cluster::open_within(options.lost_after()?, Box::new(driver), &secret, Security::Token)
}

/// Workers that join this program here.
pub fn join(address: &Address, options: &ClusterOptions) -> Result<Cluster> {
    let (secret, security) = (options.secret()?, options.security());
    let lost_after = options.lost_after()?;
    let rendezvous = Rendezvous::open(address, &secret, security, lost_after)?;
    let driver =
        Join::new(rendezvous, options.workers.unwrap_or(1), options.within.unwrap_or(JOIN_WAIT));
    Cluster::open_within(lost_after, Box::new(driver), &secret, security)
}

/// Workers that have joined a keeper.
pub fn at(address: &Address, options: &ClusterOptions) -> Result<Cluster> {
    let (secret, security) = (options.secret()?, options.security());
    let joined = members(address, &secret, security)?;
    let wanted = options.workers.unwrap_or(1);
    if joined.len() < wanted {
        let message = format!("{} of {wanted} workers are there", joined.len());
        return Err(Error::resource(message).remedy("start more: `euphrates worker --join …`"));
    }
    let all: Vec<&Member> = joined.iter().map(|joined| &joined.member).collect();
    let meant = chosen(&options.on, &all)?.into_iter();
    let meant = meant.map(|at| (all[at].name.clone(), joined[at].address.clone()));
    let (driver, _) = StaticDriver::new(meant.collect());
    // A restarted worker has joined the keeper again, at another port.
    let (keeper, token) = (address.clone(), secret.clone());
    let again = move |worker: &str| -> Result<Option<Address>> {
        let joined = members(&keeper, &token, security)?.into_iter();
        let mut named = joined.filter(|joined| joined.member.name == worker);
        Ok(named.next().map(|joined| joined.address))
    };
    let driver = Box::new(driver.restarted_by(Box::new(again)));
    Cluster::open_within(options.lost_after()?, driver, &secret, security)
}

fn number(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        Error::usage(format!("`{text}` is no number of workers")).remedy("write `processes:4`")
    })
}
