//! The configuration of an aggregation, and the syntax of its functions: `"sum(price * discount)"`,
//! `"count(distinct city)"`.

use std::collections::BTreeMap;
use std::fmt;

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::states::Spread;

/// What to group by, and what to compute of each group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns whose values make a group. With none, all rows are one.
    pub(crate) by: Vec<String>,
    /// What comes out beside them: names, and what stands under each: `count()`, or `count`,
    /// `count(distinct ...)`, `sum`, `min`, `max`, `avg`, `variance`, `stddev`, `var_pop` or
    /// `stddev_pop` of a column or an SQL expression; or an SQL expression over these and the
    /// columns of `by`, like `max(a) - min(a)`.
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

/// What `aggregate` computes of the values of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    /// The number of rows, or of values that are not null.
    Count,
    /// The number of distinct values that are not null.
    CountDistinct,
    Sum,
    Min,
    Max,
    /// The arithmetic mean of the values that are not null.
    Avg,
    /// Their variance or standard deviation.
    Spread(Spread),
}

const fn spread(is_root: bool, is_sample: bool) -> AggregateFunction {
    AggregateFunction::Spread(Spread { is_sample, is_root })
}

const FUNCTIONS: [(&str, AggregateFunction); 12] = [
    ("count", AggregateFunction::Count),
    ("sum", AggregateFunction::Sum),
    ("min", AggregateFunction::Min),
    ("max", AggregateFunction::Max),
    ("avg", AggregateFunction::Avg),
    ("variance", spread(false, true)),
    ("var_samp", spread(false, true)),
    ("var", spread(false, true)),
    ("var_pop", spread(false, false)),
    ("stddev", spread(true, true)),
    ("stddev_samp", spread(true, true)),
    ("stddev_pop", spread(true, false)),
];

/// Whether this is the name of an aggregate function.
pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Parses a call of an aggregate function: the function, and its argument, if any.
pub(crate) fn parse(text: &str) -> Result<(AggregateFunction, Option<String>)> {
    let call = text.trim().split_once('(');
    let Some((name, inside)) = call.and_then(|(name, rest)| Some((name, rest.strip_suffix(')')?)))
    else {
        let error = Error::usage(format!("`{text}` is not one function of something"));
        return Err(match text.trim().eq_ignore_ascii_case("count") {
            true => error.remedy("write it like `count()`"),
            false => error.remedy("write it like `sum(price)` or `sum(price) / count()`"),
        });
    };
    let (name, inside) = (name.trim(), inside.trim());
    let names = FUNCTIONS.iter().map(|(name, _)| *name);
    let found = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, function)) = found else {
        let none = || Error::usage(format!("no function named `{name}`"));
        return Err(match name.to_lowercase().as_str() {
            "mean" => none().remedy("did you mean `avg`?"),
            "median" => none().remedy(
                "it needs whole groups: a `partition` with `together`, and a `map` behind it",
            ),
            _ => unknown("function", name, names),
        });
    };
    let distinct = inside.get(..8).filter(|word| word.eq_ignore_ascii_case("distinct"));
    let distinct = distinct.and(inside.get(8..)).filter(|rest| !rest.starts_with(is_of_name));
    match (function, distinct.map(str::trim), inside) {
        (AggregateFunction::Count, None, "" | "*") => Ok((AggregateFunction::Count, None)),
        (AggregateFunction::Count, Some(what), _) if !what.is_empty() => {
            Ok((AggregateFunction::CountDistinct, Some(what.into())))
        }
        (AggregateFunction::Min | AggregateFunction::Max, Some(what), _) if !what.is_empty() => {
            Ok((*function, Some(what.into())))
        }
        (_, Some(_), _) => {
            let error = Error::usage(format!("`{text}` cannot be computed"));
            Err(error.remedy("`distinct` is for `count(distinct column)`"))
        }
        (_, None, "" | "*") => {
            let error = Error::usage(format!("`{text}` does not say of what"));
            Err(error.remedy(format!("name a column: `{name}(column)`")))
        }
        (function, None, what) => Ok((*function, Some(what.into()))),
    }
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_as_in_sql() {
        for (text, function, what) in [
            ("count()", AggregateFunction::Count, None),
            ("COUNT(*)", AggregateFunction::Count, None),
            (" count ( x ) ", AggregateFunction::Count, Some("x")),
            ("count(distinct x)", AggregateFunction::CountDistinct, Some("x")),
            ("count(DISTINCT(x))", AggregateFunction::CountDistinct, Some("(x)")),
            ("count(distinction)", AggregateFunction::Count, Some("distinction")),
            ("sum(a * (1 - b))", AggregateFunction::Sum, Some("a * (1 - b)")),
            ("max(distinct x)", AggregateFunction::Max, Some("x")),
            ("avg(x)", AggregateFunction::Avg, Some("x")),
        ] {
            assert_eq!(parse(text).unwrap(), (function, what.map(String::from)), "{text}");
        }
    }

    #[test]
    fn unknown_function_is_reported() {
        for (text, said) in [
            ("price", "is not one function of something"),
            ("sun(a)", "did you mean `sum`?"),
            ("mean(a)", "did you mean `avg`?"),
            ("Median(a)", "a `partition` with `together`"),
            ("count", "`count()`"),
            ("everything(a)", "known: count, sum, min, max, avg"),
            ("sum()", "does not say of what"),
            ("sum(distinct a)", "cannot be computed"),
            ("count(distinct)", "cannot be computed"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

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
