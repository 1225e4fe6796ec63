//! `file put`, `get`, `ls`, `stat`, `rm`, `verify`, `repair`: striped files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use euphrates_engine::machine;
use euphrates_engine::observe::format::{bytes_of, count};
use euphrates_flow::{Error, Result};
use euphrates_store::catalog::{Catalog, FileEntry, Manifest};
use euphrates_store::striped::{
    RepairedFile, StripedOptions, StripedReader, StripedWriter, VerifiedFile, remove_file,
    repair_file, verify_file,
};
use serde_json::json;

use super::{Ls, current_versions, say_none, worst_of};
use crate::examples;
use crate::options::Log;
use crate::options::cluster::ServedFiles;
use crate::options::files::STANDARD;
use crate::terminal::{print, say, warn};

/// Bytes that are copied at once.
const COPY_BYTES: usize = 16 << 20;

/// Arguments of `euphrates file`.
#[derive(Debug, Args)]
pub struct FileArguments {
    #[command(flatten)]
    files: ServedFiles,
    #[command(subcommand)]
    command: FileCommand,
}

/// What can be done with striped files.
#[derive(Debug, Subcommand)]
enum FileCommand {
    /// Write a local file, or standard input, as a striped file.
    #[command(after_help = examples::FILE_PUT)]
    Put(Put),
    /// Write a striped file as a local file, or to standard output.
    Get(Get),
    /// List striped files.
    Ls(Ls),
    /// Describe a striped file: length, layout, disks.
    Stat(Stat),
    /// Remove striped files.
    Rm(StripedFileNames),
    /// Read striped files whole and check every block.
    Verify(StripedFileNames),
    /// Restore damaged or lost blocks from the others of their stripes.
    Repair(RepairArguments),
}

/// Arguments of `euphrates file put`.
#[derive(Debug, Args)]
struct Put {
    /// The local file; `-` for standard input
    path: PathBuf,
    /// Name of the striped file
    name: String,
    /// Data blocks of a stripe
    #[arg(long, default_value_t = 4)]
    data: usize,
    /// Parity blocks of a stripe: as many disks may be lost
    #[arg(long, default_value_t = 1)]
    parity: usize,
    /// Names of the disks, with commas between; else all of disks.json
    #[arg(long, value_delimiter = ',')]
    disks: Vec<String>,
    /// Replace a striped file of this name
    #[arg(long)]
    overwrite: bool,
}

/// Arguments of `euphrates file get`.
#[derive(Debug, Args)]
struct Get {
    /// Name of the striped file
    name: String,
    /// The local file; `-` for standard output
    path: PathBuf,
}

/// Arguments of `euphrates file stat`.
#[derive(Debug, Args)]
struct Stat {
    /// Name of the striped file
    name: String,
    /// Print JSON instead of lines of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `euphrates file rm` and `verify`.
#[derive(Debug, Args)]
struct StripedFileNames {
    /// Names of the striped files
    #[arg(required = true)]
    names: Vec<String>,
}

/// Arguments of `euphrates file repair`.
#[derive(Debug, Args)]
struct RepairArguments {
    /// Names of the striped files
    #[arg(required = true)]
    names: Vec<String>,
    /// More disks for restored blocks, with commas between
    #[arg(long, value_delimiter = ',')]
    disks: Vec<String>,
}

/// Executes one of the commands and returns its exit code.
pub fn run(arguments: FileArguments, log: Log) -> Result<u8> {
    let home = &arguments.files.home()?;
    match arguments.command {
        FileCommand::Put(command) => put(home, &command, log).map(|()| 0),
        FileCommand::Get(command) => get(home, &command, log).map(|()| 0),
        FileCommand::Ls(command) => ls(home, &command, log),
        FileCommand::Stat(command) => stat(home, &command, log).map(|()| 0),
        FileCommand::Rm(command) => rm(home, &command.names).map(|()| 0),
        FileCommand::Verify(command) => Ok(verify(home, &command.names, log)),
        FileCommand::Repair(command) => Ok(repair(home, &command, log)),
    }
}

fn put(home: &Path, command: &Put, log: Log) -> Result<()> {
    let options = StripedOptions {
        data: command.data,
        parity: command.parity,
        disks: command.disks.clone(),
        overwrite: command.overwrite,
        run_id: machine::run_id(),
        ..StripedOptions::default()
    };
    let mut from: Box<dyn Read> = match command.path == Path::new(STANDARD) {
        true => Box::new(io::stdin()),
        false => Box::new(
            File::open(&command.path).map_err(|error| Error::os("open", &command.path, &error))?,
        ),
    };
    let mut writer = StripedWriter::create(home, &command.name, options)?;
    if writer.needs_every_disk() {
        warn(log, NEEDS_EVERY_DISK);
    }
    writer.machine_warning().iter().for_each(|text| warn(log, text));
    let (mut buffer, mut offset) = (vec![0; COPY_BYTES], 0);
    loop {
        let filled = fill(&mut from, &mut buffer);
        let filled = filled.map_err(|error| Error::os("read", &command.path, &error))?;
        writer.write_at(offset, &buffer[..filled])?;
        offset += filled as u64;
        if filled < buffer.len() {
            return writer.commit().map(drop);
        }
    }
}

const NEEDS_EVERY_DISK: &str = "stripes have as many blocks as there are disks, so writing goes at \
                                the pace of the slowest disk; name one disk more, or fewer blocks";

/// Fills the buffer; returns fewer bytes only at the end of the input.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn get(home: &Path, command: &Get, log: Log) -> Result<()> {
    let reader = StripedReader::open(home, &command.name)?;
    reader.warning().iter().for_each(|text| warn(log, text));
    let path = &command.path;
    let done = match path == Path::new(STANDARD) {
        true => copy(&reader, &mut io::stdout().lock(), path),
        false => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let staged = path.with_file_name(format!(".{name}.part"));
            let mut to =
                File::create(&staged).map_err(|error| Error::os("create", &staged, &error))?;
            let copied = copy(&reader, &mut to, path).and_then(|()| {
                fs::rename(&staged, path).map_err(|error| Error::os("rename to", path, &error))
            });
            copied.inspect_err(|_| drop(fs::remove_file(&staged)))
        }
    };
    if let Some(first) = reader.damages().first() {
        let name = &command.name;
        warn(log, &format!("{first}; `euphrates file repair {name}` restores what is damaged"));
    }
    done
}

fn copy(reader: &StripedReader, to: &mut dyn Write, path: &Path) -> Result<()> {
    let (mut buffer, mut offset) = (vec![0; COPY_BYTES], 0);
    loop {
        let count = reader.read_at(offset, &mut buffer)?;
        if count == 0 {
            // Nothing flushes standard output when the process ends.
            return to.flush().map_err(|error| Error::os("write", path, &error));
        }
        to.write_all(&buffer[..count]).map_err(|error| Error::os("write", path, &error))?;
        offset += count as u64;
    }
}

fn ls(home: &Path, command: &Ls, log: Log) -> Result<u8> {
    let prefix = command.prefix.as_deref().unwrap_or_default();
    let (found, code) = current_versions(Catalog::of(home)?.list_files()?, prefix, log);
    if command.json {
        print(&(json!(found).to_string() + "\n"))?;
        return Ok(code);
    }
    if found.is_empty() {
        let how = "`euphrates file put PATH NAME` makes one";
        say_none("striped file", home, prefix, how, log);
    }
    let width = found.iter().map(|manifest| manifest.name.len()).max().unwrap_or(0).max(4);
    for Manifest { name, file, .. } in &found {
        let FileEntry { data, parity, bytes, disks, .. } = file.as_ref().expect("a file");
        let (bytes, disks) = (bytes_of(*bytes as f64), disks.join(", "));
        print(&format!("{name:width$}  {bytes:>10}  {data}+{parity}  on {disks}\n"))?;
    }
    Ok(code)
}

fn stat(home: &Path, command: &Stat, log: Log) -> Result<()> {
    let found = Catalog::of(home)?.find_file(&command.name)?;
    found.warning().iter().for_each(|text| warn(log, text));
    let manifest = found.current()?;
    if command.json {
        return print(&(json!(manifest).to_string() + "\n"));
    }
    let Manifest { name, version, run_id, bytes: stored, segments, .. } = &manifest;
    let FileEntry { data, parity, block_bytes, bytes, disks } =
        manifest.file.as_ref().expect("a file");
    let (exact, length) = (count(*bytes), bytes_of(*bytes as f64));
    let (stored, each) = (bytes_of(*stored as f64), bytes_of(*block_bytes as f64));
    let mut text = format!("{name}: {exact} bytes ({length}), {stored} on disks\n");
    text += &format!("version {version}, made by run {run_id}\n");
    text += &format!("stripes of {data} data and {parity} parity blocks of {each}; ");
    text +=
        &format!("any {parity} of its disks may be lost\non {}\n\nsegments\n", disks.join(", "));
    for segment in segments.iter().skip(1) {
        let (disk, blocks, path) = (&segment.disk, segment.blocks, &segment.path);
        let bytes = bytes_of(segment.bytes as f64);
        text += &format!("  disk {disk}: {bytes}, {blocks} blocks, {path}\n");
    }
    print(&text)
}

/// Removes striped files; removes none if one of the names is unknown.
fn rm(home: &Path, names: &[String]) -> Result<()> {
    let catalog = Catalog::of(home)?;
    names.iter().try_for_each(|name| catalog.find_file(name).map(drop))?;
    names.iter().try_for_each(|name| remove_file(home, name, &machine::run_id()))
}

/// Exit code 3 if any block is damaged.
fn verify(home: &Path, names: &[String], log: Log) -> u8 {
    worst_of(names, log, |name| {
        let VerifiedFile { stripes, blocks_good, bytes, damages, lost_stripes } =
            verify_file(home, name)?;
        if damages.is_empty() {
            let bytes = bytes_of(bytes as f64);
            say(&format!("{name}: sound; {blocks_good} blocks in {stripes} stripes, {bytes}"));
            return Ok(true);
        }
        let lost = match lost_stripes {
            0 => "every byte can be read".to_string(),
            lost => format!("{lost} of {stripes} stripes are lost"),
        };
        say(&format!("{name}: DAMAGED, {} places; {lost}", damages.len()));
        damages.iter().for_each(|damage| say(&format!("  {damage}")));
        Ok(false)
    })
}

/// Exit code 3 if a stripe cannot be restored.
fn repair(home: &Path, command: &RepairArguments, log: Log) -> u8 {
    worst_of(&command.names, log, |name| {
        let run_id = machine::run_id();
        let repaired = repair_file(home, name, &command.disks, &run_id)?;
        let RepairedFile { blocks, repaired_damages, restored, bytes, lost } = &repaired;
        let bytes = bytes_of(*bytes as f64);
        let mut text = match (repaired_damages.is_empty(), lost.is_empty()) {
            (true, true) => format!("{name}: sound; {blocks} blocks, nothing to repair"),
            (false, true) => format!("{name}: repaired; {restored} blocks restored, {bytes}"),
            (_, false) => {
                let places = lost.len();
                format!("{name}: NOT REPAIRED, {places} places; {restored} blocks restored")
            }
        };
        repaired_damages.iter().for_each(|damage| text += &format!("\n  mended: {damage}"));
        lost.iter().for_each(|damage| text += &format!("\n  lost: {damage}"));
        say(&text);
        Ok(lost.is_empty())
    })
}
