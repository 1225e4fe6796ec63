//! Resolves local paths of configurations, for processes with another working directory.

use std::path::{Path, absolute};

use euphrates_flow::secrets::STORAGE_OPTIONS;
use serde_json::Value;

/// Resolves a relative path against this folder. Addresses of objects stay as they are.
pub(crate) fn rebase(path: &mut Value, folder: &Path) {
    let Some(text) = path.as_str().filter(|text| !text.contains("://")) else { return };
    if let Ok(whole) = absolute(folder.join(text)) {
        // A path that ends in a slash is a folder, and keeps the slash.
        let slash = if text.ends_with('/') { "/" } else { "" };
        *path = format!("{}{slash}", whole.display().to_string().trim_end_matches('/')).into();
    }
}

/// Resolves the home folder that storage options name for striped files.
pub(crate) fn rebase_home(config: &mut Value, folder: &Path) {
    let home = config.get_mut(STORAGE_OPTIONS).and_then(|options| options.get_mut("home"));
    home.into_iter().for_each(|home| rebase(home, folder));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn relative_paths_begin_at_the_folder_and_others_stay() {
        for (given, expected) in [
            ("a.csv", "/f/a.csv"),
            ("./x/*.csv", "/f/x/*.csv"),
            ("/b.csv", "/b.csv"),
            ("s3://bucket/key", "s3://bucket/key"),
            ("out/", "/f/out/"),
        ] {
            let mut path = json!(given);
            rebase(&mut path, Path::new("/f"));
            assert_eq!(path, json!(expected));
        }
    }
}
