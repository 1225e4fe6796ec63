//! Refuses keys in addresses (`s3://KEY:SECRET@bucket/…`) of a flow, since documents are
//! stored, shown and sent to workers.

use serde_json::Value;

use crate::error::{Error, Result};

pub use crate::error::redact::redacted;

/// URL schemes of object stores.
pub const STORES: &[&str] = &["s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"];

/// Refuses values with an address of an object store that holds a key, at any depth.
///
/// # Errors
/// A usage error that shows the address without the key.
///
/// ```
/// use euphrates_flow::secrets::refuse_keys;
/// use serde_json::json;
///
/// assert!(refuse_keys(&json!({"path": "s3://bucket/a"})).is_ok());
/// let error = refuse_keys(&json!({"path": "s3://KEY:SECRET@bucket/a"})).unwrap_err();
/// assert_eq!(error.message(), "the address holds a key: s3://***@bucket/a");
/// assert_eq!(error.places().collect::<Vec<_>>(), ["path"]);
/// ```
pub fn refuse_keys(value: &Value) -> Result<()> {
    match value {
        Value::String(text) => refuse_key(text),
        Value::Array(items) => items.iter().try_for_each(refuse_keys),
        Value::Object(map) => map
            .iter()
            .try_for_each(|(name, value)| refuse_keys(value).map_err(|error| error.at(name))),
        _ => Ok(()),
    }
}

/// Like `refuse_keys`, for one address.
pub fn refuse_key(address: &str) -> Result<()> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_store = scheme.is_some_and(|scheme| STORES.contains(&scheme.as_str()));
    if !is_store || redacted(address) == address {
        return Ok(());
    }
    Err(Error::usage(format!("the address holds a key: {address}")).remedy(
        "leave the key out, and give it in the environment (AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn refused_address_does_not_repeat_key() {
        let error = refuse_keys(&json!({"path": ["a.csv", "s3://K:SECRET@b/x"]})).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("path: the address holds a key: s3://***@b/x"), "{text}");
        assert!(text.contains("AWS_SECRET_ACCESS_KEY") && !text.contains("SECRET@"), "{text}");
        // An expression may contain such a text.
        assert!(refuse_keys(&json!({"where": "url = 'http://u:p@h'", "n": 1})).is_ok());
    }
}
