//! Paths into JSON: `$.a.b[1]`, `/a/b/1`, or the name of a field.

use serde_json::Value;

/// The value at a path; `None` if there is none, or the path is malformed.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.starts_with('/') {
        return value.pointer(path);
    }
    let Some(mut rest) = path.strip_prefix('$') else {
        return match path.parse::<i64>() {
            Ok(index) if value.is_array() => item(value, index),
            _ => value.get(path),
        };
    };
    let mut value = value;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (index, behind) = inside.split_once(']')?;
            value = match index.strip_prefix('#') {
                Some(from_end) => item(value, from_end.parse().ok()?)?,
                None => match index.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                    Some(name) => value.get(name)?,
                    None => item(value, index.parse().ok()?)?,
                },
            };
            rest = behind;
            continue;
        }
        let name = rest.strip_prefix('.')?;
        let (name, behind) = match name.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => name.split_at(name.find(['.', '[']).unwrap_or(name.len())),
        };
        value = value.get(name)?;
        rest = behind;
    }
    Some(value)
}

/// An item of an array; negative numbers count from its end.
fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let at = if index < 0 { index + items.len() as i64 } else { index };
    items.get(usize::try_from(at).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_reach_fields_and_items() {
        let value = json!({"a": {"b c": [1, 2, {"d": 3}]}, "0": 4});
        for (path, found) in [
            ("$", Some(value.clone())),
            ("$.a.\"b c\"[1]", Some(json!(2))),
            ("$.a[\"b c\"][#-1].d", Some(json!(3))),
            ("/a/b c/0", Some(json!(1))),
            ("0", Some(json!(4))),
            ("$.a.x", None),
            ("$.a[", None),
            ("$a", None),
        ] {
            assert_eq!(at(&value, path), found.as_ref(), "{path}");
        }
    }
}
