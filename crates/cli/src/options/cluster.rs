//! Options that select a cluster and its transport security, and the parsers of their values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::options::{ClusterOptions, check_lost_after};
use euphrates_engine::cluster::served::served_home;
use euphrates_engine::cluster::{Cluster, Security};
use euphrates_engine::machine;
use euphrates_flow::Result;

use crate::host::Host;

/// The cluster that a command connects to or starts.
#[derive(Debug, Args)]
pub struct ClusterAccess {
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

impl ClusterAccess {
    /// Opens the cluster and connects to the workers named in `on`, or to all if it is empty.
    pub fn open(&self, on: &[String], host: &dyn Host) -> Result<Arc<Cluster>> {
        let options = ClusterOptions {
            worker_command: host.worker_command(),
            worker_environment: host.worker_environment(),
            token_file: self.token_file.clone(),
            workers: self.workers,
            on: on.to_vec(),
            security: Some(self.channel_security),
            lost_after: self.lost_after,
            ..ClusterOptions::default()
        };
        open(&self.cluster, &options)
    }
}

/// The cluster whose workers have the disks of a command's striped files, if it is not the home.
#[derive(Clone, Debug, Args)]
pub struct ServedFiles {
    /// The cluster whose workers serve the disks: at:HOST:PORT
    #[arg(long, value_name = "CLUSTER", global = true)]
    cluster: Option<String>,
    /// A file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// How others are kept out: tls or token
    #[arg(
        long,
        value_name = "WAY",
        default_value = "tls",
        value_parser = parse_security,
        global = true
    )]
    channel_security: Security,
    /// Seconds after which a worker that says nothing is lost [default: 10, or 2 on one machine]
    #[arg(long, value_name = "SECONDS", value_parser = parse_lost_after, global = true)]
    lost_after: Option<Duration>,
    /// The home folder of the files, or of what is known of clusters; else $EUPHRATES_HOME, or
    /// ~/.euphrates
    #[arg(long, global = true)]
    home: Option<PathBuf>,
}

impl ServedFiles {
    /// The home of the files: one that stands for the cluster, if there is one.
    pub fn home(&self) -> Result<PathBuf> {
        let home = self.home.clone().unwrap_or_else(machine::home);
        let Some(cluster) = &self.cluster else { return Ok(home) };
        let options = ClusterOptions {
            token_file: self.token_file.clone(),
            security: Some(self.channel_security),
            lost_after: self.lost_after,
            ..ClusterOptions::default()
        };
        served_home(cluster, &options, &home)
    }
}

/// Parses `tls` or `token`.
pub fn parse_security(word: &str) -> Result<Security, String> {
    match word {
        "tls" => Ok(Security::Tls),
        "token" => Ok(Security::Token),
        other => Err(format!("`{other}` is neither tls nor token")),
    }
}

/// Parses the liveness timeout of a connection, in seconds.
pub fn parse_lost_after(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let asked = seconds.ok_or_else(|| format!("`{text}` is not a number of seconds"))?;
    check_lost_after(asked).map_err(|error| error.to_string())
}

/// Parses how long a worker may drain, in seconds.
pub fn parse_drain_timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("`{text}` is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn liveness_timeout_accepts_only_sensible_seconds() {
        assert_eq!(parse_lost_after("2.5"), Ok(Duration::from_millis(2500)));
        for wrong in ["", "soon", "-1", "nan", "1", "3601"] {
            assert!(parse_lost_after(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn drain_timeout_accepts_any_number_of_seconds() {
        assert_eq!(parse_drain_timeout("0"), Ok(Duration::ZERO));
        assert_eq!(parse_drain_timeout("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "soon", "-1", "nan", "inf", "1e300"] {
            assert!(parse_drain_timeout(wrong).is_err(), "{wrong}");
        }
    }
}
