//! Redaction of credentials: replaces the keys in addresses (`s3://KEY:SECRET@bucket/…`) that
//! occur in a text, since errors are logged and documents are shown.

/// URL parameters that authenticate like a key: signatures of S3, Google and Azure.
const SIGNATURES: &[&str] = &[
    "sig=",
    "x-amz-signature=",
    "x-amz-credential=",
    "x-amz-security-token=",
    "x-goog-signature=",
    "x-goog-credential=",
];

/// Replaces a key in the redacted text.
const HIDDEN: &str = "***";

/// The text with the keys of its addresses redacted: `s3://***@bucket/…`, `…?sig=***`.
///
/// ```
/// use euphrates_flow::secrets::redacted;
///
/// assert_eq!(redacted("cannot open s3://KEY:SECRET@bucket/a"), "cannot open s3://***@bucket/a");
/// assert_eq!(redacted("s3://bucket/a"), "s3://bucket/a");
/// ```
pub fn redacted(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        redacted += before;
        let end = address.find(ends_address).unwrap_or(address.len());
        let (address, after) = address.split_at(end);
        redacted += &without_signatures(without_user(address));
        rest = after;
    }
    redacted + rest
}

fn ends_address(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '<' | '>')
}

/// `***@host/…` for `name:password@host/…`. Passwords may contain slashes, as keys of S3 do, but
/// names may not.
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

    #[test]
    fn keys_are_redacted_in_every_address() {
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
            assert_eq!(redacted(text), expected, "{text}");
        }
    }
}
