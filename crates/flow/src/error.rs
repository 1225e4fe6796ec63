//! The error type of all crates: kind, message, place (outermost first), row, cause and remedy.

mod cause;
pub mod redact;
pub mod refusals;
pub mod row;
pub mod secrets;

use std::fmt;

use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};

use self::redact::redacted;
use self::row::Row;

pub use self::cause::Cause;

/// The kind of a failure; it decides the exit code and the Python exception.
///
/// ```
/// use euphrates_flow::{Error, Kind};
///
/// let error = Error::corrupt("the checksum of block 7 is wrong");
/// assert_eq!(error.kind(), Kind::Corrupt);
/// assert_ne!(error.kind().exit_code(), Kind::Usage.exit_code());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The flow, an option or an expression is wrong; nothing has started.
    Usage,
    /// A module failed while the flow ran.
    Failed,
    /// Data on disk or in flight differs from what was written.
    Corrupt,
    /// Disk, memory or another resource ran out, or an operating system call failed.
    Resource,
    /// The user, or the failure of another module, stopped the flow.
    Interrupted,
    /// The output has no consumers any more. Not a failure: `?` carries it out of a module's `run`,
    /// and the engine counts the instance as finished.
    Closed,
}

impl Kind {
    /// The exit code of the command line interface.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Closed => 0,
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::Corrupt => 3,
            Kind::Resource => 4,
            Kind::Interrupted => 130,
        }
    }
}

/// An error with its place and its remedy.
///
/// ```
/// use euphrates_flow::Error;
/// let error = Error::usage("no column `l_pric`").at("module filter_1").remedy("columns: l_price");
/// let text = "module filter_1: no column `l_pric`\n  remedy: columns: l_price";
/// assert_eq!(error.to_string(), text);
/// ```
///
/// ```
/// use euphrates_flow::{Error, Kind};
///
/// let error = Error::usage("no column named `prise`").remedy("did you mean `price`?");
/// let error = error.at("values: total").at("module aggregate_1");
/// assert_eq!(error.kind(), Kind::Usage);
/// assert_eq!(error.places().collect::<Vec<_>>(), ["module aggregate_1", "values: total"]);
/// assert_eq!(error.advice(), Some("did you mean `price`?"));
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Error(Box<ErrorDetails>);

/// Its serialized form is sent between processes.
#[derive(Clone, Serialize, Deserialize)]
struct ErrorDetails {
    kind: Kind,
    message: String,
    places: Vec<String>,
    remedy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<Row>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
}

/// The remedy if the name of an output is taken. Remedies name options as Python does, in
/// backticks; the command line prints those that its command has in its own spelling.
pub const REMEDY_TAKEN: &str = "choose another name, or replace it: `overwrite=True`";

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind, without a place.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Error {
        let (message, places) = (redacted(&message.to_string()), vec![]);
        Error(Box::new(ErrorDetails {
            kind,
            message,
            places,
            remedy: None,
            row: None,
            cause: None,
        }))
    }

    /// An error of kind `Usage`: the flow or a call is wrong.
    pub fn usage(message: impl fmt::Display) -> Error {
        Error::new(Kind::Usage, message)
    }

    /// An error of kind `Failed`: a module failed.
    pub fn failed(message: impl fmt::Display) -> Error {
        Error::new(Kind::Failed, message)
    }

    /// An error of kind `Corrupt`: data differs from what was written.
    pub fn corrupt(message: impl fmt::Display) -> Error {
        Error::new(Kind::Corrupt, message)
    }

    /// An error of kind `Resource`: a resource ran out.
    pub fn resource(message: impl fmt::Display) -> Error {
        Error::new(Kind::Resource, message)
    }

    /// An error of kind `Interrupted`: the flow was stopped.
    pub fn interrupted() -> Error {
        Error::new(Kind::Interrupted, "the flow was interrupted")
    }

    /// An error of kind `Closed`: the output has no consumers any more.
    pub fn closed() -> Error {
        Error::new(Kind::Closed, "the consumers of this output have finished")
    }

    /// The error of a system call: `doing` is a verb, and `path` its object.
    ///
    /// ```
    /// use euphrates_flow::{Error, Kind};
    /// use std::io::ErrorKind;
    ///
    /// let error = |kind: ErrorKind| Error::os("open", "data.csv", &kind.into());
    /// assert_eq!(error(ErrorKind::NotFound).kind(), Kind::Usage);
    /// assert_eq!(error(ErrorKind::StorageFull).kind(), Kind::Resource);
    /// assert!(error(ErrorKind::NotFound).message().starts_with("cannot open \"data.csv\": "));
    /// ```
    pub fn os(doing: impl fmt::Display, path: impl fmt::Debug, error: &std::io::Error) -> Error {
        use std::io::ErrorKind::*;
        let made = |kind, remedy: &str| {
            let bare = Error::new(kind, format!("cannot {doing} {path:?}: {error}"));
            if remedy.is_empty() { bare } else { bare.remedy(remedy) }
        };
        match error.kind() {
            NotFound => made(Kind::Usage, "check the path"),
            PermissionDenied => made(Kind::Usage, "check the owner and the mode of the path"),
            IsADirectory | NotADirectory => made(Kind::Usage, "check the path"),
            StorageFull | QuotaExceeded => {
                made(Kind::Resource, "free space, or point the output and scratch elsewhere")
            }
            UnexpectedEof => made(Kind::Corrupt, "the file is shorter than it says it is"),
            _ => made(Kind::Resource, ""),
        }
    }

    /// Turns `Usage` into `Failed`, since the flow has started.
    ///
    /// ```
    /// use euphrates_flow::{Error, Kind};
    ///
    /// assert_eq!(Error::usage("the path is gone").while_running().kind(), Kind::Failed);
    /// assert_eq!(Error::corrupt("a checksum").while_running().kind(), Kind::Corrupt);
    /// ```
    pub fn while_running(mut self) -> Error {
        if self.0.kind == Kind::Usage {
            self.0.kind = Kind::Failed;
        }
        self
    }

    /// Adds a place: `module sort_1`, `input left`, a path with a line. The outermost place is
    /// added last and printed first.
    pub fn at(mut self, place: impl fmt::Display) -> Error {
        self.0.places.push(redacted(&place.to_string()));
        self
    }

    /// Sets the remedy, unless one is set already.
    pub fn remedy(mut self, remedy: impl fmt::Display) -> Error {
        self.0.remedy.get_or_insert_with(|| redacted(&remedy.to_string()));
        self
    }

    /// Replaces the remedy, where the caller knows a better one.
    ///
    /// ```
    /// use euphrates_flow::Error;
    ///
    /// let error = Error::usage("`a.csv` exists already").remedy("choose another name");
    /// assert_eq!(error.better_remedy("remove it").advice(), Some("remove it"));
    /// ```
    pub fn better_remedy(mut self, remedy: impl fmt::Display) -> Error {
        self.0.remedy = Some(redacted(&remedy.to_string()));
        self
    }

    /// Sets the row at fault, unless one is set already. `row` is called only if it is needed.
    pub fn in_row(mut self, row: impl FnOnce() -> Row) -> Error {
        if self.0.row.is_none() {
            self.0.row = Some(row());
        }
        self
    }

    /// Sets the cause, unless one is set already.
    pub fn because(mut self, cause: Cause) -> Error {
        self.0.cause.get_or_insert(cause);
        self
    }

    /// Removes the cause: another attempt would fail in the same way.
    pub fn for_good(mut self) -> Error {
        self.0.cause = None;
        self
    }

    /// The kind of the failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message, without place and remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The places, outermost first.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.0.places.iter().rev().map(String::as_str)
    }

    /// The remedy, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// The cause, if another attempt may avoid it.
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// The first row at fault, or a range that includes it.
    pub fn row(&self) -> Option<&Row> {
        self.0.row.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.places() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.message)?;
        if let Some(row) = &self.0.row {
            write!(f, "\n  row: {row}")?;
        }
        match &self.0.remedy {
            Some(remedy) => write!(f, "\n  remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        use arrow::error::ArrowError::*;
        match &error {
            IpcError(_) | ParseError(_) | CDataInterface(_) => Error::corrupt(error),
            IoError(_, inner) => Error::os("read or write", "a stream", inner),
            MemoryError(_) => Error::resource(error),
            _ => Error::failed(error),
        }
    }
}

/// The candidate with the smallest edit distance, if that is near enough to suggest: of at most a
/// third of the characters of the longer name.
///
/// ```
/// use euphrates_flow::error::did_you_mean;
///
/// let names = ["price", "day"];
/// assert_eq!(did_you_mean("Pirce", names.into_iter()), Some("price"), "capitals do not matter");
/// assert_eq!(did_you_mean("quantity", names.into_iter()), None);
/// ```
pub fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_near = |(distance, candidate): &(usize, &str)| {
        let longer = word.chars().count().max(candidate.chars().count());
        // At least one character must match.
        *distance <= (longer / 3).max(1).min(longer.saturating_sub(1))
    };
    let near = candidates.map(|candidate| (edits(word, candidate), candidate)).filter(is_near);
    near.min().map(|(_, candidate)| candidate)
}

/// The number of characters that differ between two names, whatever their capitals: added, left
/// out, replaced, or changed places with the next one.
pub fn edits(a: &str, b: &str) -> usize {
    strsim::osa_distance(&a.to_lowercase(), &b.to_lowercase())
}

/// The error of a column that a schema lacks.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::error::unknown_column;
///
/// let schema = Schema::new(vec![Field::new("price", DataType::Int64, false)]);
/// let error = unknown_column("prise", &schema);
/// assert_eq!(error.message(), "no column named `prise`");
/// assert_eq!(error.advice(), Some("did you mean `price`?"));
/// ```
pub fn unknown_column(name: &str, schema: &Schema) -> Error {
    unknown("column", name, schema.fields().iter().map(|field| field.name().as_str()))
}

/// An error for a name that does not exist, with the nearest one that does.
///
/// ```
/// use euphrates_flow::error::unknown;
///
/// let error = unknown("module", "sotr", ["scan", "sort"].into_iter());
/// assert_eq!(error.advice(), Some("did you mean `sort`?"));
/// ```
pub fn unknown<'a>(
    what: &str,
    word: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let error = Error::usage(format!("no {what} named `{word}`"));
    match did_you_mean(word, candidates.clone()) {
        Some(near) => error.remedy(format!("did you mean `{near}`?")),
        None => match candidates.collect::<Vec<_>>().as_slice() {
            [] => error.remedy(format!("there is no {what} yet")),
            [only] if what == "column" && remedy_of_unsplit(only).is_some() => {
                error.remedy(remedy_of_unsplit(only).unwrap_or_default())
            }
            known => {
                let header = match what == "column" && known.iter().all(|name| is_number(name)) {
                    true => "; they are the first line: if that is a record, `header=False`",
                    false => "",
                };
                error.remedy(format!("known: {}{header}", known.join(", ")))
            }
        },
    }
}

/// Whether a name is a number, as that of a column is where the first line of a file is a record.
fn is_number(name: &str) -> bool {
    name.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

/// The remedy if the name of the only column of a file shows that its lines were not split: it has
/// another delimiter than the comma, or is JSON.
///
/// ```
/// use euphrates_flow::error::remedy_of_unsplit;
///
/// let remedy = remedy_of_unsplit("id;city").unwrap();
/// assert!(remedy.contains(r#"`delimiter=";"`"#));
/// assert_eq!(remedy_of_unsplit("city"), None);
/// ```
pub fn remedy_of_unsplit(column: &str) -> Option<String> {
    if column.starts_with("{\"") {
        return Some("the first line looks like JSON: read it with `format=\"json_lines\"`".into());
    }
    let delimiter = [';', '\t', '|'].into_iter().find(|&delimiter| column.contains(delimiter))?;
    let shown = if delimiter == '\t' { "\\t".to_string() } else { delimiter.to_string() };
    let column = column.escape_debug();
    Some(format!("the only column is `{column}`; if these are several: `delimiter=\"{shown}\"`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["filter", "sort", "sample"];
        assert_eq!(did_you_mean("filtr", names.into_iter()), Some("filter"));
        assert_eq!(did_you_mean("SROT", names.into_iter()), Some("sort"));
        assert_eq!(did_you_mean("parquet", names.into_iter()), None);
        assert_eq!(did_you_mean("name", ["date", "nam"].into_iter()), Some("nam"));
        assert_eq!(did_you_mean("name", ["date", "type", "game_id"].into_iter()), None);
        for word in ["", "c", "zz"] {
            assert_eq!(did_you_mean(word, ["a", "id"].into_iter()), None, "{word}");
        }
    }

    #[test]
    fn columns_whose_names_are_numbers_may_be_a_record() {
        let years = || ["2019", "2020"].into_iter();
        assert!(unknown("column", "x", years()).to_string().contains("`header=False`"));
        assert!(!unknown("column", "x", ["2019", "y"].into_iter()).to_string().contains("header"));
        assert!(!unknown("table", "x", years()).to_string().contains("header"));
    }
}
