//! Options that several commands share: the log format and the resources of a flow.

pub mod cluster;
pub mod files;
pub mod storage;
pub mod text;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use euphrates_engine::cluster::Security;

use cluster::{parse_lost_after, parse_security};

/// The format of progress and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    /// A live line on a terminal, plain lines elsewhere.
    Auto,
    /// Plain lines, also on a terminal.
    Plain,
    /// One JSON object a line.
    Json,
    /// Progress without a report, where that would be longer than the rows that are printed.
    #[value(skip)]
    Progress,
    /// Only errors, neither progress nor reports.
    Quiet,
}

/// Resources of a flow: memory, cores, scratch folders and cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ResourceOptions {
    /// The most memory to use, for example 512MiB or 4GB [default: 70 % of the machine's]
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// The size of a cache of remote files in memory, in addition to --memory: a file that is read
    /// twice, or again by a later flow of a kept cluster, is fetched once [default: no cache]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub cache: Option<usize>,
    /// Instances of each module that has no number of its own [default: one for each core]
    #[arg(long, value_name = "N")]
    pub cores: Option<usize>,
    /// The former name of `--cores`.
    #[arg(long, short = 't', hide = true, conflicts_with = "cores")]
    pub threads: Option<usize>,
    /// Folder for what does not fit the memory; may be repeated, one for each disk
    #[arg(long)]
    pub scratch: Vec<PathBuf>,
    /// Do nothing if the same flow, run with this option, has made its output before; else run what
    /// is left of it, and replace what it has made
    #[arg(long)]
    pub resume: bool,
    /// Serve metrics for Prometheus at HOST:PORT/metrics while the flow runs, to whoever reaches
    /// the address; or at a port of this machine alone
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Write what happens to the flow to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Workers in this process that the instances are spread over; with --cluster, to wait for
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Divide all work in advance, to compare: the same as --queues static
    #[arg(long = "static", conflicts_with = "queues")]
    pub divide: bool,
    /// How distributed queues decide: late_binding, static, round_robin, shortest, credit, sparrow
    #[arg(long, value_name = "WAY")]
    pub queues: Option<String>,
    /// Where to run: processes:N on this machine, join:HOST:PORT with workers that come there,
    /// at:HOST:PORT with those of a kept cluster, ray or ray:HOST:PORT on Ray's nodes, if this is
    /// the program of the wheel [default: this process]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// With --cluster: a file of its owner's alone with the cluster's token
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub token_file: Option<PathBuf>,
    /// With --cluster: how others are kept out, tls or token [default: tls]
    #[arg(long, value_name = "WAY", requires = "cluster")]
    #[arg(value_parser = parse_security)]
    pub channel_security: Option<Security>,
    /// With --cluster: seconds after which an end that says nothing is lost [default: 10, or 2 on
    /// one machine]
    #[arg(long, value_name = "SECONDS", requires = "cluster", value_parser = parse_lost_after)]
    pub lost_after: Option<Duration>,
}

/// Parses a size in bytes, like `512MiB`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    euphrates_flow::size::parse_bytes(text).map(|bytes| bytes as usize)
}
