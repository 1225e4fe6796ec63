//! The configuration of `save_dataset`.

use euphrates_flow::module::UnitPlan;
use euphrates_flow::size::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// The size of a file, if none is given.
pub(crate) const FILE_BYTES: u64 = 256 << 20;

/// The most folders of partitions, if no number is given.
pub(crate) const PARTITIONS_MAX: u64 = 10_000;

/// Where and how to write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A folder on a file system; the folder above it must exist.
    pub(crate) path: String,
    /// `parquet`, `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`; `parquet` if absent.
    #[serde(default)]
    pub(crate) format: Option<String>,
    /// Columns whose values name folders, the outermost first.
    #[serde(default)]
    pub(crate) partition_by: Vec<String>,
    /// What becomes of files that are there: `error` refuses a folder that is not empty, `append`
    /// keeps them, `overwrite` replaces them, `overwrite_partitions` replaces those in folders that
    /// get new ones. `error` if absent.
    #[serde(default)]
    pub(crate) mode: Option<String>,
    /// The size of a file, `"64MB"` or a number of bytes; 256 MiB if absent. No file is more than
    /// a tenth larger, unless one row is.
    #[serde(default)]
    pub(crate) file_bytes: Option<Size>,
    /// The name of a file without its extension, with `{i}` for its number and `{run}` for a text
    /// that no other run has. `part-{i}` if absent, with `{run}` to append.
    #[serde(default)]
    pub(crate) file_name: Option<String>,
    /// The most folders of `partition_by`; 10,000 if absent.
    #[serde(default)]
    pub(crate) partitions_max: Option<u64>,
    /// As for `save`.
    #[serde(default)]
    pub(crate) compression: Option<String>,
    /// As for `save`.
    #[serde(default)]
    pub(crate) row_group_bytes: Option<usize>,
    /// The units that this attempt writes, if another one may adopt its files.
    #[serde(default)]
    #[schemars(skip)]
    pub(crate) units: Option<UnitPlan>,
}
