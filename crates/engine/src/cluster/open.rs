//! Opens a cluster by its text form: `processes:4`, `join:HOST:PORT` for workers that join here,
//! `at:HOST:PORT` for the members of a keeper.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use euphrates_wire::{Address, Secret, Security};

use super::Cluster;
use super::options::ClusterOptions;
use super::process_driver::ProcessDriver;
use super::rendezvous::{JoinDriver, Joined, Rendezvous, members};
use super::static_driver::StaticDriver;
use crate::run::placement::{WorkerProperties, select_workers};

/// How long to wait for workers that join, by default.
pub(crate) const JOIN_WAIT: Duration = Duration::from_secs(60);

/// Opens the cluster that `words` describe.
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

/// A cluster of this many processes on this machine.
pub fn processes(workers: usize, options: &ClusterOptions) -> Result<Cluster> {
    let secret = Secret::random()?;
    let driver = ProcessDriver::new(workers, options, &secret)?;
    Cluster::open_within(options.lost_after()?, Box::new(driver), &secret, Security::Token)
}

/// A cluster of workers that join this program here.
pub fn join(address: &Address, options: &ClusterOptions) -> Result<Cluster> {
    let (secret, security) = (options.secret()?, options.security());
    let lost_after = options.lost_after()?;
    let rendezvous = Rendezvous::open(address, &secret, security, lost_after)?;
    let driver = JoinDriver::new(
        rendezvous,
        options.workers.unwrap_or(1),
        options.within.unwrap_or(JOIN_WAIT),
    );
    Cluster::open_within(lost_after, Box::new(driver), &secret, security)
}

/// A cluster of a keeper's members.
pub fn at(address: &Address, options: &ClusterOptions) -> Result<Cluster> {
    let (secret, security) = (options.secret()?, options.security());
    let joined = members(address, &secret, security)?;
    let wanted = options.workers.unwrap_or(1);
    if joined.len() < wanted {
        let message = format!("{} of {wanted} workers are there", joined.len());
        return Err(Error::resource(message).remedy("start more: `euphrates worker --join …`"));
    }
    let (driver, _) = StaticDriver::new(selected(&joined, &options.on)?);
    // A restarted worker has joined the keeper again, at another port.
    let (keeper, token) = (address.clone(), secret.clone());
    let again = move |worker: &str| -> Result<Option<Address>> {
        let joined = members(&keeper, &token, security)?.into_iter();
        let mut named = joined.filter(|joined| joined.member.name == worker);
        Ok(named.next().map(|joined| joined.address))
    };
    let (keeper, token, on) = (address.clone(), secret.clone(), options.on.clone());
    let now = move || selected(&members(&keeper, &token, security)?, &on);
    let driver = Box::new(driver.restarted_by(Box::new(again)).joined_by(Box::new(now)));
    Cluster::open_within(options.lost_after()?, driver, &secret, security)
}

/// The names and addresses of the workers that `on` names.
fn selected(joined: &[Joined], on: &[String]) -> Result<Vec<(String, Address)>> {
    let all: Vec<&WorkerProperties> = joined.iter().map(|joined| &joined.member).collect();
    let selected = select_workers(on, &all)?.into_iter();
    Ok(selected.map(|at| (all[at].name.clone(), joined[at].address.clone())).collect())
}

fn number(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        Error::usage(format!("`{text}` is not a number of workers")).remedy("write `processes:4`")
    })
}
