//! `--storage`: options of the stores of a command's paths.

use euphrates_flow::secrets::{STORAGE_OPTIONS, refuse_secret};
use euphrates_flow::{Document, Error, Result};
use serde_json::{Map, Value};

/// Gives the sources and sinks of a flow the options that are given for their addresses. Each of
/// `given` is `KEY=VALUE …`, behind the beginning of the addresses that it is for, if not all.
pub fn apply(flow: &mut Document, given: &[String]) -> Result<()> {
    let given = given.iter().map(|text| parsed(text)).collect::<Result<Vec<_>>>()?;
    for node in &mut flow.modules {
        let path = match node.config.get("path") {
            Some(Value::Array(paths)) => paths.first().and_then(Value::as_str),
            Some(path) => path.as_str(),
            None => None,
        };
        let is_file = matches!(node.module.as_str(), "scan" | "save");
        let Some(path) = path.filter(|path| is_file && path.contains("://")) else { continue };
        let mut fitting: Vec<&StoragePrefix> =
            given.iter().filter(|one| path.starts_with(&one.prefix)).collect();
        fitting.sort_by_key(|one| one.prefix.len());
        let options: Map<String, Value> =
            fitting.into_iter().flat_map(|one| one.options.clone()).collect();
        if !options.is_empty() && !node.config.contains_key(STORAGE_OPTIONS) {
            node.config.insert(STORAGE_OPTIONS.into(), Value::Object(options));
        }
    }
    Ok(())
}

/// Options of all addresses with a beginning.
struct StoragePrefix {
    prefix: String,
    options: Map<String, Value>,
}

fn parsed(text: &str) -> Result<StoragePrefix> {
    let mut prefix = String::new();
    let mut options = Map::new();
    for (number, word) in text.split_whitespace().enumerate() {
        match word.split_once('=') {
            Some((name, value)) if !name.contains("://") => {
                refuse_secret(name, value)?;
                options.insert(name.into(), value.into());
            }
            _ if number == 0 && word.contains("://") => prefix = word.into(),
            // Not shown: it may be a secret.
            _ => {
                let error = Error::usage(format!("word {} of --storage is no option", number + 1));
                return Err(error.remedy("write it like 's3://bucket/ region=eu-west-1'"));
            }
        }
    }
    match options.is_empty() {
        true => Err(Error::usage("--storage has no options").remedy("write KEY=VALUE")),
        false => Ok(StoragePrefix { prefix, options }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_beginning_of_an_address_wins() {
        let given = ["region=a anonymous=true", "s3://raw/ region=b", "s3://other region=c"];
        let mut flow = Document::new("x");
        flow.place("scan", json!({"path": "s3://raw/x.csv"}), None);
        flow.place("scan", json!({"path": ["s3://b/x.csv", "s3://b/y.csv"]}), None);
        flow.place("save", json!({"path": "x.csv"}), None);
        apply(&mut flow, &given.map(String::from)).unwrap();
        let options = |at: usize| flow.modules[at].config.get(STORAGE_OPTIONS);
        assert_eq!(options(0), Some(&json!({"region": "b", "anonymous": "true"})));
        assert_eq!(options(1), Some(&json!({"region": "a", "anonymous": "true"})));
        assert_eq!(options(2), None);
    }

    #[test]
    fn secrets_and_words_that_are_no_options_are_refused_and_not_repeated() {
        for text in ["secret_access_key=SECRET", "s3://b/ SECRET", "SECRET", "s3://b/", ""] {
            let error = apply(&mut Document::new("x"), &[text.to_string()]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
        }
    }
}
