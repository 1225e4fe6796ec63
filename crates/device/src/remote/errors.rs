//! Errors of the clients of stores, as ours.

use euphrates_flow::{Error, Kind};
use object_store::client::HttpError;

/// How often a response that breaks off is requested again.
pub(crate) const BROKEN_RESPONSES_MAX: u32 = 4;

/// Whether an error says that a response has begun, and has broken off.
pub(crate) fn is_broken_response(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { source, .. } if source.is::<HttpError>())
}

/// Converts the error of an object store to ours.
pub(crate) fn failure(doing: &str, name: &str, error: &object_store::Error) -> Error {
    use object_store::Error::*;
    let causes = without_queries(&causes(error));
    let is_web = name.starts_with("http");
    let (kind, remedy) = match error {
        NotFound { .. } if is_web => (Kind::Usage, "check the address"),
        NotFound { .. } => (Kind::Usage, "check bucket and key"),
        InvalidPath { .. } => (Kind::Usage, "check the key"),
        AlreadyExists { .. } | Precondition { .. } => {
            (Kind::Usage, "it exists: choose another name, or replace it: `overwrite=True`")
        }
        PermissionDenied { .. } | Unauthenticated { .. } if is_web => {
            (Kind::Usage, "give a token: storage_options={\"bearer_token\": \"env:NAME\"}")
        }
        PermissionDenied { .. } | Unauthenticated { .. } => {
            (Kind::Usage, "check the credentials (AWS_ACCESS_KEY_ID and the like)")
        }
        NotSupported { .. } | NotImplemented { .. } => (Kind::Usage, "use another store"),
        UnknownConfigurationKey { .. } => (Kind::Usage, "check the environment variables"),
        _ if causes.contains("NoSuchBucket") => (Kind::Usage, "check the bucket"),
        _ => (Kind::Resource, "check endpoint, credentials and network, and try again"),
    };
    Error::new(kind, format!("cannot {doing} {name}: {causes}")).remedy(remedy)
}

/// A message without the queries of its addresses, which may be secrets.
fn without_queries(message: &str) -> String {
    let word = |word: &str| match word.split_once('?') {
        Some((before, _)) if before.contains("://") => format!("{before}?***"),
        _ => word.to_string(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The error and its causes in one line; the outer ones often carry no detail.
fn causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_message = inner.to_string();
        if !message.contains(&inner_message) {
            message = format!("{message}: {inner_message}");
        }
        cause = inner.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_no_query() {
        let message = "Error performing GET https://h/a.csv?key=SECRET in 2s? - refused";
        let shown = "Error performing GET https://h/a.csv?*** in 2s? - refused";
        assert_eq!(without_queries(message), shown);
    }
}
