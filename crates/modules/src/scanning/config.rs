//! The configuration of `scan`.

use std::collections::{BTreeMap, BTreeSet};

use euphrates_flow::module::UnitPlan;
use schemars::JsonSchema;
use serde::Deserialize;

/// What is read, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A file, a pattern (`data/*.parquet`, `**`), a folder, a URL (`s3://bucket/key`, `gs://`,
    /// `az://`, `https://host/file`, `euphrates://striped_file`), or a list of them.
    pub(crate) path: Paths,
    /// `parquet`, `csv`, `json_lines` (also arrays, and objects over several lines), `arrow_ipc`,
    /// `records` (100 bytes, as gensort makes them) or `lines`; told from the extension if absent.
    #[serde(default)]
    pub(crate) format: Option<String>,
    /// The columns to read, in this order; all if absent.
    #[serde(default)]
    pub(crate) columns: Option<Vec<String>>,
    /// Keep the order of the records: file by file, each from front to back.
    #[serde(default)]
    pub(crate) order: bool,
    /// CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
    /// CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from the
    /// first records.
    #[serde(default)]
    pub(crate) types: Option<BTreeMap<String, String>>,
    /// CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    #[serde(default)]
    pub(crate) quote: Option<String>,
    /// CSV: the character behind which any other is itself; if absent, a quote within quotes is
    /// doubled.
    #[serde(default)]
    pub(crate) escape: Option<char>,
    /// CSV: the character with which comments begin, which end with their line.
    #[serde(default)]
    pub(crate) comment: Option<char>,
    /// CSV: how many lines to pass over at the beginning, before the header.
    #[serde(default)]
    pub(crate) skip_rows: Option<usize>,
    /// CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    #[serde(default)]
    pub(crate) null_values: Option<Vec<String>>,
    /// CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if absent,
    /// or what a mark at its beginning says.
    #[serde(default)]
    pub(crate) encoding: Option<String>,
    /// Text and records: `none` says that they are not compressed, although their first bytes or
    /// their name look like it.
    #[serde(default)]
    pub(crate) compression: Option<String>,
    /// Whether names of folders like `year=2024/` are columns; if absent, they are where there are
    /// any. With `true`, there must be some.
    #[serde(default)]
    pub(crate) hive: Option<bool>,
    /// Types of columns in names of folders, like `{"zip": "string"}`; the others are told from
    /// their values.
    #[serde(default)]
    pub(crate) hive_types: Option<BTreeMap<String, String>>,
    /// Which columns are read if files have different ones: `true` for those of all files, `false`
    /// for those of the first. If absent, a file may have fewer columns than the first, but no
    /// others.
    #[serde(default)]
    pub(crate) union_by_name: Option<bool>,
    /// CSV and JSON: what becomes of what cannot be read: `fail` ends the flow, `null` makes the
    /// value null, `skip` leaves the record out. A record with too many or too few fields is left
    /// out by `null`, too. `fail` if absent. With `null`, all columns are read; with `skip`, all
    /// but columns of text in CSV, which only have to be UTF-8.
    #[serde(default)]
    pub(crate) on_error: Option<String>,
    /// The most errors before the flow fails after all; any number if absent.
    #[serde(default)]
    pub(crate) errors_max: Option<u64>,
    /// A file for what cannot be read, which is replaced, or a folder that ends with `/`, which
    /// grows: `file`, `line`, `column`, `reason` and the text of the `record`. It appears with the
    /// other outputs of the flow.
    #[serde(default)]
    pub(crate) rejects: Option<String>,
    /// A name under which the files that are read are noted in the home folder, when the flow has
    /// ended well: the next run with this name leaves them out. A file that has changed since is
    /// an error. `eu.forget(name)` forgets them.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(crate) only_new: Option<OnlyNew>,
    /// Options of the store or server of `path`, beside the environment: of S3 `endpoint`,
    /// `region`, `allow_http`, `anonymous`, `profile` (of `~/.aws`), `access_key_id` and others. What
    /// may be a secret is the name of an environment variable: `{"secret_access_key": "env:KEY"}`.
    #[serde(default)]
    pub(crate) storage_options: Option<BTreeMap<String, String>>,
    /// The splits that are read, if earlier attempts have completed the others.
    #[serde(default)]
    #[schemars(skip)]
    pub(crate) units: Option<UnitPlan>,
}

/// Which files are new.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OnlyNew {
    /// Those that are not in the state of this name.
    Name(String),
    /// Those that the process of the master has found.
    Found { name: String, files: BTreeSet<String> },
}

/// One path or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Paths {
    /// A file, pattern, folder or URL.
    One(String),
    /// Several, read as one table.
    Several(Vec<String>),
}
