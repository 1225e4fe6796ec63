//! `gensort` and `valsort`: generate and validate records of the sort benchmark, with the options
//! and output of version 1.5.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use arrow::buffer::Buffer;
use clap::Args;
use euphrates_device::location::destination;
use euphrates_device::storage_options::StorageOptions;
use euphrates_engine::machine;
use euphrates_flow::{Error, Result};
use euphrates_formats::gensort::{Generator, RECORD_BYTES, RecordForm, checksum};
use euphrates_formats::valsort::{Rules, SUMMARY_BYTES, Summary};
use euphrates_store::append::StagedOutput;
use euphrates_store::output;
use euphrates_store::striped::with_files_of;
use parking_lot::Mutex;

use crate::signals::Signals;
use crate::terminal::say;

/// Records generated or validated per task: 4 MB.
const CHUNK_RECORDS: u64 = 40_000;

/// Arguments of `euphrates gensort`.
#[derive(Debug, Args)]
pub struct Gensort {
    /// Make records of printable characters, not of any bytes
    #[arg(short = 'a')]
    pub ascii: bool,
    /// Print the sum of the CRC-32 of every record to standard error
    #[arg(short = 'c')]
    pub checksum: bool,
    /// Number of the first record
    #[arg(short = 'b', default_value_t = 0, value_name = "N")]
    pub begin: u128,
    /// Make skewed keys, of which some are far more frequent than others
    #[arg(short = 's')]
    pub skewed: bool,
    /// Threads [default: one a core]
    #[arg(short = 't', value_name = "N")]
    pub threads: Option<usize>,
    /// Number of records to make, of 100 bytes each
    pub records: u64,
    /// File to write, which is replaced if it exists
    pub file: String,
}

/// Arguments of `euphrates valsort`.
#[derive(Debug, Args)]
pub struct Valsort {
    /// Ignore the case of printable keys
    #[arg(short = 'i')]
    pub ignore_case: bool,
    /// Print nothing; only the exit code says whether they are in order
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Also write a summary, to be checked with those of other parts by -s
    #[arg(short = 'o', value_name = "SUMMARY_FILE")]
    pub summary: Option<PathBuf>,
    /// The file holds summaries, not records
    #[arg(short = 's')]
    pub summaries: bool,
    /// Threads [default: one a core]
    #[arg(short = 't', value_name = "N")]
    pub threads: Option<usize>,
    /// File of records to check, or of summaries with -s
    pub file: String,
}

/// Writes generated records to a file.
pub fn generate(command: Gensort) -> Result<()> {
    let path = without_options(&command.file);
    // Before the file is staged: a signal between the two would leave it behind.
    let signals = Signals::listen();
    let storage = with_files_of(&machine::home(), StorageOptions::default());
    let place = destination(path, &storage)?;
    let file = output::create(place, true, &machine::run_id(), None)?;
    let made = fill(&command, file.as_ref(), &signals)
        .and_then(|sum| file.sync_contents(command.records * RECORD_BYTES as u64).map(|()| sum))
        .and_then(|sum| publish(file.as_ref()).map(|()| sum))
        .inspect_err(|_| file.abandon())?;
    if command.checksum {
        say(&format!("{made:x}"));
    }
    Ok(())
}

fn publish(file: &dyn StagedOutput) -> Result<()> {
    let output = file.reserve()?.ok_or_else(|| Error::failed("it is no output of its own"))?;
    output.publish()?.durable(&output.name())
}

/// Writes the records, and returns the sum of their checksums; 0 without `-c`.
fn fill(command: &Gensort, file: &dyn StagedOutput, signals: &Signals) -> Result<u128> {
    let form = RecordForm { ascii: command.ascii, skewed: command.skewed };
    let sum = Mutex::new(0u128);
    in_chunks(command.records, command.threads, |first, count| {
        if signals.received() {
            return Err(Error::interrupted());
        }
        let mut records = vec![0; count as usize * RECORD_BYTES];
        Generator::new(form, command.begin + u128::from(first)).fill(&mut records);
        if command.checksum {
            *sum.lock() += checksum(&records);
        }
        file.write_at(first * RECORD_BYTES as u64, &[Buffer::from_vec(records)])
    })?;
    Ok(sum.into_inner())
}

/// Validates a file of records or of summaries; exit code 1 if records are out of order.
pub fn validate(command: Valsort) -> Result<u8> {
    let path = without_options(&command.file);
    let rules = Rules { ignore_case: command.ignore_case };
    let summary = match command.summaries {
        true => join_summaries(path, rules)?,
        false => summarize(path, rules, command.threads)?,
    };
    if let Some(path) = &command.summary {
        std::fs::write(path, summary.to_bytes())
            .map_err(|error| Error::os("write the summary", path, &error))?;
    }
    if !command.quiet {
        say(summary.text().trim_end());
    }
    Ok(u8::from(summary.unordered > 0))
}

/// The file name without gensort's I/O options, as in `data,buf`. They are ignored, because this
/// program chooses how it writes.
fn without_options(file: &str) -> &str {
    let mut name = file;
    while let Some((head, option)) = name.rsplit_once(',') {
        let word = option.split('=').next().unwrap_or_default();
        if !["buf", "buffered", "dir", "direct", "mmap", "trans", "transfer", "co", "count"]
            .contains(&word)
        {
            break;
        }
        name = head;
    }
    name
}

fn summarize(path: &str, rules: Rules, threads: Option<usize>) -> Result<Summary> {
    let os = |doing: &str, error: &std::io::Error| Error::os(doing, path, error);
    let file = File::open(path).map_err(|error| os("open", &error))?;
    let bytes = file.metadata().map_err(|error| os("look at", &error))?.len();
    if !bytes.is_multiple_of(RECORD_BYTES as u64) {
        let message = format!("{path}: {bytes} bytes are no whole number of 100-byte records");
        return Err(Error::corrupt(message).remedy("was the file cut short?"));
    }
    let parts = Mutex::new(Vec::new());
    in_chunks(bytes / RECORD_BYTES as u64, threads, |first, count| {
        let mut records = vec![0; count as usize * RECORD_BYTES];
        file.read_exact_at(&mut records, first * RECORD_BYTES as u64)
            .map_err(|error| os("read", &error))?;
        let summary = Summary::of(&records, rules);
        parts.lock().push((first, summary));
        Ok(())
    })?;
    let mut parts = parts.into_inner();
    parts.sort_by_key(|(first, _)| *first);
    let mut whole = Summary::empty();
    parts.iter().for_each(|(_, part)| whole.join(part, rules));
    Ok(whole)
}

fn join_summaries(path: &str, rules: Rules) -> Result<Summary> {
    let bytes = std::fs::read(path).map_err(|error| Error::os("read", path, &error))?;
    let (entries, rest) = bytes.as_chunks::<SUMMARY_BYTES>();
    if !rest.is_empty() {
        let message = format!("{path} is not a file of summaries: {} bytes are left", rest.len());
        return Err(Error::corrupt(message).remedy("concatenate the files written by -o"));
    }
    let mut whole = Summary::empty();
    entries.iter().for_each(|entry| whole.join(&Summary::from_bytes(entry), rules));
    Ok(whole)
}

/// Runs `work(first, count)` over chunks of records on several threads, each taking the next.
fn in_chunks(
    records: u64,
    threads: Option<usize>,
    work: impl Fn(u64, u64) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let worker = || -> Result<()> {
        loop {
            let first = next.fetch_add(CHUNK_RECORDS, Relaxed);
            if first >= records {
                return Ok(());
            }
            work(first, CHUNK_RECORDS.min(records - first))?;
        }
    };
    let threads = threads.unwrap_or_else(machine::cores).clamp(1, 256);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("workers do not panic"))
    })
}
