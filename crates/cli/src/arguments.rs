//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use euphrates_engine::cluster::options::check_lost_after;

use crate::ends::{Text, parse_character};

/// Sort, shuffle and move data at the speed your machines have.
#[derive(Debug, Parser)]
// Whatever it was called by: Python is given its code.
#[command(name = "euphrates", bin_name = "euphrates", version)]
#[command(max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    /// How progress and reports are told.
    #[arg(long, global = true, value_enum, default_value_t = Log::Auto)]
    pub log: Log,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How progress and reports are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    /// A live line on a terminal, plain lines elsewhere.
    Auto,
    /// Plain lines.
    Plain,
    /// One JSON object a line.
    Json,
    /// Nothing but errors.
    Quiet,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sort files or a collection into a file or a collection.
    Sort(crate::sort::Sort),
    /// Join two files or collections into a file or a collection.
    Join(crate::join::Join),
    /// Group a file or a collection, and compute values of each group.
    Aggregate(crate::aggregate::Aggregate),
    /// Make the sort benchmark's records (as gensort 1.5).
    Gensort(Gensort),
    /// Check that the sort benchmark's records are in order (as valsort 1.5).
    Valsort(Valsort),
    /// Read standard input into a collection.
    CopyIn(CopyIn),
    /// Write a collection to standard output.
    CopyOut(CopyOut),
    /// List collections.
    Ls(Ls),
    /// Describe a collection: schema, segments, sizes.
    Describe(Describe),
    /// Read collections whole and check every block of every copy.
    Verify(Verify),
    /// Write damaged or lost parts of mirrored collections anew, from their mirrors.
    Repair(Repair),
    /// Remove collections.
    Rm(Rm),
    /// Run a flow.
    Run(Run),
    /// Run a flow while something in it is made slow, and tell how it bore it.
    #[command(after_help = crate::perturb::WHEN)]
    Perturb(crate::perturb::Perturb),
    /// Check a flow without running it, and explain how it would run.
    Check(Check),
    /// Show a flow as a picture or as its document.
    Show(Show),
    /// Print the code that builds a flow.
    Code(Code),
    /// List the modules flows are made of, or describe one.
    Modules(Modules),
    /// Ask a simulated cluster what the policies would do.
    Sim(Sim),
    /// Draw flows, run them and see where they are slow, in the browser.
    Studio(crate::studio::Studio),
    /// Be a worker: do what a master asks for, until it has gone.
    Worker(crate::worker::Worker),
    /// Keep a cluster: workers join it, and any number of programs run flows on it.
    Cluster(crate::keep::Keep),
    /// Make a token, which the workers of a cluster and their masters must know.
    Token(crate::keep::Token),
    /// Remove what killed processes have left: scratch, and output in the making.
    Gc(crate::gc::Gc),
    /// Run any program on the workers of a cluster, and bring home what it writes.
    Launch(crate::launch::Start),
    /// List the programs and flows that run on a cluster, whoever has started them.
    Ps(crate::ps::Ps),
    /// End programs and flows that run on a cluster, whoever has started them.
    Kill(crate::ps::Kill),
    /// Look at this machine: versions, memory, disks.
    Doctor,
}

/// How a flow may use the machine.
#[derive(Clone, Debug, Default, Args)]
pub struct Resources {
    /// The most memory to use, for example 512MiB or 4GB [default: 70 % of the machine's]
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// Instances of each module [default: one a core]
    #[arg(long, short = 't')]
    pub threads: Option<usize>,
    /// Folder for what does not fit the memory; may be repeated, one for each disk
    #[arg(long)]
    pub scratch: Vec<PathBuf>,
    /// Do nothing if this very flow, run so, has made its output before; else run it, and replace
    /// what it has made
    #[arg(long)]
    pub resume: bool,
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
    #[arg(value_parser = crate::worker::parse_security)]
    pub channel_security: Option<euphrates_engine::cluster::Security>,
    /// With --cluster: seconds after which an end that says nothing is lost [default: 10, or 2 on
    /// one machine]
    #[arg(long, value_name = "SECONDS", requires = "cluster", value_parser = parse_lost_after)]
    pub lost_after: Option<Duration>,
}

/// `euphrates gensort`
#[derive(Debug, Args)]
pub struct Gensort {
    /// Printable records
    #[arg(short = 'a')]
    pub ascii: bool,
    /// Print the sum of the CRC-32 of every record to standard error
    #[arg(short = 'c')]
    pub checksum: bool,
    /// Number of the first record
    #[arg(short = 'b', default_value_t = 0, value_name = "N")]
    pub begin: u128,
    /// Skewed keys
    #[arg(short = 's')]
    pub skewed: bool,
    /// Threads [default: one a core]
    #[arg(short = 't', value_name = "N")]
    pub threads: Option<usize>,
    /// Number of records
    pub records: u64,
    /// File to write
    pub file: String,
}

/// `euphrates valsort`
#[derive(Debug, Args)]
pub struct Valsort {
    /// Ignore the case of printable keys
    #[arg(short = 'i')]
    pub ignore_case: bool,
    /// Print nothing
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
    /// File to check
    pub file: String,
}

/// `euphrates copy-in`
#[derive(Debug, Args)]
pub struct CopyIn {
    /// Name of the collection
    pub collection: String,
    /// Format of standard input: arrow, csv, jsonl, records, lines
    #[arg(long, default_value = "arrow")]
    pub format: String,
    /// How the input is read.
    #[command(flatten)]
    pub text: Text,
    /// Replace the collection if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// What the flow may use.
    #[command(flatten)]
    pub resources: Resources,
}

/// `euphrates copy-out`
#[derive(Debug, Args)]
pub struct CopyOut {
    /// Name of the collection
    pub collection: String,
    /// Format of standard output: arrow, csv, jsonl, records, lines
    #[arg(long, default_value = "arrow")]
    pub format: String,
    /// CSV: the character between fields, \t for a tab [default: a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub delimiter: Option<char>,
    /// CSV: do not write the names of the columns
    #[arg(long)]
    pub no_header: bool,
    /// CSV: the character around fields that need it, or '' for none [default: "]
    #[arg(long, value_name = "CHARACTER")]
    pub quote: Option<String>,
    /// CSV: the character before those that mean something [default: quotes are doubled]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_character)]
    pub escape: Option<char>,
    /// CSV: what is written for a null, like NA [default: nothing]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub null_value: Option<String>,
    /// Compress what is written, but for arrow: gzip, bzip2, zstd
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// What the flow may use.
    #[command(flatten)]
    pub resources: Resources,
}

/// `euphrates ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// Only collections whose names begin so
    pub prefix: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `euphrates describe`
#[derive(Debug, Args)]
pub struct Describe {
    /// Name of the collection
    pub collection: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `euphrates verify`
#[derive(Debug, Args)]
pub struct Verify {
    /// Names of the collections
    #[arg(required = true)]
    pub collections: Vec<String>,
}

/// `euphrates repair`
#[derive(Debug, Args)]
pub struct Repair {
    /// Names of the collections
    #[arg(required = true)]
    pub collections: Vec<String>,
}

/// `euphrates rm`
#[derive(Debug, Args)]
pub struct Rm {
    /// Names of the collections
    #[arg(required = true)]
    pub collections: Vec<String>,
}

/// `euphrates run`
#[derive(Debug, Args)]
pub struct Run {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// The value of a variable; JSON, or else text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// What the flow may use.
    #[command(flatten)]
    pub resources: Resources,
    /// Run for a studio: what is to be done is in this folder, and how it goes is told there
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub record: Option<PathBuf>,
    /// With --record: it ends with this process, which started it
    #[arg(long, value_name = "PID", hide = true, requires = "record")]
    pub ends_with: Option<u32>,
}

/// `euphrates check`
#[derive(Debug, Args)]
pub struct Check {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// The value of a variable; JSON, or else text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Call the functions, classes and queries that the document names, to learn their columns.
    /// They run as this user: only for documents of people you trust. A Python file is run anyway
    #[arg(long)]
    pub trust: bool,
}

/// `euphrates show`
#[derive(Debug, Args)]
pub struct Show {
    /// A flow document (JSON), or a Python file that builds one
    #[arg(required_unless_present = "schema")]
    pub flow: Option<PathBuf>,
    /// As what
    #[arg(long, value_enum, default_value_t = Picture::Mermaid)]
    pub r#as: Picture,
    /// Print the JSON schema of flow documents instead
    #[arg(long)]
    pub schema: bool,
}

/// How a flow is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// For Markdown.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture.
    Svg,
    /// The flow document.
    Json,
    /// What the studio asks of a Python file: its flow, and the modules that it defines.
    #[value(hide = true)]
    Script,
}

/// `euphrates code`
#[derive(Debug, Args)]
pub struct Code {
    /// A flow document (JSON), or a Python file that builds one
    pub flow: PathBuf,
    /// Language of the code
    #[arg(long, value_enum, default_value_t = Language::Python)]
    pub lang: Language,
}

/// Languages flows are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Python.
    Python,
    /// Rust.
    Rust,
}

/// `euphrates modules`
#[derive(Debug, Args)]
pub struct Modules {
    /// The module to describe
    pub module: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `euphrates sim`
#[derive(Debug, Args)]
pub struct Sim {
    /// A scenario (JSON), like those in crates/sim/scenarios
    pub scenario: PathBuf,
    /// Nodes on each side, instead of those of the scenario
    #[arg(long)]
    pub nodes: Option<u32>,
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run so many seeds, one after the other
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// Fail below this part of the bound, and print a smaller scenario that fails as well
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION")]
    pub at_least: f64,
    /// As JSON, an object a line
    #[arg(long)]
    pub json: bool,
}

/// A size in bytes.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    euphrates_flow::size::parse_bytes(text).map(|bytes| bytes as usize)
}

/// Seconds of silence after which an end is lost.
pub fn parse_lost_after(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let asked = seconds.ok_or_else(|| format!("`{text}` is no number of seconds"))?;
    check_lost_after(asked).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_in_seconds_that_make_sense() {
        assert_eq!(parse_lost_after("2.5"), Ok(Duration::from_millis(2500)));
        for wrong in ["", "soon", "-1", "nan", "1", "3601"] {
            assert!(parse_lost_after(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn usage_names_the_command_whatever_the_program_is_called() {
        for called in ["euphrates", "-c", "/somewhere/__main__.py"] {
            let wrong = Arguments::try_parse_from([called, "worker", "--bogus"]).unwrap_err();
            assert!(wrong.to_string().contains("Usage: euphrates worker "), "{wrong}");
        }
    }
}
