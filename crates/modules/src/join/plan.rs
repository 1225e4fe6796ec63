//! What a join is to do, worked out from its configuration and the schemas of both sides.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::expression::Expression;
use crate::hashing::can_hash;

/// Which rows come out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
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

/// A side of the join, which is also the number of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Input `left`.
    Left,
    /// Input `right`.
    Right,
}

/// A key: a column that both sides have, or one of each.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum On {
    /// A column of this name on both sides.
    Name(String),
    /// Columns of different names.
    Pair(Pair),
}

/// A column of each side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Pair {
    /// Of the left.
    pub left: String,
    /// Of the right.
    pub right: String,
}

/// By hand, so that a wrong field is named.
impl<'de> Deserialize<'de> for On {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<On, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(name) => Ok(On::Name(name)),
            other => Pair::deserialize(other).map(On::Pair).map_err(D::Error::custom),
        }
    }
}

/// What is asked for.
pub struct Wish<'a> {
    /// The keys.
    pub on: &'a [On],
    /// Which rows come out.
    pub how: How,
    /// The side that is held.
    pub build: Side,
    /// What else must be true of a pair.
    pub condition: Option<&'a str>,
    /// Behind names of the right that the left has too.
    pub suffix: &'a str,
}

/// A join, ready to run.
pub struct Plan {
    /// Which rows come out.
    pub how: How,
    /// The side that is held; the other one streams by.
    pub build: Side,
    /// What is to be known of each side, left first.
    pub sides: [SidePlan; 2],
    /// The columns that come out.
    pub output: SchemaRef,
    /// Where each of them comes from.
    pub columns: Vec<OutColumn>,
    /// What else must be true of a pair.
    pub condition: Option<Condition>,
}

/// One side.
#[derive(Clone, Debug)]
pub struct SidePlan {
    /// What comes in.
    pub schema: SchemaRef,
    /// The key columns, and the types in which both sides' are compared.
    pub keys: Vec<(usize, DataType)>,
    /// The columns that are needed beyond the comparison of keys.
    pub needed: Vec<usize>,
}

/// Where a column of the output comes from: the left's where there is a row of the left, if it is
/// given, else the right's. Columns are positions among those needed.
#[derive(Clone, Debug)]
pub struct OutColumn {
    /// Column of the left.
    pub left: Option<usize>,
    /// Column of the right.
    pub right: Option<usize>,
    /// Its type.
    pub data_type: DataType,
}

/// A condition over pairs.
pub struct Condition {
    /// Over the columns below.
    pub expression: Expression,
    /// Its columns.
    pub schema: SchemaRef,
    /// Where they come from: positions among the columns needed, `None` of those it does not read.
    pub columns: Vec<Option<(Side, usize)>>,
}

impl Side {
    /// That of an input.
    pub fn of(input: u64) -> Side {
        if input == 0 { Side::Left } else { Side::Right }
    }

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl Plan {
    /// Checks everything that can be checked without reading data.
    pub fn new(wish: &Wish, inputs: &[SchemaRef]) -> Result<Plan> {
        let [left, right] = inputs else {
            return Err(Error::usage("a join has two inputs, `left` and `right`"));
        };
        let keys = keys(wish.on, left, right)?;
        let names = Names { suffix: wish.suffix, left, right, keys: &keys };
        let condition = wish.condition.map(|text| names.condition(text)).transpose()?;
        let chosen = names.output(wish.how)?;
        let mut needed = [vec![], vec![]];
        let mut place = |side: Side, column: usize| {
            let list: &mut Vec<usize> = &mut needed[side as usize];
            list.iter().position(|other| *other == column).unwrap_or_else(|| {
                list.push(column);
                list.len() - 1
            })
        };
        let mut columns = vec![];
        for (field, left, right) in &chosen {
            columns.push(OutColumn {
                left: left.map(|column| place(Side::Left, column)),
                right: right.map(|column| place(Side::Right, column)),
                data_type: field.data_type().clone(),
            });
        }
        let condition = condition.map(|(expression, schema, homes)| {
            let read = |(at, (side, column)): (usize, &(Side, usize))| {
                let is_read = expression.columns().contains(&at);
                is_read.then(|| (*side, place(*side, *column)))
            };
            let columns = homes.iter().enumerate().map(read).collect();
            Condition { expression, schema, columns }
        });
        let [of_left, of_right] = needed;
        let side = |schema: &SchemaRef, needed, column: fn(&Key) -> usize| SidePlan {
            schema: schema.clone(),
            keys: keys.iter().map(|key| (column(key), key.data_type.clone())).collect(),
            needed,
        };
        let sides = [side(left, of_left, |key| key.left), side(right, of_right, |key| key.right)];
        let output = chosen.into_iter().map(|(field, _, _)| field).collect::<Vec<_>>();
        let output = Arc::new(Schema::new(output));
        Ok(Plan { how: wish.how, build: wish.build, sides, output, columns, condition })
    }

    /// The side that is held.
    pub fn build_side(&self) -> &SidePlan {
        &self.sides[self.build as usize]
    }

    /// The side that streams by.
    pub fn probe_side(&self) -> &SidePlan {
        &self.sides[self.build.other() as usize]
    }

    /// Whether pairs come out, and not only rows of one side.
    pub fn makes_pairs(&self) -> bool {
        !matches!(self.how, How::Semi | How::Anti)
    }

    /// Whether rows of this side come out by whether they match: `Some(true)` those that do,
    /// `Some(false)` those that do not.
    pub fn keeps(&self, side: Side) -> Option<bool> {
        match (self.how, side) {
            (How::Left | How::Full | How::Anti, Side::Left) => Some(false),
            (How::Right | How::Full, Side::Right) => Some(false),
            (How::Semi, Side::Left) => Some(true),
            _ => None,
        }
    }
}

/// A key, resolved.
struct Key {
    left: usize,
    right: usize,
    /// In which both are compared.
    data_type: DataType,
}

fn keys(on: &[On], left: &Schema, right: &Schema) -> Result<Vec<Key>> {
    let find = |schema: &Schema, side: &str, name: &str| {
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        schema.index_of(name).map_err(|_| unknown("column", name, names()).at(side))
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
        Ok(Key { left: at_left, right: at_right, data_type })
    };
    on.iter().map(resolve).map(|key| key.map_err(|error: Error| error.at("on"))).collect()
}

/// The type in which keys of these types are compared: that which holds the values of both.
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
                // Only one of them holds the other's values.
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

/// A column of the output, and the columns of both sides it comes from.
type Chosen = (FieldRef, Option<usize>, Option<usize>);

/// Where a column of pairs comes from.
type Home = (Side, usize);

/// What columns are called.
struct Names<'a> {
    suffix: &'a str,
    left: &'a SchemaRef,
    right: &'a SchemaRef,
    keys: &'a [Key],
}

impl Names<'_> {
    /// The columns that come out: those of the left, then those of the right but its keys.
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

    /// A condition over all columns of both sides, also the keys of the right.
    fn condition(&self, text: &str) -> Result<(Expression, SchemaRef, Vec<Home>)> {
        let mut fields: Vec<FieldRef> = self.left.fields().iter().cloned().collect();
        let mut homes: Vec<Home> = (0..fields.len()).map(|at| (Side::Left, at)).collect();
        let left = names_of(self.left);
        let mut names: HashSet<String> = left.iter().map(|name| name.to_string()).collect();
        for (at, field) in self.right.fields().iter().enumerate() {
            let name = self.of_right(field, &left);
            if names.insert(name.clone()) {
                fields.push(Arc::new(field.as_ref().clone().with_name(name)));
                homes.push((Side::Right, at));
            }
        }
        // Columns that it does not read are left out, as nulls.
        let fields = fields.iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let expression = Expression::parse_condition(text, &schema);
        Ok((expression.map_err(|error| error.at("where"))?, schema, homes))
    }
}

/// Looking each name up in a schema takes minutes where there are a hundred thousand.
fn names_of(schema: &Schema) -> HashSet<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}
