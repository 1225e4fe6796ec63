//! Errors of the `parquet` crate as ours.

use euphrates_flow::Error;
use parquet::errors::ParquetError;

/// Our own error if there is one inside; whatever else the crate says means damage.
pub fn damaged(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => inner(error).unwrap_or_else(Error::corrupt),
        ParquetError::NYI(what) => Error::usage(format!("not supported in Parquet files: {what}"))
            .remedy("write the file with common encodings"),
        error => Error::corrupt(error),
    }
}

/// Our own error in one of the crate's, which may have it in one of a reader's.
fn inner(
    error: Box<dyn std::error::Error + Send + Sync>,
) -> Result<Error, Box<dyn std::error::Error + Send + Sync>> {
    match error.downcast::<Error>() {
        Ok(own) => Ok(*own),
        Err(other) => match other.downcast::<std::io::Error>() {
            Ok(read) if read.get_ref().is_some_and(|cause| cause.is::<Error>()) => {
                inner(read.into_inner().expect("just looked at"))
            }
            Ok(read) => Err(read),
            Err(other) => Err(other),
        },
    }
}

/// A failure to write.
pub fn failed(error: ParquetError) -> Error {
    Error::failed(error)
}
