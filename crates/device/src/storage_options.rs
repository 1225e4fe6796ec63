//! Options of the store or server of a path, in addition to the environment: endpoint, region,
//! credentials. Secrets are given as names of environment variables, whose values every process
//! looks up itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use euphrates_flow::secrets::{STORAGE_OPTIONS, referenced, refuse_secret};
use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::read_cache::RemoteReads;
use crate::striped::StripedFiles;

/// The options of one path by name, as object_store, Polars and delta-rs call them:
/// `endpoint`, `region`, `access_key_id`.
///
/// ```
/// use euphrates_device::storage_options::StorageOptions;
///
/// let options = |name: &str, value: &str| {
///     StorageOptions::new([(name.to_string(), value.to_string())].into())
/// };
/// assert!(options("region", "eu-west-1").is_ok());
/// assert!(options("secret_access_key", "env:LAKE_KEY").is_ok());
/// assert!(options("secret_access_key", "abc").is_err(), "flows are stored and shown");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StorageOptions {
    options: BTreeMap<String, String>,
    #[serde(skip)]
    striped: StripedAccess,
    #[serde(skip)]
    reads: ReadAccess,
}

/// Access to the striped files of a home. It is no option: options are equal without it.
#[derive(Clone, Default)]
struct StripedAccess(Option<Arc<dyn StripedFiles>>);

impl PartialEq for StripedAccess {
    fn eq(&self, _: &StripedAccess) -> bool {
        true
    }
}

impl Eq for StripedAccess {}

impl fmt::Debug for StripedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StripedAccess").field(&self.0.as_ref().map(|files| files.home())).finish()
    }
}

/// The reads of a scan, which are no option either.
#[derive(Clone, Debug, Default)]
struct ReadAccess(Option<Arc<RemoteReads>>);

impl PartialEq for ReadAccess {
    fn eq(&self, _: &ReadAccess) -> bool {
        true
    }
}

impl Eq for ReadAccess {}

impl StorageOptions {
    /// The options with these names. Fails if one may be a secret and is not the name of an
    /// environment variable.
    pub fn new(options: BTreeMap<String, String>) -> Result<StorageOptions> {
        options.iter().try_for_each(|(name, value)| refuse_secret(name, value))?;
        Ok(StorageOptions { options, ..StorageOptions::default() })
    }

    /// Whether the environment alone decides.
    pub fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// The value of an option as given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The same options, for paths that may be addresses of these striped files.
    pub fn with_striped(self, files: Arc<dyn StripedFiles>) -> StorageOptions {
        StorageOptions { striped: StripedAccess(Some(files)), ..self }
    }

    /// The same options, for objects that are read by these reads.
    pub fn with_reads(self, reads: Arc<RemoteReads>) -> StorageOptions {
        StorageOptions { reads: ReadAccess(Some(reads)), ..self }
    }

    /// The reads through which objects are read, if they are counted.
    pub(crate) fn reads(&self) -> Option<&Arc<RemoteReads>> {
        self.reads.0.as_ref()
    }

    /// All options as given, in one text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.options)
    }

    /// The striped files that addresses name. Fails if there are none, or if an option is none of
    /// striped files.
    pub fn striped(&self) -> Result<&Arc<dyn StripedFiles>> {
        let is_other = |name: &&String| !crate::striped::OPTIONS.contains(&name.as_str());
        if let Some(name) = self.options.keys().find(is_other) {
            let error = Error::usage(format!("no storage option named `{name}` here"));
            let known = crate::striped::OPTIONS.join(", ");
            return Err(error.at(STORAGE_OPTIONS).remedy(format!("options: {known}")));
        }
        self.striped.0.as_ref().ok_or_else(|| {
            let error = Error::usage("a striped file cannot be used here");
            error.remedy("copy it with `euphrates file get` or `put`")
        })
    }

    /// The options with lower-case names, and with the values of the variables they name.
    pub(crate) fn resolved(&self) -> Result<Vec<(String, String)>> {
        let value = |value: &String| match referenced(value) {
            None => Ok(value.clone()),
            Some(variable) => std::env::var(variable).map_err(|_| {
                let process = "the environment of this process has no variable";
                Error::usage(format!("{process} {variable}"))
                    .at(STORAGE_OPTIONS)
                    .remedy(format!("set {variable} where workers and the program are started"))
            }),
        };
        let one = |(name, given): (&String, &String)| Ok((name.to_lowercase(), value(given)?));
        self.options.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_looked_up_and_missing_ones_named() {
        let of = |variable: &str| {
            let value = format!("env:{variable}");
            StorageOptions::new([("AWS_TOKEN".to_string(), value)].into()).unwrap()
        };
        let path = std::env::var("PATH").unwrap();
        assert_eq!(of("PATH").resolved().unwrap(), [("aws_token".to_string(), path)]);
        let error = of("EUPHRATES_NO_SUCH").resolved().unwrap_err();
        assert!(error.message().contains("EUPHRATES_NO_SUCH") && error.advice().is_some());
    }
}
