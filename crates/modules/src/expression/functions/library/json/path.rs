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
        let (step, behind) = first_step(rest)?;
        value = match step {
            JsonStep::Field(name) => value.get(name)?,
            JsonStep::Item(index) => item(value, index)?,
            JsonStep::AllFields | JsonStep::AllItems => return None,
        };
        rest = behind;
    }
    Some(value)
}

/// All values at a path with wildcards: `$.a[*].b`, `$.*`; none if it is malformed.
pub(super) fn all<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(mut rest) = path.strip_prefix('$') else {
        return at(value, path).into_iter().collect();
    };
    let mut values = vec![value];
    while !rest.is_empty() {
        let Some((step, behind)) = first_step(rest) else { return vec![] };
        let reached = |value: &'a Value| -> Vec<&'a Value> {
            match step {
                JsonStep::Field(name) => value.get(name).into_iter().collect(),
                JsonStep::Item(index) => item(value, index).into_iter().collect(),
                JsonStep::AllItems => {
                    value.as_array().map_or(vec![], |items| items.iter().collect())
                }
                JsonStep::AllFields => {
                    value.as_object().map_or(vec![], |all| all.values().collect())
                }
            }
        };
        values = values.into_iter().flat_map(reached).collect();
        rest = behind;
    }
    values
}

/// A step of a path.
#[derive(Clone, Copy)]
enum JsonStep<'a> {
    Field(&'a str),
    Item(i64),
    AllItems,
    AllFields,
}

/// The first step of a path, and the others; `None` if it is malformed.
fn first_step(rest: &str) -> Option<(JsonStep<'_>, &str)> {
    if let Some(inside) = rest.strip_prefix('[') {
        let (index, behind) = inside.split_once(']')?;
        let name = index.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        let step = match (index, name) {
            ("*", _) => JsonStep::AllItems,
            (_, Some(name)) => JsonStep::Field(name),
            _ => JsonStep::Item(index.strip_prefix('#').unwrap_or(index).parse().ok()?),
        };
        return Some((step, behind));
    }
    let name = rest.strip_prefix('.')?;
    let (name, behind, is_quoted) = match name.strip_prefix('"') {
        Some(quoted) => {
            let (name, behind) = quoted.split_once('"')?;
            (name, behind, true)
        }
        None => {
            let (name, behind) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            (name, behind, false)
        }
    };
    let step = if name == "*" && !is_quoted { JsonStep::AllFields } else { JsonStep::Field(name) };
    Some((step, behind))
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
    fn wildcards_reach_all_items_and_fields() {
        let value = json!({"a": [{"b": 1}, {"c": 2}, {"b": 3}], "*": 4});
        for (path, found) in [
            ("$.a[*].b", vec![json!(1), json!(3)]),
            ("$.a[0].*", vec![json!(1)]),
            ("$.\"*\"", vec![json!(4)]),
            ("$.b[*]", vec![]),
            ("$.a[*", vec![]),
        ] {
            assert_eq!(all(&value, path), found.iter().collect::<Vec<_>>(), "{path}");
        }
    }

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
