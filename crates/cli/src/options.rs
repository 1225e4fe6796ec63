//! Options that several commands share: the log format and the resources of a flow.

pub mod cluster;
pub mod files;
pub mod standard_input;
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
#[command(next_help_heading = "Resources")]
pub struct ResourceOptions {
    /// The most memory to use, for example 512MiB or 4GB [default: 70 % of the machine's]
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// The size of a cache of remote files in memory, in addition to --memory: a file that is read
    /// twice, or again by a later flow of the same cluster, is fetched once [default: no cache]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub cache: Option<usize>,
    /// Processor cores to use: the number of threads of each operator [default: all]
    #[arg(long, value_name = "N")]
    pub cores: Option<usize>,
    /// The former name of `--cores`.
    #[arg(long, short = 't', hide = true, conflicts_with = "cores")]
    pub threads: Option<usize>,
    /// Folder for temporary files of what does not fit the memory; may be repeated, one for each
    /// disk [default: $EUPHRATES_SCRATCH, or scratch/ in the home folder]
    #[arg(long)]
    pub scratch: Vec<PathBuf>,
    /// Do nothing if the same command has finished before and its output is unchanged; else run
    /// what is left of it, and replace what it has written
    #[arg(long)]
    pub resume: bool,
    /// Serve metrics for Prometheus at HOST:PORT/metrics while the flow runs, without
    /// authentication; or at a PORT, for programs of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Write the events of the run to this file, one JSON object a line: `euphrates report` reads
    /// it
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Divide the threads among N workers within this process; with --cluster, wait for N workers
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Assign all work in advance, for comparisons: the same as --queues static
    #[arg(long = "static", conflicts_with = "queues")]
    pub divide: bool,
    /// Which thread gets the next piece of work: late_binding (one that is free), static,
    /// round_robin, shortest, credit or sparrow [default: late_binding]
    #[arg(long, value_name = "WAY")]
    pub queues: Option<String>,
    /// Where to run: processes:N in N processes of this machine, at:HOST:PORT on the cluster that
    /// `euphrates cluster` keeps there, join:HOST:PORT on workers that join there, ray or
    /// ray:HOST:PORT on the nodes of Ray, if Python has started this [default: this process]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// With --cluster: the file with the cluster's token, which `euphrates token` makes, and which
    /// only its owner may read
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub token_file: Option<PathBuf>,
    /// With --cluster: tls encrypts connections, token only authenticates them [default: tls]
    #[arg(long, value_name = "WAY", requires = "cluster")]
    #[arg(value_parser = parse_security)]
    pub channel_security: Option<Security>,
    /// With --cluster: seconds without a heartbeat after which a process is lost [default: 10, or 2
    /// on one machine]
    #[arg(long, value_name = "SECONDS", requires = "cluster", value_parser = parse_lost_after)]
    pub lost_after: Option<Duration>,
}

/// Parses a size in bytes, like `512MiB`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    euphrates_flow::size::parse_bytes(text).map(|bytes| bytes as usize)
}
