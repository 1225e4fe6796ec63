//! An API request: path parameters, query and body.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::error::{ApiError, Result};

/// One request, decoded except for the body.
#[derive(Debug, Default)]
pub struct ApiRequest {
    params: Vec<(String, String)>,
    query: Vec<(String, String)>,
    body: Bytes,
}

impl ApiRequest {
    /// Decodes the query. `params` are the parameters of the path.
    pub fn new(params: Vec<(String, String)>, query: &str, body: Bytes) -> Result<ApiRequest> {
        Ok(ApiRequest { params, query: decoded_pairs(query)?, body })
    }

    /// A parameter of the path; empty if the route has none of this name.
    pub fn param(&self, name: &str) -> &str {
        value_of(&self.params, name).unwrap_or_default()
    }

    /// A parameter of the query.
    pub fn query(&self, name: &str) -> Result<&str> {
        let value = value_of(&self.query, name);
        value.ok_or_else(|| ApiError::usage(format!("`{name}` is missing behind the `?`")))
    }

    /// The body, parsed as JSON.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::usage(format!("the body is malformed: {error}")))
    }
}

fn value_of<'a>(values: &'a [(String, String)], name: &str) -> Option<&'a str> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn decoded_pairs(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    };
    pairs.map(pair).collect()
}

/// Decodes percent escapes and `+`, once.
fn decoded(text: &str) -> Result<String> {
    let malformed = || ApiError::usage("what is behind the `?` is malformed");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits =
                    [rest.next().ok_or_else(malformed)?, rest.next().ok_or_else(malformed)?];
                let digits = digits.map(|digit| (digit as char).to_digit(16));
                let [Some(high), Some(low)] = digits else { return Err(malformed()) };
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}
