//! What a scan does about records that it cannot read.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Ports, Result, new_batch};
use euphrates_formats::rejects::{ErrorPolicy, RejectedRecord, RejectedRecords};
use serde_json::{Value, json};

/// How many records the error of too many names.
const NAMED_MAX: usize = 3;

/// The policy of `on_error`; `None` if the first error ends the flow.
pub(crate) fn policy(
    on_error: Option<&str>,
    errors_max: Option<u64>,
    rejects: Option<&str>,
) -> Result<Option<ErrorPolicy>> {
    let keeps_records = match on_error {
        None | Some("fail") => {
            let name = match (errors_max, rejects) {
                (Some(_), _) => "errors_max",
                (None, Some(_)) => "rejects",
                (None, None) => return Ok(None),
            };
            let error = Error::usage(format!("`{name}` is given, and the first error ends it"));
            return Err(error.at(name).remedy("say on_error=\"skip\" or \"null\""));
        }
        Some("null") => true,
        Some("skip") => false,
        Some(other) => {
            return Err(
                unknown("`on_error`", other, ["fail", "null", "skip"].into_iter()).at("on_error")
            );
        }
    };
    Ok(Some(ErrorPolicy { keeps_records, rejected: Arc::new(RejectedRecords::default()) }))
}

/// The module that writes rejected rows to a path, with its configuration: a folder grows, a file
/// is replaced.
pub fn sink(path: &str) -> (&'static str, Value) {
    match path.ends_with('/') {
        true => ("save_dataset", json!({"path": path, "mode": "append"})),
        false => ("save", json!({"path": path, "overwrite": true})),
    }
}

/// The columns of rejected records.
pub(crate) fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let line = Field::new("line", DataType::Int64, true);
    let fields = vec![text("file"), line, text("column"), text("reason"), text("record")];
    Arc::new(Schema::new(fields))
}

/// The rejected records of one instance.
pub(crate) struct Rejecting {
    pub(crate) rejected: Arc<RejectedRecords>,
    pub(crate) errors_max: Option<u64>,
    /// Whether they are written.
    pub(crate) is_attached: bool,
    /// The first of them.
    pub(crate) first: Vec<String>,
}

impl Rejecting {
    /// Puts what this thread has rejected. Fails if it is too much.
    pub(crate) fn put(&mut self, ports: &mut Ports) -> Result<()> {
        let rejected = self.rejected.take();
        if rejected.is_empty() {
            return Ok(());
        }
        let missing = NAMED_MAX.saturating_sub(self.first.len());
        self.first.extend(rejected.iter().take(missing).map(described));
        if let Some(most) = self.errors_max {
            for _ in &rejected {
                if ports.setup().fetch_add("errors")? >= most {
                    return Err(self.too_many(most));
                }
            }
        }
        if !self.is_attached {
            return Ok(());
        }
        let texts = |text: fn(&RejectedRecord) -> Option<&str>| -> ArrayRef {
            Arc::new(rejected.iter().map(text).collect::<StringArray>())
        };
        let lines: Int64Array = rejected.iter().map(|one| Some(one.line as i64)).collect();
        let columns = vec![
            texts(|one| Some(&one.file)),
            Arc::new(lines),
            texts(|one| one.column.as_deref()),
            texts(|one| Some(&one.reason)),
            texts(|one| Some(&one.record)),
        ];
        ports.put(1, new_batch(schema(), columns, rejected.len())?)
    }

    fn too_many(&self, most: u64) -> Error {
        let message = format!("more than {most} errors (`errors_max`): {}", self.first.join("; "));
        Error::corrupt(message)
            .remedy("correct the files, check the `types` and the format, or raise `errors_max`")
    }
}

fn described(one: &RejectedRecord) -> String {
    let column = one.column.iter().map(|name| format!("column `{name}`, ")).collect::<String>();
    format!("{}, line {}, {column}{}", one.file, one.line, one.reason)
}
