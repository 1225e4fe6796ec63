//! The configuration of an aggregation: keys, and names with aggregate calls.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What to group by, and what to compute of each group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns whose values make a group. With none, all rows are one.
    pub(crate) by: Vec<String>,
    /// What comes out beside them: names, and what stands under each: a call of an aggregate
    /// function, like `count()`, `sum(price * amount)`, `count(distinct city)`, `median(price)`,
    /// `array_agg(city order by price desc)` or `max(price) filter (where amount > 1)`; or an SQL
    /// expression over calls and the columns of `by`, like `max(a) - min(a)`.
    #[serde(default)]
    pub(crate) values: Named,
}

/// Names and what they stand for, in the order written.
#[derive(Clone, Debug, Default, JsonSchema)]
pub(crate) struct Named(
    #[schemars(with = "BTreeMap<String, String>")] pub(crate) Vec<(String, String)>,
);

/// Implemented by hand, to keep the order and to reject duplicate names.
impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Named, D::Error> {
        struct FunctionNames;
        impl<'de> Visitor<'de> for FunctionNames {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and what they stand for, like {\"total\": \"sum(price)\"}")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Named, A::Error> {
                let mut named: Vec<(String, String)> = vec![];
                while let Some((name, what)) = map.next_entry()? {
                    if named.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("two values are named `{name}`")));
                    }
                    named.push((name, what));
                }
                Ok(Named(named))
            }
        }
        deserializer.deserialize_map(FunctionNames)
    }
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, what) in &self.0 {
            map.serialize_entry(name, what)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_and_their_names() {
        let text = r#"{"by": ["k"], "values": {"z": "count()", "a": "sum(x)"}}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!(config.values.0[0].0, "z");
        assert_eq!(
            serde_json::to_string(&config).unwrap(),
            text.replace(": ", ":").replace(", ", ",")
        );
        let twice = r#"{"by": [], "values": {"a": "count()", "a": "sum(x)"}}"#;
        let error = serde_json::from_str::<Config>(twice).unwrap_err().to_string();
        assert!(error.contains("two values are named `a`"), "{error}");
    }
}
