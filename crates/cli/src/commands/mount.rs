//! `mount`: the striped files of a home as a file system, for programs that know nothing of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use euphrates_engine::machine;
use euphrates_flow::{Error, Result};
use euphrates_mount::{MountOptions, mount};
use euphrates_store::striped::StripedOptions;

use crate::options::Log;
use crate::options::cluster::ServedFiles;
use crate::signals::Signals;
use crate::terminal::say;

/// Arguments of `euphrates mount`.
#[derive(Debug, Args)]
pub struct MountArguments {
    /// An empty folder, over which the files appear
    folder: PathBuf,
    #[command(flatten)]
    files: ServedFiles,
    /// Mount this volume, a tree of small files, which is made if it is new; else the striped files
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Data blocks of a stripe of new files, or of a new volume
    #[arg(long, default_value_t = 4)]
    data: usize,
    /// Parity blocks of a stripe: as many disks may be lost
    #[arg(long, default_value_t = 1)]
    parity: usize,
    /// Names of the disks of new files, with commas between; else all of disks.json
    #[arg(long, value_delimiter = ',')]
    disks: Vec<String>,
    /// Refuse to change files
    #[arg(long)]
    read_only: bool,
    /// Let programs of other users use the mount
    #[arg(long)]
    allow_other: bool,
    /// Seconds after which a program gets an error if the home or a disk does not answer
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
}

/// Serves the mount until it is unmounted, or a signal arrives.
pub fn run(command: MountArguments, log: Log) -> Result<()> {
    let MountArguments { folder, files, volume, data, parity, disks, .. } = command;
    let MountArguments { read_only, allow_other, timeout, .. } = command;
    if !(0.1..1e6).contains(&timeout) {
        let error = Error::usage(format!("`--timeout {timeout}` is no such time"));
        return Err(error.remedy("give seconds, from 0.1 on"));
    }
    let signals = Signals::listen();
    let options = MountOptions {
        folder,
        home: files.home()?,
        volume,
        striped: StripedOptions { data, parity, disks, ..StripedOptions::default() },
        allow_other,
        read_only,
        deadline: Duration::from_secs_f64(timeout),
        new_run_id: machine::run_id,
        say: Box::new(move |text| {
            if log != Log::Quiet {
                say(text);
            }
        }),
    };
    mount(options, || signals.take())
}
