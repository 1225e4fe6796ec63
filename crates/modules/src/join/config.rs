//! The configuration of a `join`.

use arrow::datatypes::SchemaRef;
use euphrates_flow::module::{ColumnNames, NeededRows, Needs};
use schemars::JsonSchema;
use serde::Deserialize;

use super::plan::{How, JoinSide, JoinSpec, On};
use crate::expression::{column_names, compares_alone};

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
    /// The left, however much is read for it.
    Left,
    /// The right, however much is read for it.
    Right,
}

fn right() -> String {
    "_right".into()
}

impl Config {
    /// The columns of either side that the join reads.
    pub(crate) fn needs(&self) -> Needs {
        let mut names = ColumnNames::default();
        // Of several keys, a dictionary would be replaced by its values row by row.
        let is_single = self.on.len() == 1;
        for key in &self.on {
            match key {
                // Numbers are hashed as fast as their codes are looked up.
                On::Name(name) if is_single => {
                    names.add_encoded(name);
                    names.encode_only_text(name);
                }
                On::Name(name) => names.add(name),
                On::Pair(pair) => [&pair.left, &pair.right].iter().for_each(|name| {
                    if is_single {
                        names.add_possible_encoded(name);
                        names.encode_only_text(name);
                    } else {
                        names.add_possible(name);
                    }
                }),
            }
        }
        match self.condition.as_deref().map(column_names) {
            Some(None) => return Needs::All,
            Some(Some(read)) => names.merge_possible(&read),
            None => {}
        }
        Needs::Joined(names, self.suffix.clone())
    }

    /// The rows of either side that matter: if those without a match are output, all.
    pub(crate) fn rows(&self) -> NeededRows {
        let keys = |side: JoinSide| {
            let name = |key: &On| match (key, side) {
                (On::Name(name), _) => name.clone(),
                (On::Pair(pair), JoinSide::Left) => pair.left.clone(),
                (On::Pair(pair), JoinSide::Right) => pair.right.clone(),
            };
            match self.how.emits(side) {
                Some(false) => vec![],
                Some(true) | None => self.on.iter().map(name).collect(),
            }
        };
        NeededRows::Matching(vec![keys(JoinSide::Left), keys(JoinSide::Right)])
    }

    /// The column of a side that holds the values of an output column, or is equal to it in every
    /// pair; `None` if that is not known, or the condition may fail.
    pub(crate) fn key_source(
        &self,
        column: &str,
        side: JoinSide,
        left: Option<&SchemaRef>,
    ) -> Option<String> {
        self.condition.as_deref().is_none_or(compares_alone).then_some(())?;
        let mut keys = self.on.iter().map(|key| match key {
            On::Name(name) => (name, name),
            On::Pair(pair) => (&pair.left, &pair.right),
        });
        if let Some((left, right)) = keys.find(|(left, _)| *left == column) {
            return Some(if side == JoinSide::Left { left } else { right }.clone());
        }
        let is_of_left = |name: &str| left.map(|left| left.index_of(name).is_ok());
        match side {
            // Names of the left come first, and a source has them only if the left has them.
            JoinSide::Left => Some(column.into()),
            JoinSide::Right if matches!(self.how, How::Semi | How::Anti) => None,
            JoinSide::Right if !is_of_left(column)? => match column.strip_suffix(&self.suffix) {
                Some(name) if is_of_left(name)? => Some(name.into()),
                _ => Some(column.into()),
            },
            JoinSide::Right => None,
        }
    }

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
            needed: None,
        }
    }
}
