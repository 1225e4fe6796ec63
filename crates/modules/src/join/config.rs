//! The configuration of a `join`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::plan::{How, JoinSide, JoinSpec, On};

/// What to join by, and which rows come out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The keys: names of columns that both sides have, or `{"left": "a", "right": "b"}`.
    pub(crate) on: Vec<On>,
    /// Which rows come out.
    #[serde(default)]
    pub(crate) how: How,
    /// A condition in SQL that a pair must meet besides, over the columns of both sides.
    #[serde(rename = "where", default)]
    pub(crate) condition: Option<String>,
    /// The side that is held, best the smaller one. `auto` is that of which less is read, and the
    /// right if that is not known.
    #[serde(default)]
    pub(crate) build: Build,
    /// Stands behind names of the right that the left has too.
    #[serde(default = "right")]
    pub(crate) suffix: String,
}

/// The side that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Build {
    /// The smaller, as far as is known.
    #[default]
    Auto,
    /// The left.
    Left,
    /// The right.
    Right,
}

fn right() -> String {
    "_right".into()
}

impl Config {
    /// The input of the join's plan.
    pub(crate) fn spec(&self) -> JoinSpec<'_> {
        JoinSpec {
            on: &self.on,
            how: self.how,
            build: match self.build {
                Build::Left => JoinSide::Left,
                Build::Right | Build::Auto => JoinSide::Right,
            },
            condition: self.condition.as_deref(),
            suffix: &self.suffix,
        }
    }
}
