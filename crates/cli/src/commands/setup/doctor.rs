//! `doctor`: measures processors, memory, disks and connections of this machine, and recommends
//! what to change.

use std::fs;
use std::path::Path;

use euphrates_engine::observe::format::bytes_of;
use euphrates_engine::{Options, machine};
use euphrates_flow::Result;

use super::trials::{self, DiskTrial};
use crate::terminal::print;

/// Below these, something is worth a recommendation.
const OPEN_FILES_MIN: u64 = 4096;
const SPEED_UP_MIN: f64 = 0.7;
const DISK_BYTES_PER_SECOND_MIN: f64 = 100e6;
const WIRE_BYTES_PER_SECOND_MIN: f64 = 500e6;
const SYNC_MILLISECONDS_MAX: u128 = 30;

/// Prints the report; tests the home and scratch folders by writing to them.
pub fn run() -> Result<()> {
    let home = machine::home();
    let cores = machine::cores();
    let budget = Options::default().budget() as u64;
    let mut advice = vec![];
    let mut text = format!("euphrates {}\n", env!("CARGO_PKG_VERSION"));

    let speed_up = trials::processors(cores);
    text += &format!("cores         {cores}: together {speed_up:.1} times as fast as one\n");
    if speed_up < SPEED_UP_MIN * cores as f64 {
        advice.push(format!(
            "the {cores} cores do the work of {speed_up:.1}: other programs use them, or the \
             control group has less; --cores {} leaves the others their share",
            (speed_up.round() as usize).max(1)
        ));
    }
    let copies = bytes_of(trials::memory(cores));
    let memory = bytes_of(machine::memory_bytes() as f64);
    text += &format!("memory        {memory}: copies {copies}/s\n");
    text += &format!("budget        {}\n", bytes_of(budget as f64));
    if let Some(free) = available().filter(|free| *free < budget) {
        advice.push(format!(
            "only {} of memory are free now: give flows less, --memory {}MiB",
            bytes_of(free as f64),
            (free * 8 / 10) >> 20
        ));
    }
    let limit = open_files();
    text += &format!("open files    {}\n", limit.map_or("no limit".into(), |it| it.to_string()));
    if limit.is_some_and(|limit| limit < OPEN_FILES_MIN) {
        advice.push(format!("raise the limit of open files: ulimit -n {OPEN_FILES_MIN}"));
    }
    text += &disk("home", &home, &mut advice);
    for scratch in machine::scratch(&home) {
        text += &disk("scratch", &scratch, &mut advice);
        advice_on_scratch(&scratch, budget, &mut advice);
    }
    match trials::wire() {
        Ok(wire) => {
            text += &format!("connections   {}/s within this machine\n", bytes_of(wire));
            if wire < WIRE_BYTES_PER_SECOND_MIN {
                advice.push("connections are slow: --channel-security token spends less".into());
            }
        }
        Err(error) => advice.push(format!("no connections on 127.0.0.1: {error}")),
    }
    let sharing = machine::shared_memory_refusal();
    let sharing = sharing.map_or("batches between local workers", |refusal| refusal);
    text += &format!("shared memory {sharing}\n");
    text += "\n";
    match advice.is_empty() {
        true => text += "Nothing to change.\n",
        false => advice.iter().for_each(|one| text += &format!("- {one}\n")),
    }
    print(&text)
}

/// The soft limit; none if there is no limit.
fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Bytes of memory that programs may take without swapping.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// A line about a folder, and what is wrong with it.
fn disk(what: &str, folder: &Path, advice: &mut Vec<String>) -> String {
    let shown = folder.display();
    match trials::disk(folder) {
        Ok(DiskTrial { writes, reads, sync, free, place }) => {
            if writes < DISK_BYTES_PER_SECOND_MIN {
                advice.push(format!("{shown} is slow: {}", remedy(what)));
            }
            if sync.as_millis() > SYNC_MILLISECONDS_MAX {
                advice.push(format!(
                    "a sync at {shown} takes {} ms, and every output needs a few of them",
                    sync.as_millis()
                ));
            }
            if let (Some(place), "scratch") = (place, what) {
                advice.push(format!("{shown} is {place}: {}", remedy(what)));
            }
            format!(
                "{what:13} {shown}: writes {}/s, reads {}/s, syncs in {:.1} ms; {} free{}\n",
                bytes_of(writes),
                bytes_of(reads),
                sync.as_secs_f64() * 1e3,
                bytes_of(free as f64),
                place.map_or(String::new(), |place| format!("; {place}"))
            )
        }
        Err(error) => {
            advice.push(format!("{shown} cannot be written: {}", remedy(what)));
            format!("{what:13} {shown}: NOT WRITABLE: {error}\n")
        }
    }
}

fn remedy(what: &str) -> &'static str {
    match what {
        "scratch" => "name a folder on a local disk, EUPHRATES_SCRATCH=/local/folder or --scratch",
        _ => "name another home, EUPHRATES_HOME=/local/folder",
    }
}

/// A sort spills about as many bytes as it reads, so scratch has to be larger than the memory.
fn advice_on_scratch(folder: &Path, budget: u64, advice: &mut Vec<String>) {
    let Ok(system) = rustix::fs::statvfs(folder) else { return };
    let free = system.f_bavail * system.f_frsize;
    if free < budget {
        advice.push(format!(
            "{} has {} free, less than the memory: large sorts need as much as their input; {}",
            folder.display(),
            bytes_of(free as f64),
            remedy("scratch")
        ));
    }
}
