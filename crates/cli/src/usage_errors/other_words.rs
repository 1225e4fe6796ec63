//! Options and commands of other tools (sort, psql, DuckDB, Spark, …), and what to write here.

/// Options that other tools have, and the answer to them.
pub struct OptionAnswer {
    /// The commands that the answer is for; all that have its option, if empty.
    pub commands: &'static [&'static str],
    /// The other spellings.
    pub others: &'static [&'static str],
    /// What to write: an option, or a sentence that begins with one.
    pub answer: &'static str,
    /// Whether the option takes the place of the other one, with the same value.
    pub is_renamed: bool,
}

impl OptionAnswer {
    /// The option that the answer begins with.
    pub fn option(&self) -> &'static str {
        self.answer.split([' ', ',', ':']).next().unwrap_or(self.answer)
    }

    /// Whether the answer is for this command.
    pub fn is_of(&self, command: &str) -> bool {
        self.commands.is_empty() || self.commands.contains(&command)
    }
}

const fn renamed(
    commands: &'static [&'static str],
    others: &'static [&'static str],
    answer: &'static str,
) -> OptionAnswer {
    OptionAnswer { commands, others, answer, is_renamed: true }
}

const fn instead(
    commands: &'static [&'static str],
    others: &'static [&'static str],
    answer: &'static str,
) -> OptionAnswer {
    OptionAnswer { commands, others, answer, is_renamed: false }
}

/// Answers to options; the first that fits counts.
pub const OPTIONS: &[OptionAnswer] = &[
    renamed(
        &["sort"],
        &[
            "--key",
            "--keys",
            "--column",
            "--columns",
            "--col",
            "--field",
            "--fields",
            "--on",
            "--order-by",
            "--orderby",
            "--sort-by",
            "--sort",
        ],
        "--by",
    ),
    instead(&["sort"], &["-r", "--reverse", "--desc", "--descending"], "--by 'name desc'"),
    instead(&["sort"], &["--asc", "--ascending"], "--by name, which is ascending"),
    instead(
        &["sort"],
        &["-n", "--numeric", "--numeric-sort", "-g"],
        "--by name alone: numbers are sorted as numbers",
    ),
    instead(
        &["sort"],
        &["--nulls-first", "--nulls-last", "--na-position"],
        "--by 'name nulls first'; they come last otherwise",
    ),
    renamed(
        &["join"],
        &["--using", "--key", "--keys", "--by", "--column", "--columns", "-k", "-j"],
        "--on",
    ),
    instead(
        &["join"],
        &["--left-on", "--right-on", "--left-key", "--right-key", "-1", "-2"],
        "--on 'left_name=right_name'",
    ),
    renamed(&["join"], &["--type", "--kind", "--join-type", "--mode"], "--how"),
    instead(
        &["join"],
        &["--left", "--right", "--inner", "--outer", "--full", "--semi", "--anti", "--left-outer"],
        "--how with inner, left, right, full, semi or anti",
    ),
    renamed(
        &["aggregate"],
        &[
            "--group-by",
            "--groupby",
            "--group",
            "--key",
            "--keys",
            "--column",
            "--columns",
            "--on",
            "-g",
            "-k",
            "-b",
        ],
        "--by",
    ),
    instead(
        &["aggregate"],
        &[
            "--agg",
            "--aggregate",
            "--aggregates",
            "--values",
            "--sum",
            "--count",
            "--mean",
            "--avg",
            "--min",
            "--max",
            "-a",
        ],
        "--value 'total=sum(price)', or --value 'n=count()'",
    ),
    renamed(&["sql"], &["-i", "--read", "--script", "--query-file", "--sql-file"], "--file"),
    instead(
        &["sql"],
        &["-c", "-e", "-q", "-s", "--query", "--sql", "--command", "--execute", "--statement"],
        "--file with a file, or the query without an option: euphrates sql \"select * from \
         'sales.csv'\"",
    ),
    renamed(&["sql"], &["--tables", "--input", "--from", "--view"], "--table"),
    instead(
        &["sql"],
        &["--csv", "-csv", "--json", "-json", "--parquet", "--markdown"],
        "--output rows.csv, whose ending says the format; or --output - --output-format csv",
    ),
    renamed(
        &[],
        &["--out", "--output-file", "--out-file", "--outfile", "--to", "--dest", "--into", "-O"],
        "--output",
    ),
    renamed(
        &[],
        &["--input-format", "--in-format", "--from-format", "--file-format", "-f", "--filetype"],
        "--format",
    ),
    renamed(&[], &["--out-format", "--to-format", "--outputformat"], "--output-format"),
    renamed(
        &[],
        &["--sep", "--separator", "--field-separator", "--delim", "--fs", "-d", "-F"],
        "--delimiter",
    ),
    instead(
        &[],
        &["--header", "--has-header", "--headers", "-H"],
        "--no-header if there is none; the first line has the names otherwise",
    ),
    renamed(&[], &["--noheader", "--no-headers", "--without-header", "-N"], "--no-header"),
    renamed(&[], &["--skip", "--skip-lines", "--skiprows", "--skip-header"], "--skip-rows"),
    renamed(
        &[],
        &[
            "--null",
            "--nulls",
            "--na",
            "--na-values",
            "--null-values",
            "--nullstr",
            "--null-string",
        ],
        "--null-value",
    ),
    instead(
        &[],
        &["--type", "--dtype", "--dtypes", "--schema", "--column-types"],
        "--types name=string, once for each column",
    ),
    renamed(&[], &["--charset", "--codec"], "--encoding"),
    renamed(&[], &["--compress", "--compression-codec"], "--output-compression"),
    renamed(&[], &["--partition", "--partitions", "--partition-cols"], "--partition-by"),
    renamed(&[], &["--force", "--replace", "--clobber", "-y"], "--overwrite"),
    renamed(
        &[],
        &[
            "--jobs",
            "--parallel",
            "--parallelism",
            "--num-threads",
            "--nthreads",
            "--cpus",
            "--num-cpus",
            "-j",
            "-p",
            "-P",
        ],
        "--cores",
    ),
    renamed(
        &[],
        &["--mem", "--memory-limit", "--max-memory", "--buffer-size", "--ram", "-S", "-m"],
        "--memory",
    ),
    renamed(
        &[],
        &[
            "--tmp",
            "--temp",
            "--tmp-dir",
            "--tmpdir",
            "--temp-dir",
            "--temp-directory",
            "--temporary-directory",
            "--spill-dir",
            "-T",
        ],
        "--scratch",
    ),
    renamed(&[], &["--var", "--set", "--params", "--variable", "--arg", "-D"], "--param"),
    renamed(&["worker"], &["--master", "--connect", "--address", "--coordinator"], "--join"),
    renamed(&[], &["--token", "--secret", "--secret-file"], "--token-file"),
    instead(&[], &["--quiet", "-q", "--silent", "-s"], "--log quiet"),
    instead(&[], &["--json", "--log-json", "--log-format"], "--log json"),
    instead(&[], &["--verbose", "-v", "--progress"], "--log plain"),
    instead(&[], &["--dry-run", "--explain", "--plan"], "--print, which prints the flow"),
];

/// Commands that other tools have, and what to write; `FILE` stands for a file of the user.
pub const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["cat", "view", "print", "less", "more", "table", "preview", "display"],
        "euphrates sql \"select * from 'FILE'\"",
    ),
    (&["head", "peek", "limit", "top"], "euphrates sql \"select * from 'FILE' limit 10\""),
    (&["schema", "columns", "info", "inspect", "headers"], "euphrates sql \"describe 'FILE'\""),
    (&["stats", "summarize", "summary", "profile"], "euphrates sql \"summarize 'FILE'\""),
    (&["count", "wc", "rowcount"], "euphrates sql \"select count(*) from 'FILE'\""),
    (
        &["convert", "to-parquet", "transform"],
        "euphrates sql \"select * from 'FILE'\" -o rows.parquet",
    ),
    (
        &["select", "query", "q", "filter", "where", "exec", "execute"],
        "euphrates sql \"select * from 'FILE' where price > 9\"",
    ),
    (&["uniq", "distinct", "dedup"], "euphrates sql \"select distinct * from 'FILE'\""),
    (&["sample"], "euphrates sql \"select * from 'FILE' limit 100\""),
    (&["shell", "repl", "cli", "console"], "euphrates sql"),
    (
        &["group", "group-by", "groupby", "agg"],
        "euphrates aggregate FILE --by city --value 'n=count()' -o groups.csv",
    ),
    (&["order", "order-by", "orderby"], "euphrates sort FILE --by name -o sorted.csv"),
    (&["merge"], "euphrates join FILE cities.csv --on city -o joined.csv"),
    (&["import", "load", "insert", "put", "ingest"], "euphrates copy-in NAME --format csv"),
    (&["export", "dump", "get", "unload"], "euphrates copy-out NAME --format csv"),
    (&["list", "dir", "tables", "collections"], "euphrates ls"),
    (&["remove", "delete", "drop", "del"], "euphrates rm NAME"),
    (&["clean", "cleanup", "vacuum", "prune"], "euphrates gc"),
    (&["exe", "start", "submit", "launch-flow"], "euphrates run flow.py"),
    (&["validate", "lint", "explain", "plan", "dry-run"], "euphrates check flow.py"),
    (&["draw", "graph", "plot", "dot"], "euphrates show flow.py --as svg"),
    (&["ui", "web", "dashboard", "gui", "edit", "serve"], "euphrates studio"),
    (&["jobs", "status", "list-jobs"], "euphrates ps --cluster at:HOST:PORT"),
    (&["version"], "euphrates --version"),
];
