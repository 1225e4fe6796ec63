//! `ps` and `kill`: list and end the programs and flows on a cluster, of all masters.

use clap::Args;
use euphrates_engine::cluster::launch::ProgramEntry;
use euphrates_engine::cluster::process_list::{Killed, kill, list};
use euphrates_engine::observe::format::bytes_of;
use euphrates_flow::Result;
use serde_json::json;

use crate::host::Host;
use crate::options::cluster::ClusterAccess;
use crate::terminal::print;

/// Arguments of `euphrates ps`.
#[derive(Debug, Args)]
pub struct Ps {
    #[command(flatten)]
    access: ClusterAccess,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Arguments of `euphrates kill`.
#[derive(Debug, Args)]
pub struct Kill {
    #[command(flatten)]
    access: ClusterAccess,
    /// What `euphrates ps` calls them; a launch without a number after the dot is all its programs
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// All that runs now
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// At once, without an interrupt before
    #[arg(long)]
    at_once: bool,
}

/// Prints the programs and flows of the cluster.
pub fn ps(command: Ps, host: &dyn Host) -> Result<()> {
    let entries = list(&*command.access.open(&[], host)?)?;
    match command.json {
        true => {
            let all: Vec<_> = entries.iter().map(ProgramEntry::to_json).collect();
            print(&(json!(all).to_string() + "\n"))
        }
        false => print(&table(&entries)),
    }
}

fn table(entries: &[ProgramEntry]) -> String {
    let head = ["ID", "WORKER", "STATE", "STARTED BY", "FOR", "CPU", "MEMORY", "WHAT"];
    let mut rows = vec![head.map(String::from)];
    for entry in entries {
        let memory = entry.memory_bytes.map_or("-".into(), |bytes| bytes_of(bytes as f64));
        let what = if entry.is_flow { format!("flow {}", entry.what) } else { entry.what.clone() };
        rows.push([
            entry.id.to_string(),
            entry.worker.clone(),
            entry.state.to_string(),
            entry.origin.to_string(),
            time_of(entry.seconds),
            time_of(entry.cpu_seconds),
            memory,
            // Control characters of a command line would break the table.
            what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        ]);
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let is_number = |at: usize| (4..7).contains(&at);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            at if is_number(at) => format!("{cell:>width$}"),
            _ => format!("{cell:width$}"),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn time_of(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", whole / 3600, whole / 60 % 60),
    }
}

/// Ends the named programs and flows, and prints how each ended.
pub fn kill_all(command: Kill, host: &dyn Host) -> Result<()> {
    let cluster = command.access.open(&[], host)?;
    let killed = kill(&cluster, &command.ids, command.at_once)?;
    let lines: String = killed.iter().map(|killed| format!("{}\n", line(killed))).collect();
    print(if lines.is_empty() { "nothing runs\n" } else { &lines })
}

fn line((entry, end): &Killed) -> String {
    let ProgramEntry { id, worker, what, .. } = entry;
    match end {
        Some(end) => format!("{worker}: {id} ({what}) {end}"),
        None => format!("{worker}: flow {id} ({what}) was told to fail"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_engine::cluster::launch::{Id, Origin, ProgramState};

    #[test]
    fn control_characters_do_not_break_the_table() {
        let origin = Origin { host: "h".into(), user: "ann".into(), pid: 7 };
        let program = ProgramEntry {
            id: Id { number: 0xab, rank: Some(1) },
            worker: "w1".into(),
            is_flow: false,
            what: "echo a\nb".into(),
            state: ProgramState::Running,
            origin,
            pid: Some(5),
            seconds: 75.0,
            cpu_seconds: 0.25,
            memory_bytes: Some(2 << 20),
        };
        let flow = ProgramEntry {
            id: Id { number: 1, rank: None },
            is_flow: true,
            what: "sort".into(),
            memory_bytes: None,
            seconds: 7300.0,
            ..program.clone()
        };
        let text = table(&[program, flow]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[1].starts_with("000000ab.1  w1      running  ann@h:7     1:15 min"),
            "{text}"
        );
        assert!(lines[1].ends_with("echo a b") && lines[2].ends_with("-  flow sort"), "{text}");
        assert!(lines[2].contains("2:01 h"), "{text}");
    }
}
