//! Named credentials: the profiles in the files that the command line of AWS keeps.

use std::collections::BTreeMap;
use std::path::PathBuf;

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

/// Keys of profiles and the storage options that they are.
const KEYS: [(&str, &str); 5] = [
    ("aws_access_key_id", "aws_access_key_id"),
    ("aws_secret_access_key", "aws_secret_access_key"),
    ("aws_session_token", "aws_session_token"),
    ("region", "aws_region"),
    ("endpoint_url", "aws_endpoint"),
];

/// The options of a profile of `~/.aws/credentials` and `~/.aws/config`, or of the files that
/// `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` name.
pub(super) fn profile(name: &str) -> Result<Vec<(String, String)>> {
    let mut profiles: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let files = [("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
    for (variable, file) in files {
        let home = || std::env::home_dir().map(|home| home.join(".aws").join(file));
        let path = std::env::var_os(variable).map(PathBuf::from).or_else(home);
        let Some(path) = path.filter(|path| path.exists()) else { continue };
        let failed = |error| Error::os("read", &path, &error);
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        for (name, keys) in sections(&text) {
            profiles.entry(name).or_default().extend(keys);
        }
    }
    let Some(found) = profiles.get(name) else {
        return Err(unknown("profile", name, profiles.keys().map(String::as_str)));
    };
    if !found.contains_key("aws_access_key_id") || !found.contains_key("aws_secret_access_key") {
        let error = Error::usage(format!("the profile `{name}` has no key of its own"));
        return Err(error.remedy(
            "profiles with roles, sign-on or programs are not supported: write temporary keys \
             into the environment, as `aws configure export-credentials --format env` does",
        ));
    }
    let option =
        |(key, option): &(&str, &str)| Some((option.to_string(), found.get(*key)?.clone()));
    Ok(KEYS.iter().filter_map(option).collect())
}

/// The sections of such a file by the name of their profile.
fn sections(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let (mut sections, mut at) = (BTreeMap::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            let name = name.strip_prefix("profile ").unwrap_or(name).trim().to_string();
            sections.entry(name.clone()).or_insert_with(BTreeMap::new);
            at = Some(name);
        } else if let (Some(name), Some((key, value))) = (&at, line.split_once('='))
            && !line.starts_with(['#', ';'])
        {
            let keys: &mut BTreeMap<String, String> = sections.entry(name.clone()).or_default();
            keys.insert(key.trim().to_lowercase(), value.trim().to_string());
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_sections_of_both_files() {
        let text = "# keys\n[default]\nregion = a\n\n[profile lake]\nregion=eu=1 \n; no\nX=y\n";
        let found = sections(text);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["default", "lake"]);
        let lake: Vec<(&str, &str)> =
            found["lake"].iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(lake, [("region", "eu=1"), ("x", "y")]);
    }
}
