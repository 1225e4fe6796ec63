//! Keys in addresses (`s3://KEY:SECRET@bucket/…`): refused where a flow names one, and taken out of
//! every error. A document is kept, shown and sent to workers, an error is logged.

use serde_json::Value;

use crate::error::{Error, Result};

/// Schemes of addresses of object stores.
pub const STORES: &[&str] = &["s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"];

/// Options of addresses that are as good as a key: signatures of S3, Google and Azure.
const SIGNATURES: &[&str] = &[
    "sig=",
    "x-amz-signature=",
    "x-amz-credential=",
    "x-amz-security-token=",
    "x-goog-signature=",
    "x-goog-credential=",
];

/// What stands for a key.
const HIDDEN: &str = "***";

/// Refuses values with an address of an object store that holds a key, at any depth.
///
/// # Errors
/// A usage error that shows the address without the key.
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

/// The same of one address.
pub fn refuse_key(address: &str) -> Result<()> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_store = scheme.is_some_and(|scheme| STORES.contains(&scheme.as_str()));
    if !is_store || hidden(address) == address {
        return Ok(());
    }
    Err(Error::usage(format!("the address holds a key: {address}")).remedy(
        "leave the key out, and give it in the environment (AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY)",
    ))
}

/// A text whose addresses have no keys: `s3://***@bucket/…`, `…?sig=***`.
pub fn hidden(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        told += before;
        let end = address.find(ends_address).unwrap_or(address.len());
        let (address, after) = address.split_at(end);
        told += &without_signatures(without_user(address));
        rest = after;
    }
    told + rest
}

fn ends_address(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '<' | '>')
}

/// `***@host/…` of `name:password@host/…`. Passwords may have slashes, as keys of S3 do, but no
/// name has.
fn without_user(address: &str) -> String {
    let colon = address.find([':', '/', '@']).filter(|at| address[*at..].starts_with(':'));
    let Some(at) = colon.and_then(|_| address.rfind('@')) else { return address.to_string() };
    format!("{HIDDEN}{}", &address[at..])
}

fn without_signatures(address: String) -> String {
    let Some((path, options)) = address.split_once('?') else { return address };
    let option = |option: &str| {
        let lower = option.to_ascii_lowercase();
        match SIGNATURES.iter().find(|name| lower.starts_with(**name)) {
            Some(name) => format!("{}{HIDDEN}", &option[..name.len()]),
            None => option.to_string(),
        }
    };
    let options: Vec<String> = options.split('&').map(option).collect();
    format!("{path}?{}", options.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_taken_out_of_every_address_of_a_text() {
        let cases = [
            ("s3://AKIA:se/cr+et@bucket/a.csv", "s3://***@bucket/a.csv"),
            ("cannot open \"s3a://k:s@b/x\": no", "cannot open \"s3a://***@b/x\": no"),
            ("s3://k:p@ss@b/x and http://u:p@h/y", "s3://***@b/x and http://***@h/y"),
            ("s3://k:s@b, s3://bucket/a:b@c", "s3://***@b, s3://bucket/a:b@c"),
            ("https://h/x?sv=1&sig=abc%3D&se=2", "https://h/x?sv=1&sig=***&se=2"),
            ("https://h/x?X-Amz-Signature=ab", "https://h/x?X-Amz-Signature=***"),
            ("abfs://container@account/x.csv", "abfs://container@account/x.csv"),
            ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
            ("http://127.0.0.1:9000/a", "http://127.0.0.1:9000/a"),
            ("a :// b", "a :// b"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(hidden(text), expected, "{text}");
        }
    }

    #[test]
    fn an_address_with_a_key_is_refused_without_repeating_it() {
        let error = refuse_keys(&json!({"path": ["a.csv", "s3://K:SECRET@b/x"]})).unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(told.contains("path: the address holds a key: s3://***@b/x"), "{told}");
        assert!(told.contains("AWS_SECRET_ACCESS_KEY") && !told.contains("SECRET@"), "{told}");
        // An expression may well compare with such a text.
        assert!(refuse_keys(&json!({"where": "url = 'http://u:p@h'", "n": 1})).is_ok());
    }
}
