//! The plan of a join, made from its configuration and the schemas of both sides.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use euphrates_flow::error::unknown_column;
use euphrates_flow::module::ColumnNames;
use euphrates_flow::{Error, Result};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::expression::Expression;
use crate::partitioning::hashing::can_hash;

/// Which rows come out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// Pairs of rows that match.
    #[default]
    Inner,
    /// And the rows of the left that match none.
    Left,
    /// And the rows of the right that match none.
    Right,
    /// And the rows of either side that match none.
    Full,
    /// The rows of the left that match some.
    Semi,
    /// The rows of the left that match none.
    Anti,
}

/// A side of the join; its value is the number of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinSide {
    Left,
    Right,
}

/// A key: a column that both sides have, or one of each.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum On {
    /// A column of this name on both sides.
    Name(String),
    /// Columns of different names.
    Pair(Pair),
}

/// A column of each side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct Pair {
    /// The name of the key in the left input.
    pub(crate) left: String,
    /// The name of the key in the right input.
    pub(crate) right: String,
}

/// Implemented by hand, so that errors name the wrong field.
impl<'de> Deserialize<'de> for On {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<On, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(name) => Ok(On::Name(name)),
            other => Pair::deserialize(other).map(On::Pair).map_err(D::Error::custom),
        }
    }
}

/// What the configuration asks for.
pub(crate) struct JoinSpec<'a> {
    pub(crate) on: &'a [On],
    /// The kind of the join.
    pub(crate) how: How,
    /// The side whose rows are held in the hash table.
    pub(crate) build: JoinSide,
    /// A further condition on pairs.
    pub(crate) condition: Option<&'a str>,
    /// Suffix for names of right columns that the left side has too.
    pub(crate) suffix: &'a str,
    /// The columns of the output that are read; `None` for all.
    pub(crate) needed: Option<&'a ColumnNames>,
}

/// A join that is ready to run.
pub(crate) struct JoinPlan {
    /// The kind of the join.
    pub(crate) how: How,
    /// The build side; the other is the probe side.
    pub(crate) build: JoinSide,
    /// Both sides, left first.
    pub(crate) sides: [SidePlan; 2],
    /// The schema of the output.
    pub(crate) output: SchemaRef,
    /// The source of each output column.
    pub(crate) columns: Vec<OutColumn>,
    /// A further condition on pairs.
    pub(crate) condition: Option<Condition>,
}

/// The columns that the join uses of one side.
#[derive(Clone, Debug)]
pub(crate) struct SidePlan {
    /// The schema of the input.
    pub(crate) schema: SchemaRef,
    /// The key columns, and the types in which both sides are compared.
    pub(crate) keys: Vec<(usize, DataType)>,
    /// The columns needed beyond the comparison of keys.
    pub(crate) needed: Vec<usize>,
}

/// The source of an output column: the left column if it is given and there is a left row, else the
/// right one. Columns are positions among those needed.
#[derive(Clone, Debug)]
pub(crate) struct OutColumn {
    pub(crate) left: Option<usize>,
    pub(crate) right: Option<usize>,
    pub(crate) data_type: DataType,
}

/// A condition on pairs of rows.
pub(crate) struct Condition {
    /// An expression over the columns of `schema`.
    pub(crate) expression: Expression,
    pub(crate) schema: SchemaRef,
    /// The source of each column, as a position among those needed; `None` if it is not read.
    pub(crate) columns: Vec<Option<(JoinSide, usize)>>,
}

impl JoinSide {
    /// The side of an input.
    pub(crate) fn of(input: u64) -> JoinSide {
        if input == 0 { JoinSide::Left } else { JoinSide::Right }
    }

    pub(crate) fn other(self) -> JoinSide {
        match self {
            JoinSide::Left => JoinSide::Right,
            JoinSide::Right => JoinSide::Left,
        }
    }
}

impl JoinPlan {
    /// Checks everything that can be checked without reading data.
    pub(crate) fn new(spec: &JoinSpec, inputs: &[SchemaRef]) -> Result<JoinPlan> {
        let [left, right] = inputs else {
            return Err(Error::usage("a join has two inputs, `left` and `right`"));
        };
        let keys = keys(spec.on, left, right)?;
        let names = ColumnResolver { suffix: spec.suffix, left, right, keys: &keys };
        let condition = spec.condition.map(|text| names.condition(text)).transpose()?;
        let chosen = match spec.needed {
            Some(needed) => pruned(names.output(spec.how)?, needed, spec.how),
            None => names.output(spec.how)?,
        };
        let mut needed = [vec![], vec![]];
        let mut position_of = |side: JoinSide, column: usize| {
            let list: &mut Vec<usize> = &mut needed[side as usize];
            list.iter().position(|other| *other == column).unwrap_or_else(|| {
                list.push(column);
                list.len() - 1
            })
        };
        let mut columns = vec![];
        for (field, left, right) in &chosen {
            columns.push(OutColumn {
                left: left.map(|column| position_of(JoinSide::Left, column)),
                right: right.map(|column| position_of(JoinSide::Right, column)),
                data_type: field.data_type().clone(),
            });
        }
        let condition = condition.map(|(expression, schema, homes)| {
            let read = |(at, (side, column)): (usize, &(JoinSide, usize))| {
                let is_read = expression.columns().contains(&at);
                is_read.then(|| (*side, position_of(*side, *column)))
            };
            let columns = homes.iter().enumerate().map(read).collect();
            Condition { expression, schema, columns }
        });
        let [of_left, of_right] = needed;
        let side = |schema: &SchemaRef, needed, column: fn(&JoinKey) -> usize| SidePlan {
            schema: schema.clone(),
            keys: keys.iter().map(|key| (column(key), key.data_type.clone())).collect(),
            needed,
        };
        let sides = [side(left, of_left, |key| key.left), side(right, of_right, |key| key.right)];
        let output = chosen.into_iter().map(|(field, _, _)| field).collect::<Vec<_>>();
        let output = Arc::new(Schema::new(output));
        Ok(JoinPlan { how: spec.how, build: spec.build, sides, output, columns, condition })
    }

    pub(crate) fn build_side(&self) -> &SidePlan {
        &self.sides[self.build as usize]
    }

    pub(crate) fn probe_side(&self) -> &SidePlan {
        &self.sides[self.build.other() as usize]
    }

    /// Whether pairs are output, and not only rows of one side.
    pub(crate) fn makes_pairs(&self) -> bool {
        !matches!(self.how, How::Semi | How::Anti)
    }

    /// Whether rows of this side are output by match: `Some(true)` for matching rows, `Some(false)`
    /// for rows without a match.
    pub(crate) fn emits(&self, side: JoinSide) -> Option<bool> {
        self.how.emits(side)
    }
}

/// The output columns that are needed, and one of each side whose rows come out without a match:
/// rows without columns could not be counted.
fn pruned(chosen: Vec<Chosen>, needed: &ColumnNames, how: How) -> Vec<Chosen> {
    let fields: Vec<FieldRef> = chosen.iter().map(|(field, _, _)| field.clone()).collect();
    let Some(mut read) = needed.columns_of(&Schema::new(fields)) else { return chosen };
    for side in [JoinSide::Left, JoinSide::Right] {
        let is_of_side = |at: &usize| match side {
            JoinSide::Left => chosen[*at].1.is_some(),
            JoinSide::Right => chosen[*at].2.is_some(),
        };
        if how.emits(side) == Some(false) && !read.iter().any(is_of_side) {
            read.extend((0..chosen.len()).find(is_of_side));
        }
    }
    read.sort_unstable();
    read.into_iter().map(|at| chosen[at].clone()).collect()
}

impl How {
    /// See [`JoinPlan::emits`].
    pub(crate) fn emits(self, side: JoinSide) -> Option<bool> {
        match (self, side) {
            (How::Left | How::Full | How::Anti, JoinSide::Left) => Some(false),
            (How::Right | How::Full, JoinSide::Right) => Some(false),
            (How::Semi, JoinSide::Left) => Some(true),
            _ => None,
        }
    }
}

/// A key as positions of its columns in both inputs.
struct JoinKey {
    left: usize,
    right: usize,
    /// The type in which both columns are compared.
    data_type: DataType,
}

fn keys(on: &[On], left: &Schema, right: &Schema) -> Result<Vec<JoinKey>> {
    let find = |schema: &Schema, side: &str, name: &str| {
        schema.index_of(name).map_err(|_| unknown_column(name, schema).at(side))
    };
    let resolve = |on: &On| {
        let (of_left, of_right) = match on {
            On::Name(name) => (name, name),
            On::Pair(pair) => (&pair.left, &pair.right),
        };
        let (at_left, at_right) = (find(left, "left", of_left)?, find(right, "right", of_right)?);
        let types = (left.field(at_left).data_type(), right.field(at_right).data_type());
        let data_type = common(types.0, types.1).ok_or_else(|| {
            let error = Error::usage(format!(
                "`{of_left}` of the left is {}, and `{of_right}` of the right {}",
                types.0, types.1
            ));
            match can_hash(types.0) && can_hash(types.1) {
                true => error.remedy("cast one of them with a `project` before the join"),
                false => error.remedy("join by columns of simple types: take parts of these"),
            }
        })?;
        Ok(JoinKey { left: at_left, right: at_right, data_type })
    };
    on.iter().map(resolve).map(|key| key.map_err(|error: Error| error.at("on"))).collect()
}

/// The type in which keys are compared: it holds the values of both.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::*;
    if !can_hash(left) || !can_hash(right) {
        return None;
    }
    match (left, right) {
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => common(values, other),
        (left, right) if left == right => Some(left.clone()),
        (left, right) if left.is_integer() && right.is_integer() => {
            Some(match (left.is_signed_integer(), right.is_signed_integer()) {
                (true, true) | (false, false) => wider(left, right),
                // Neither type holds the values of the other.
                _ if left == &UInt64 || right == &UInt64 => Decimal128(20, 0),
                _ => Int64,
            })
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(LargeUtf8),
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => Some(LargeBinary),
        (Decimal128(digits, scale), Decimal128(others, same)) if scale == same => {
            Some(Decimal128(*digits.max(others), *scale))
        }
        _ => None,
    }
}

fn wider(left: &DataType, right: &DataType) -> DataType {
    match left.primitive_width() < right.primitive_width() {
        true => right.clone(),
        false => left.clone(),
    }
}

/// An output column, and its source columns on both sides.
type Chosen = (FieldRef, Option<usize>, Option<usize>);

/// The source of a column of pairs.
type PairColumn = (JoinSide, usize);

/// Resolves the names of columns.
struct ColumnResolver<'a> {
    suffix: &'a str,
    left: &'a SchemaRef,
    right: &'a SchemaRef,
    keys: &'a [JoinKey],
}

impl ColumnResolver<'_> {
    /// The output columns: those of the left, then those of the right without its keys.
    fn output(&self, how: How) -> Result<Vec<Chosen>> {
        let mut chosen: Vec<Chosen> = vec![];
        for (at, field) in self.left.fields().iter().enumerate() {
            let key = self.keys.iter().find(|key| key.left == at);
            let nullable = field.is_nullable();
            let absent = matches!(how, How::Right | How::Full);
            chosen.push(match (key, how) {
                (Some(key), How::Right | How::Full) => {
                    let other = self.right.field(key.right);
                    let data_type = match field.data_type() == other.data_type() {
                        true => field.data_type().clone(),
                        false => key.data_type.clone(),
                    };
                    let nullable = other.is_nullable() || (nullable && how == How::Full);
                    let whole = field.as_ref().clone().with_data_type(data_type);
                    let left = (how == How::Full).then_some(at);
                    (Arc::new(whole.with_nullable(nullable)), left, Some(key.right))
                }
                _ => {
                    let field = field.as_ref().clone().with_nullable(nullable || absent);
                    (Arc::new(field), Some(at), None)
                }
            });
        }
        if matches!(how, How::Semi | How::Anti) {
            return Ok(chosen);
        }
        let absent = matches!(how, How::Left | How::Full);
        let left = names_of(self.left);
        let mut names: HashSet<String> =
            chosen.iter().map(|(field, _, _)| field.name().clone()).collect();
        for (at, field) in self.right.fields().iter().enumerate() {
            if self.keys.iter().any(|key| key.right == at) {
                continue;
            }
            let name = self.of_right(field, &left);
            if !names.insert(name.clone()) {
                let error = Error::usage(format!("two columns would be named `{name}`"));
                return Err(error.remedy("give another `suffix`, or rename one before the join"));
            }
            let field = field.as_ref().clone().with_name(name);
            let nullable = field.is_nullable() || absent;
            chosen.push((Arc::new(field.with_nullable(nullable)), None, Some(at)));
        }
        Ok(chosen)
    }

    fn of_right(&self, field: &Field, left: &HashSet<&str>) -> String {
        match left.contains(field.name().as_str()) {
            true => format!("{}{}", field.name(), self.suffix),
            false => field.name().clone(),
        }
    }

    /// A condition over all columns of both sides, including the right keys.
    fn condition(&self, text: &str) -> Result<(Expression, SchemaRef, Vec<PairColumn>)> {
        let mut fields: Vec<FieldRef> = self.left.fields().iter().cloned().collect();
        let mut homes: Vec<PairColumn> = (0..fields.len()).map(|at| (JoinSide::Left, at)).collect();
        let left = names_of(self.left);
        let mut names: HashSet<String> = left.iter().map(|name| name.to_string()).collect();
        for (at, field) in self.right.fields().iter().enumerate() {
            let name = self.of_right(field, &left);
            if names.insert(name.clone()) {
                fields.push(Arc::new(field.as_ref().clone().with_name(name)));
                homes.push((JoinSide::Right, at));
            }
        }
        // Columns that the condition does not read are null.
        let fields = fields.iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let expression = Expression::parse_condition(text, &schema);
        Ok((expression.map_err(|error| error.at("where"))?, schema, homes))
    }
}

/// A set of names: looking up each name in a schema takes minutes for a hundred thousand columns.
fn names_of(schema: &Schema) -> HashSet<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}
