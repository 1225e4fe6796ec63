//! The clients of stores: each is configured by the environment variables of its provider, and by
//! the storage options of a path, which come first.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::secrets::STORAGE_OPTIONS;
use euphrates_flow::{Error, Result};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};

use super::credentials::profile;
use super::errors::failure;
use super::missing_lengths::AnyLengthConnector;
use crate::storage_options::StorageOptions;

/// A client, and its uploads if the store has any.
pub(super) type StoreClient = (Arc<dyn ObjectStore>, Option<Arc<dyn MultipartStore>>);

/// Options of S3 that replace those which name credentials in the environment.
const CREDENTIALS: [AmazonS3ConfigKey; 3] =
    [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::Token];

/// Makes the client of a bucket, a container or a web server (`host?query`).
pub(super) fn open(scheme: &str, bucket: &str, options: &StorageOptions) -> Result<StoreClient> {
    let wrong = |error| failure("open", &format!("{scheme}://{bucket}"), &error);
    let retry = RetryConfig {
        max_retries: 6,
        retry_timeout: Duration::from_secs(60),
        ..RetryConfig::default()
    };
    let options = options.resolved()?;
    Ok(match scheme {
        "s3" | "s3a" => {
            let builder = s3(options)?.with_bucket_name(bucket).with_retry(retry);
            both(builder.build().map_err(wrong)?)
        }
        "gs" | "gcs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env();
            for (key, value) in parsed::<GoogleConfigKey>(options, GOOGLE)? {
                builder = builder.with_config(key, value);
            }
            both(builder.with_bucket_name(bucket).with_retry(retry).build().map_err(wrong)?)
        }
        "http" | "https" => {
            let (client, secret) = web(options)?;
            let (host, query) = bucket.split_once('?').unwrap_or((bucket, ""));
            let queries = [query, secret.as_deref().unwrap_or_default()];
            let queries = queries.into_iter().filter(|query| !query.is_empty());
            let query = queries.collect::<Vec<_>>().join("&");
            let mark = if query.is_empty() { "" } else { "?" };
            let url = format!("{scheme}://{host}/{mark}{query}");
            let builder = HttpBuilder::new().with_url(url).with_client_options(client);
            let builder = builder.with_http_connector(AnyLengthConnector);
            (Arc::new(builder.with_retry(retry).build().map_err(wrong)?), None)
        }
        _ => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            for (key, value) in parsed::<AzureConfigKey>(options, AZURE)? {
                builder = builder.with_config(key, value);
            }
            both(builder.with_container_name(bucket).with_retry(retry).build().map_err(wrong)?)
        }
    })
}

fn both<S: ObjectStore + MultipartStore>(store: S) -> StoreClient {
    let store = Arc::new(store);
    (store.clone(), Some(store))
}

const S3: &str = "endpoint, region, allow_http, anonymous, profile, access_key_id, \
                  secret_access_key, session_token, virtual_hosted_style_request";
const GOOGLE: &str = "service_account, service_account_key, base_url, anonymous, allow_http";
const AZURE: &str = "account_name, account_key, sas_key, endpoint, anonymous, allow_http";
const WEB: &str = "bearer_token, query, timeout, user_agent, allow_invalid_certificates";

/// Options of S3: those of a profile come after those of the path, and before the environment.
fn s3(options: Vec<(String, String)>) -> Result<AmazonS3Builder> {
    let is_profile = |name: &str| matches!(name, "profile" | "aws_profile");
    let (named, given): (Vec<_>, Vec<_>) =
        options.into_iter().partition(|(name, _)| is_profile(name));
    let mut all = match named.first() {
        Some((_, name)) => profile(name).map_err(|error| error.at(STORAGE_OPTIONS))?,
        None => vec![],
    };
    all.extend(given);
    let all = parsed::<AmazonS3ConfigKey>(all, S3)?;
    // A session token of the environment does not belong to keys of the path.
    let own = all.iter().any(|(key, value)| {
        CREDENTIALS.contains(key) || (*key == AmazonS3ConfigKey::SkipSignature && value == "true")
    });
    let mut builder = match own {
        false => AmazonS3Builder::from_env(),
        true => std::env::vars().fold(AmazonS3Builder::new(), |builder, (name, value)| {
            let key = name.starts_with("AWS_").then(|| name.to_lowercase().parse().ok()).flatten();
            match key.filter(|key| !CREDENTIALS.contains(key)) {
                Some(key) => builder.with_config(key, value),
                None => builder,
            }
        }),
    };
    let has_endpoint = all
        .iter()
        .any(|(key, value)| *key == AmazonS3ConfigKey::Endpoint && value.starts_with("http://"));
    for (key, value) in all {
        builder = builder.with_config(key, value);
    }
    let allowed = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
    if has_endpoint && builder.get_config_value(&allowed).as_deref() != Some("true") {
        let error = Error::usage("the endpoint is plain HTTP, which others can read");
        return Err(error
            .at(STORAGE_OPTIONS)
            .remedy("use https://, or allow it: \"allow_http\": \"true\""));
    }
    Ok(builder)
}

/// Options of a web server: those of its client, and the query of its addresses.
fn web(options: Vec<(String, String)>) -> Result<(ClientOptions, Option<String>)> {
    let (mut client, mut query) = (ClientOptions::new().with_allow_http(true), None);
    for (name, value) in options {
        match name.as_str() {
            "query" => query = Some(value.trim_start_matches('?').to_string()),
            "bearer_token" => {
                let value = HeaderValue::from_str(&format!("Bearer {value}"));
                let mut value = value.map_err(|_| {
                    Error::usage("the token has characters that no header has").at(STORAGE_OPTIONS)
                })?;
                value.set_sensitive(true);
                client =
                    client.with_default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
            }
            _ => {
                let keys = parsed::<ClientConfigKey>(vec![(name, value)], WEB)?;
                for (key, value) in keys {
                    client = client.with_config(key, value);
                }
            }
        }
    }
    Ok((client, query))
}

/// The options by the keys of a provider.
fn parsed<K: FromStr>(options: Vec<(String, String)>, known: &str) -> Result<Vec<(K, String)>> {
    let one = |(name, value): (String, String)| {
        let plain = if name == "anonymous" { "skip_signature" } else { name.as_str() };
        let key = plain.parse().map_err(|_| {
            let error = Error::usage(format!("no storage option named `{name}` here"));
            error.at(STORAGE_OPTIONS).remedy(format!("options: {known}"))
        })?;
        Ok((key, value))
    };
    options.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    fn options(given: &[(&str, &str)]) -> StorageOptions {
        let one = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        StorageOptions::new(given.iter().map(one).collect()).unwrap()
    }

    #[test]
    fn options_of_the_path_configure_the_client() {
        let given = options(&[("endpoint", "http://127.0.0.1:1"), ("aws_allow_http", "true")]);
        assert!(open("s3", "bucket", &given).is_ok());
        let builder = s3(options(&[("anonymous", "true"), ("region", "eu-x")]).resolved().unwrap());
        let builder = builder.unwrap();
        let value = |key| builder.get_config_value(&key);
        assert_eq!(value(AmazonS3ConfigKey::SkipSignature).as_deref(), Some("true"));
        assert_eq!(value(AmazonS3ConfigKey::Region).as_deref(), Some("eu-x"));
    }

    #[test]
    fn options_that_mean_nothing_are_refused_by_name() {
        let plain = options(&[("endpoint", "http://127.0.0.1:1"), ("allow_http", "false")]);
        for (scheme, given, part) in [
            ("s3", options(&[("regoin", "env:PATH")]), "regoin"),
            ("gs", options(&[("region", "x")]), "region"),
            ("https", options(&[("region", "x")]), "region"),
            ("s3", plain, "plain HTTP"),
        ] {
            let error = open(scheme, "bucket", &given).err().unwrap();
            assert_eq!(error.kind(), Kind::Usage, "{error}");
            assert!(error.message().contains(part) && error.advice().is_some(), "{error}");
        }
    }
}
