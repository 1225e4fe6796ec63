//! `ls`, `describe`, `verify`, `repair` and `rm`: list and maintain the collections of the catalog.

pub mod striped;

use std::path::Path;

use clap::Args;
use euphrates_engine::machine;
use euphrates_engine::observe::format::{bytes_of, count};
use euphrates_flow::{Error, Kind, Result};
use euphrates_formats::{Dataset, ReadOptions};
use euphrates_store::catalog::{Catalog, CopyEntry, FoundCollection, Manifest, SegmentEntry};
use euphrates_store::collection::{
    Repaired, Verified, remove, repair as repaired_of, verify as verified_of,
};
use serde_json::json;

use crate::commands::sql;
use crate::host::Host;
use crate::options::Log;
use crate::options::files::{FileOptions, collection, parse_collection};
use crate::options::text::TextOptions;
use crate::terminal::{print, print_error, say, warn};

/// Arguments of `euphrates ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// The beginning of the names to list [default: all]
    #[arg(value_parser = parse_collection)]
    pub prefix: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `euphrates describe`.
#[derive(Debug, Args)]
pub struct Describe {
    /// Name of a collection; or a file, folder or glob, whose columns are printed
    pub collection: String,
    /// Of a collection: print JSON instead of lines of text
    #[arg(long)]
    pub json: bool,
    /// Format of a file: csv, json_lines, parquet, arrow_ipc, records or lines [default: by its
    /// extension]
    #[arg(long)]
    pub format: Option<String>,
    /// Options of text input.
    #[command(flatten)]
    pub text: TextOptions,
}

impl Describe {
    /// The path of the files to describe: what is no collection, and may be a path.
    fn path(&self) -> Option<&str> {
        let path = self.collection.as_str();
        let may_be_path = path.contains(['.', '*', ':']) || Path::new(path).exists();
        let is_known = || {
            let found = Catalog::of(&machine::home()).and_then(|catalog| catalog.find(path));
            found.is_ok_and(|found| found.is_some_and(|found| found.exists()))
        };
        Some(path).filter(|_| collection(path).is_none() && may_be_path && !is_known())
    }
}

/// Arguments of `euphrates verify`, `repair` and `rm`.
#[derive(Debug, Args)]
pub struct CollectionNames {
    /// Names of the collections
    #[arg(required = true, value_parser = parse_collection)]
    pub collections: Vec<String>,
}

/// Lists collections. A damaged catalog entry is reported, and the others are listed.
pub fn ls(command: Ls, log: Log) -> Result<u8> {
    let prefix = command.prefix.unwrap_or_default();
    let (found, code) = current_versions(Catalog::of(&machine::home())?.list()?, &prefix, log);
    if command.json {
        print(&(json!(found).to_string() + "\n"))?;
        return Ok(code);
    }
    if found.is_empty() {
        let home = machine::home();
        let how = "`euphrates copy-in NAME` and `-o @NAME` make collections";
        say_none("collection", &home, &prefix, how, log);
    }
    let width = found.iter().map(|manifest| manifest.name.len()).max().unwrap_or(0).max(4);
    for manifest in &found {
        let Manifest { name, rows, bytes, ordered, .. } = manifest;
        let order = if *ordered { "stream" } else { "unordered" };
        let (rows, bytes, places) = (count(*rows), bytes_of(*bytes as f64), places(manifest));
        let line = format!("{name:width$}  {rows:>15} rows  {bytes:>10}  {order:9}  {places}");
        print(&format!("{}\n", line.trim_end()))?;
    }
    Ok(code)
}

/// Says on standard error that a list is empty, and how that changes; nothing if it is quiet or if
/// only errors are read.
fn say_none(what: &str, home: &Path, prefix: &str, how: &str, log: Log) {
    let named = match prefix {
        "" => String::new(),
        prefix => format!(" whose name begins with `{prefix}`"),
    };
    if !matches!(log, Log::Quiet | Log::Json) {
        say(&format!("there is no {what}{named} in {}; {how}", home.display()));
    }
}

/// The current versions of those whose names begin with `prefix`, and the exit code; prints what is
/// wrong with others.
fn current_versions(all: Vec<FoundCollection>, prefix: &str, log: Log) -> (Vec<Manifest>, u8) {
    let (mut found, mut code) = (vec![], 0);
    for one in all.into_iter().filter(|one| one.name.starts_with(prefix)) {
        one.warning().iter().for_each(|text| warn(log, text));
        match one.current() {
            Ok(manifest) => found.push(manifest),
            Err(error) => {
                print_error(log, &error);
                code = code.max(error.kind().exit_code());
            }
        }
    }
    (found, code)
}

/// The number of copies and their disks; empty for one copy on the home disk.
fn places(manifest: &Manifest) -> String {
    let disks: Vec<&str> = manifest.disks().into_iter().collect();
    let on = disks.join(", ");
    match (manifest.copies(), disks.as_slice()) {
        (1, [] | ["home"]) => String::new(),
        (1, _) => format!("on {on}"),
        (copies, _) => format!("{copies} copies, {}, on {on}", manifest.layout.word()),
    }
}

/// Prints one collection's schema, segments and statistics; or the columns of files.
pub fn describe(command: Describe, log: Log, host: &dyn Host) -> Result<()> {
    if let Some(path) = command.path() {
        if command.json {
            let error = Error::usage("--json is of a collection, and this is a path");
            return Err(error.remedy("leave it out"));
        }
        let files = FileOptions { format: command.format.clone(), ..FileOptions::default() };
        return sql::describe(path, files, command.text.clone(), log, host);
    }
    let name = collection(&command.collection).unwrap_or(&command.collection);
    let found = Catalog::of(&machine::home())?.find_existing(name);
    let found = found.map_err(|error| with_near_file(error, &command.collection))?;
    found.warning().iter().for_each(|text| warn(log, text));
    let manifest = found.current()?;
    match command.json {
        true => print(&(json!(manifest).to_string() + "\n")),
        false => print(&page(&manifest)),
    }
}

/// The error of an unknown collection, with the file that may be meant.
fn with_near_file(error: Error, name: &str) -> Error {
    let is_near = |advice: Option<&str>| advice.is_some_and(|it| it.starts_with("did you mean"));
    if is_near(error.advice()) {
        return error;
    }
    let found = Dataset::open(&[name.to_string()], &ReadOptions::default());
    match found.err().filter(|missing| is_near(missing.advice())) {
        Some(missing) => error.better_remedy(missing.advice().unwrap_or_default()),
        None => error,
    }
}

fn page(manifest: &Manifest) -> String {
    let order = match (manifest.ordered, manifest.sort_keys.is_empty()) {
        (true, false) => format!("a stream, sorted by {}", manifest.sort_keys.join(", ")),
        (true, true) => "a stream".to_string(),
        (false, _) => "unordered".to_string(),
    };
    let (rows, bytes) = (count(manifest.rows), bytes_of(manifest.bytes as f64));
    let mut text = format!("{}: {rows} rows, {bytes}, {order}\n", manifest.name);
    text += &format!("version {}, made by run {}\n", manifest.version, manifest.run_id);
    if !places(manifest).is_empty() {
        text += &format!("{}\n", places(manifest));
    }
    text += "\ncolumns\n";
    let width = manifest.columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    for column in &manifest.columns {
        text += &format!("  {:width$}  {}", column.name, column.data_type);
        if let Some(known) = manifest.statistics.get(&column.name) {
            text += &format!("  from {} to {}, {} nulls", known.min, known.max, known.nulls);
        }
        text += "\n";
    }
    text += "\nsegments\n";
    for segment in &manifest.segments {
        let SegmentEntry { disk, blocks, path, .. } = segment;
        let (rows, bytes) = (count(segment.rows), bytes_of(segment.bytes as f64));
        text += &format!("  disk {disk}: {rows} rows, {bytes}, {blocks} blocks, {path}\n");
        for CopyEntry { disk, path } in &segment.mirrors {
            text += &format!("    mirror on disk {disk}: {path}\n");
        }
    }
    text
}

/// Verifies checksums of every block; exit code 3 if any block is damaged.
pub fn verify(command: CollectionNames, log: Log) -> u8 {
    worst_of(&command.collections, log, |name| {
        let verified = verified_of(&machine::home(), name)?;
        if verified.damages.is_empty() {
            say(&sound(name, &verified));
            return Ok(true);
        }
        say(&format!("{name}: DAMAGED, {} places", verified.damages.len()));
        verified.damages.iter().for_each(|damage| say(&format!("  {damage}")));
        Ok(false)
    })
}

/// The highest exit code of a task for each collection, which returns whether it is sound.
fn worst_of(names: &[String], log: Log, task: impl Fn(&str) -> Result<bool>) -> u8 {
    let code = |name: &String| match task(name) {
        Ok(true) => 0,
        Ok(false) => Kind::Corrupt.exit_code(),
        Err(error) => {
            print_error(log, &error);
            error.kind().exit_code()
        }
    };
    names.iter().map(code).max().unwrap_or(0)
}

fn sound(name: &str, verified: &Verified) -> String {
    let Verified { segments, copies, blocks_good, bytes, .. } = verified;
    let bytes = bytes_of(*bytes as f64);
    let copies = if copies > segments { format!(", {copies} copies") } else { String::new() };
    format!("{name}: sound; {blocks_good} blocks in {segments} segments{copies}, {bytes}")
}

/// Rewrites damaged copies from their mirrors; exit code 3 if no good copy of a block is left.
pub fn repair(command: CollectionNames, log: Log) -> u8 {
    worst_of(&command.collections, log, |name| {
        let repaired = repaired_of(&machine::home(), name, &machine::run_id())?;
        say(&mended(name, &repaired));
        Ok(repaired.lost.is_empty())
    })
}

fn mended(name: &str, repaired: &Repaired) -> String {
    let Repaired { copies, repaired_damages: mended, rewritten, bytes, lost } = repaired;
    let (bytes, anew) = (bytes_of(*bytes as f64), rewritten.len());
    let mut text = match (anew, lost.is_empty()) {
        (0, true) if !mended.is_empty() => format!("{name}: repaired; {copies} copies are sound"),
        (0, true) => format!("{name}: sound; {copies} copies, nothing to repair"),
        (_, true) => format!("{name}: repaired; {anew} of {copies} copies written anew, {bytes}"),
        (_, false) => {
            let lost = lost.len();
            format!("{name}: NOT REPAIRED, {lost} places; {anew} of {copies} copies written anew")
        }
    };
    mended.iter().for_each(|damage| text += &format!("\n  mended: {damage}"));
    lost.iter().for_each(|damage| text += &format!("\n  no good copy: {damage}"));
    text
}

/// Removes collections; removes none if one of the names is unknown.
pub fn rm(command: CollectionNames) -> Result<()> {
    let home = machine::home();
    let catalog = Catalog::of(&home)?;
    command.collections.iter().try_for_each(|name| catalog.find_existing(name).map(drop))?;
    command.collections.iter().try_for_each(|name| remove(&home, name, &machine::run_id()))
}
