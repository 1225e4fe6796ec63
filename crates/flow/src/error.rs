//! One error type for the whole house: what went wrong, where, and what to do about it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cause::Cause;
use crate::row::Row;
use crate::secrets::hidden;

/// What kind of failure an error is; it decides the exit code and the Python exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The flow, an option or an expression is wrong; nothing has started.
    Usage,
    /// A module failed while the flow ran.
    Failed,
    /// Data on disk or on its way is not what was written.
    Corrupt,
    /// Disk, memory or another resource ran out, or an operating system call failed.
    Resource,
    /// The user, or the failure of another module, stopped the flow.
    Interrupted,
    /// Nobody reads this output any more. Not a failure: `?` carries it out of a module's `run`,
    /// and the engine counts the instance as finished.
    Closed,
}

impl Kind {
    /// The exit code of the command line.
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
/// let told = "module filter_1: no column `l_pric`\n  remedy: columns: l_price";
/// assert_eq!(error.to_string(), told);
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    places: Vec<String>,
    remedy: Option<String>,
    row: Option<Row>,
    cause: Option<Cause>,
}

/// The result of almost everything.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of any kind.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Error {
        let (message, places) = (hidden(&message.to_string()), vec![]);
        Error(Box::new(Inner { kind, message, places, remedy: None, row: None, cause: None }))
    }

    /// The flow or a call is wrong.
    pub fn usage(message: impl fmt::Display) -> Error {
        Error::new(Kind::Usage, message)
    }

    /// A module failed.
    pub fn failed(message: impl fmt::Display) -> Error {
        Error::new(Kind::Failed, message)
    }

    /// Data is not what was written.
    pub fn corrupt(message: impl fmt::Display) -> Error {
        Error::new(Kind::Corrupt, message)
    }

    /// A resource ran out.
    pub fn resource(message: impl fmt::Display) -> Error {
        Error::new(Kind::Resource, message)
    }

    /// Somebody stopped the flow.
    pub fn interrupted() -> Error {
        Error::new(Kind::Interrupted, "the flow was interrupted")
    }

    /// Nobody reads this output any more.
    pub fn closed() -> Error {
        Error::new(Kind::Closed, "the consumers of this output have finished")
    }

    /// An operating system error, with what was being done to which path.
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

    /// The same, of a flow that has started: nothing that fails from then on is told as if nothing
    /// had.
    pub fn while_running(mut self) -> Error {
        if self.0.kind == Kind::Usage {
            self.0.kind = Kind::Failed;
        }
        self
    }

    /// Says where: `module sort_1`, `input left`, a path with a line. The outermost place is
    /// added last and printed first.
    pub fn at(mut self, place: impl fmt::Display) -> Error {
        self.0.places.push(hidden(&place.to_string()));
        self
    }

    /// Says what to do about it, unless something closer to the cause has said so already.
    pub fn remedy(mut self, remedy: impl fmt::Display) -> Error {
        self.0.remedy.get_or_insert_with(|| hidden(&remedy.to_string()));
        self
    }

    /// Says at which row, unless something closer to the cause has said so already. It is made
    /// only if it is needed.
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

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What went wrong, without place and remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where it went wrong, outermost first.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.0.places.iter().rev().map(String::as_str)
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// The cause, if another attempt may avoid it.
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// The first row at fault, or what is known of where it is.
    pub fn row(&self) -> Option<&Row> {
        self.0.row.as_ref()
    }
}

/// An error as it travels between processes.
#[derive(Serialize, Deserialize)]
struct Told {
    kind: Kind,
    message: String,
    places: Vec<String>,
    remedy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<Row>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Inner { kind, message, places, remedy, row, cause } = (*self.0).clone();
        Told { kind, message, places, remedy, row, cause }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Error, D::Error> {
        let Told { kind, message, places, remedy, row, cause } = Told::deserialize(deserializer)?;
        Ok(Error(Box::new(Inner { kind, message, places, remedy, row, cause })))
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

/// The candidate nearest to what was written, if it is near enough to be worth suggesting.
pub fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // A letter at least is right.
    let worst = ((length / 3).max(1) + 1).min(length.saturating_sub(1));
    let near = candidates.map(|candidate| (edits(word, candidate), candidate));
    near.filter(|(distance, _)| *distance <= worst).min().map(|(_, candidate)| candidate)
}

/// Levenshtein distance, case folded.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// An error for a name that does not exist, with the nearest one that does.
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
            known => error.remedy(format!("known: {}", known.join(", "))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let names = ["filter", "sort", "sample"];
        assert_eq!(did_you_mean("filtr", names.into_iter()), Some("filter"));
        assert_eq!(did_you_mean("SROT", names.into_iter()), Some("sort"));
        assert_eq!(did_you_mean("parquet", names.into_iter()), None);
        for word in ["", "c", "zz"] {
            assert_eq!(did_you_mean(word, ["a", "id"].into_iter()), None, "{word}");
        }
    }
}
