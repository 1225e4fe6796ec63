//! Converts errors of the `parquet` crate to Euphrates errors.

use euphrates_flow::Error;
use parquet::errors::ParquetError;

/// The Euphrates error inside, if there is one; any other error of the `parquet` crate means
/// damaged data.
pub fn damaged(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => inner(error).unwrap_or_else(Error::corrupt),
        ParquetError::NYI(what) => Error::usage(format!("not supported in Parquet files: {what}"))
            .remedy("write the file with common encodings"),
        error => Error::corrupt(error),
    }
}

/// Finds a Euphrates error in one of the crate's, which may wrap an I/O error that wraps it.
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

/// Any error of the crate during a write, as a failure.
pub fn failed(error: ParquetError) -> Error {
    Error::failed(error)
}
