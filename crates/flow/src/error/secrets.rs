//! Refuses keys in addresses (`s3://KEY:SECRET@bucket/…`) and in storage options of a flow, since
//! documents are stored, shown and sent to workers.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

pub use crate::error::redact::redacted;

/// URL schemes of object stores.
pub const STORES: &[&str] = &["s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"];

/// The name of the option with the storage options of a path.
pub const STORAGE_OPTIONS: &str = "storage_options";

/// What the value of a storage option begins with that names an environment variable.
const REFERENCE: &str = "env:";

/// Storage options whose values are no secrets, without the prefix of their provider.
const OPEN_OPTIONS: &[&str] = &[
    "account_name",
    "allow_http",
    "allow_invalid_certificates",
    "anonymous",
    "base_url",
    "conditional_put",
    "connect_timeout",
    "data",
    "default_region",
    "disks",
    "endpoint",
    "endpoint_url",
    "home",
    "parity",
    "profile",
    "region",
    "request_payer",
    "service_account",
    "service_account_path",
    "skip_signature",
    "timeout",
    "use_emulator",
    "user_agent",
    "virtual_hosted_style_request",
];

/// Prefixes of the names of storage options, as environment variables have them.
const PROVIDERS: &[&str] = &["aws_", "google_", "azure_storage_", "azure_"];

/// The environment variable that the value of a storage option names: `KEY` of `env:KEY`.
///
/// ```
/// use euphrates_flow::secrets::referenced;
///
/// assert_eq!(referenced("env:LAKE_KEY"), Some("LAKE_KEY"));
/// assert_eq!(referenced("eu-west-1"), None);
/// ```
pub fn referenced(value: &str) -> Option<&str> {
    value.strip_prefix(REFERENCE)
}

/// Refuses a storage option that may be a secret and is given as such, rather than as the name of
/// an environment variable.
///
/// ```
/// use euphrates_flow::secrets::refuse_secret;
///
/// assert!(refuse_secret("region", "eu-west-1").is_ok());
/// assert!(refuse_secret("secret_access_key", "env:LAKE_KEY").is_ok());
/// assert!(refuse_secret("secret_access_key", "abc").is_err());
/// ```
pub fn refuse_secret(name: &str, value: &str) -> Result<()> {
    let lower = name.to_ascii_lowercase();
    let plain = PROVIDERS.iter().find_map(|provider| lower.strip_prefix(provider));
    let is_open = OPEN_OPTIONS.contains(&plain.unwrap_or(&lower)) && redacted(value) == value;
    if is_open || referenced(value).is_some() {
        return Ok(());
    }
    let message = format!("`{name}` may be a secret, and flows are stored and shown");
    Err(Error::usage(message).at(STORAGE_OPTIONS).remedy(format!(
        "put it into an environment variable, and name that: \"{name}\": \"env:NAME\""
    )))
}

/// URL schemes of web servers.
pub const SERVERS: &[&str] = &["http", "https"];

/// Refuses values with an address that holds a key, and secrets in storage options, at any depth.
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
        Value::Object(map) => refuse_keys_of(map),
        _ => Ok(()),
    }
}

/// Like `refuse_keys`, for named values, as the options of a module are.
pub fn refuse_keys_of(map: &Map<String, Value>) -> Result<()> {
    map.iter().try_for_each(|(name, value)| {
        if let (STORAGE_OPTIONS, Some(options)) = (name.as_str(), value.as_object()) {
            let mut texts = options.iter().filter_map(|(name, it)| Some((name, it.as_str()?)));
            texts.try_for_each(|(name, value)| refuse_secret(name, value))?;
        }
        refuse_keys(value).map_err(|error| error.at(name))
    })
}

/// Like `refuse_keys`, for one address.
pub fn refuse_key(address: &str) -> Result<()> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_server = scheme.as_deref().is_some_and(|scheme| SERVERS.contains(&scheme));
    let is_store = scheme.as_deref().is_some_and(|scheme| STORES.contains(&scheme));
    if !(is_store || is_server) || redacted(address) == address {
        return Ok(());
    }
    let error = Error::usage(format!("the address holds a key: {address}"));
    if is_server {
        return Err(error.remedy(
            "leave the key out, and name an environment variable with it: \
             storage_options={\"bearer_token\": \"env:NAME\"}, or {\"query\": \"env:NAME\"} for \
             what stands behind the `?`",
        ));
    }
    Err(error.remedy(
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
        let signed = refuse_keys(&json!({"path": "https://h/a.csv?sig=SECRET"})).unwrap_err();
        assert!(!format!("{signed}").contains("SECRET"), "{signed}");
        // An expression may contain such a text.
        assert!(refuse_keys(&json!({"where": "url = 'http://u:p@h'", "n": 1})).is_ok());
    }

    #[test]
    fn secrets_in_storage_options_are_refused_and_not_repeated() {
        let of = |name: &str, value: &str| {
            refuse_keys(&json!({"path": "s3://b/x", "storage_options": {name: value}}))
        };
        for (name, value) in [
            ("aws_region", "eu-west-1"),
            ("endpoint", "http://127.0.0.1:9000"),
            ("AWS_SECRET_ACCESS_KEY", "env:KEY"),
            ("azure_storage_account_name", "lake"),
        ] {
            assert!(of(name, value).is_ok(), "{name}");
        }
        for name in ["secret_access_key", "aws_access_key_id", "token", "sas_key", "unknown"] {
            let error = of(name, "SECRET").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
        }
        assert!(of("endpoint", "http://u:SECRET@h").is_err());
    }
}
