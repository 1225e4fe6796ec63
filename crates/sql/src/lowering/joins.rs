//! Joins: their keys become columns, and the columns of both sides get different names.

use std::collections::HashSet;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Column, DFSchema, JoinType, NullEquality, ScalarValue};
use datafusion_expr::logical_plan::{Join, JoinConstraint};
use datafusion_expr::{Case, Cast, Expr, ExprSchemable, LogicalPlan, lit};
use datafusion_functions::core::arrow_try_cast;
use euphrates_flow::{Error, Result};
use serde_json::{Value, json};

use super::aggregates::{comparable as as_bytes, is_nested};
use super::sets::common_type;
use super::{Lowering, PlannedRows, Reuse};
use crate::cardinality::Cardinality;
use crate::errors::failed;
use crate::expressions::{named, quoted, text_of};
use crate::statement::unsupported;

impl Lowering<'_> {
    pub(super) fn join(&mut self, join: &Join) -> Result<PlannedRows> {
        match join.join_type {
            JoinType::Inner => self.equal(join, "inner"),
            JoinType::Left => self.equal(join, "left"),
            JoinType::Right => self.equal(join, "right"),
            JoinType::Full => self.equal(join, "full"),
            JoinType::LeftSemi => self.equal(join, "semi"),
            JoinType::LeftAnti if join.null_aware => self.not_in(join),
            JoinType::LeftAnti => self.equal(join, "anti"),
            JoinType::LeftMark => self.marked(join),
            other => Err(unsupported(&format!("a {other} join"))),
        }
    }

    fn equal(&mut self, join: &Join, how: &str) -> Result<PlannedRows> {
        let (left, right) = (self.stream(&join.left)?, self.stream(&join.right)?);
        self.joined(join, left, right, how)
    }

    /// The join of two streams by the keys of `join`, under its condition.
    fn joined(
        &mut self,
        join: &Join,
        left: PlannedRows,
        right: PlannedRows,
        how: &str,
    ) -> Result<PlannedRows> {
        let keys = in_one_type(key_pairs(join)?, join)?;
        let of_left: Vec<Expr> = keys.iter().map(|(left, _)| left.clone()).collect();
        let of_right: Vec<Expr> = keys.iter().map(|(_, right)| right.clone()).collect();
        // Keys come once, with the value of either side. A key that has its own value in rows
        // without a match is copied, unless `using` asks for that of either side.
        let is_merged = join.join_constraint == JoinConstraint::Using;
        let reused = |is_copied| if is_copied { Reuse::Never } else { Reuse::Once };
        let is_copied = matches!(how, "right" | "full") && !is_merged;
        let (left, left_keys) = self.with_columns(left, &of_left, "key", reused(is_copied))?;
        let is_copied = matches!(how, "left" | "full");
        let (right, right_keys) = self.with_columns(right, &of_right, "key", reused(is_copied))?;
        let suffix = suffix(&left, &right, &right_keys);
        // The name of a column of the right in the output.
        let renamed = |name: &String| match right_keys.iter().position(|key| key == name) {
            Some(at) => left_keys[at].clone(),
            None if left.columns.contains(name) => format!("{name}{suffix}"),
            None => name.clone(),
        };
        let mut names = left.names.clone();
        let of_right = right.names.iter().map(|(column, name)| (column.clone(), renamed(name)));
        names.extend(of_right);
        let mut columns = left.columns.clone();
        let others = right.columns.iter().filter(|name| !right_keys.contains(name));
        columns.extend(others.map(renamed));
        self.taken.extend(columns.iter().map(|name| name.to_lowercase()));
        let on = left_keys.iter().zip(&right_keys).map(|(left, right)| match left == right {
            true => Value::from(left.as_str()),
            false => json!({"left": left, "right": right}),
        });
        let mut config = json!({"on": on.collect::<Vec<_>>()});
        if how != "inner" {
            config["how"] = how.into();
        }
        if suffix != "_right" {
            config["suffix"] = suffix.into();
        }
        if let Some(side) = self.build_side(join) {
            config["build"] = side.into();
        }
        if let Some(filter) = &join.filter {
            config["where"] = text_of(filter, &names)?.into();
        }
        let id = self.document.place("join", config, None);
        self.attach(&left.id, &id, Some("left"));
        self.attach(&right.id, &id, Some("right"));
        Ok(match how {
            "semi" | "anti" => PlannedRows { id, ..left },
            _ => PlannedRows { id, columns, names },
        })
    }

    /// The side with fewer rows, if the planner knows more than the sizes of files.
    fn build_side(&self, join: &Join) -> Option<&'static str> {
        if is_whole(&join.left) && is_whole(&join.right) {
            return None;
        }
        let estimates = Cardinality::new(self.tables);
        let (left, right) = (estimates.rows(&join.left), estimates.rows(&join.right));
        Some(if left < right { "left" } else { "right" })
    }

    /// `not in`: no row, if the right has a null; and no row of a null, unless the right is empty.
    fn not_in(&mut self, join: &Join) -> Result<PlannedRows> {
        let [(key, other)] = &join.on[..] else {
            return Err(unsupported("not in of several columns"));
        };
        let left = self.stream(&join.left)?;
        let [right, counted] = self.twice(&join.right)?;
        let stream = self.joined(join, left, right, "anti")?;
        let right = counted;
        let (all, some) = (self.fresh("rows"), self.fresh("values"));
        let counted = format!("count({})", text_of(other, &right.names)?);
        let mut values = serde_json::Map::new();
        values.insert(all.clone(), "count()".into());
        values.insert(some.clone(), counted.into());
        let by: [&str; 0] = [];
        let counts = self.behind(&right.id, "aggregate", json!({"by": by, "values": values}));
        let mut stream = stream;
        let counts = self.beside(&mut stream, &counts, &[all, some])?;
        let (all, some) = (&counts[0], &counts[1]);
        let key = text_of(key, &stream.names)?;
        let condition = format!("{all} = 0 or ({all} = {some} and {key} is not null)");
        let id = self.behind(&stream.id, "filter", json!({"where": condition}));
        Ok(PlannedRows { id, ..stream })
    }

    /// The rows of the left with a column that says whether the right has a match.
    fn marked(&mut self, join: &Join) -> Result<PlannedRows> {
        if join.filter.is_none() {
            return self.marked_by_keys(join);
        }
        let [left, anti_left] = self.twice(&join.left)?;
        let [right, anti_right] = self.twice(&join.right)?;
        let mark = self.fresh("mark");
        let union = self.document.place("union", json!({}), None);
        let mut names = vec![];
        let semi = ("semi", "true", left, right);
        for (how, value, left, right) in [semi, ("anti", "false", anti_left, anti_right)] {
            let stream = self.joined(join, left, right, how)?;
            // The names of both are those of the first, which has other marks.
            if names.is_empty() {
                names.clone_from(&stream.names);
            }
            let mut seen = HashSet::new();
            let pairs = stream.names.iter().zip(&names);
            let columns = pairs.filter(|(_, (_, name))| seen.insert(name.clone()));
            let columns = columns.map(|((_, own), (_, name))| named(&quoted(own), name));
            let columns = columns.chain([format!("{value} as {mark}")]).collect::<Vec<_>>();
            let id = self.behind(&stream.id, "project", json!({"columns": columns}));
            self.attach(&id, &union, None);
        }
        names.push((mark_of(join), mark));
        let mut columns: Vec<String> = vec![];
        for (_, name) in &names {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        Ok(PlannedRows { id: union, columns, names })
    }

    /// The mark is a column of the distinct keys of the right.
    fn marked_by_keys(&mut self, join: &Join) -> Result<PlannedRows> {
        let keys = in_one_type(key_pairs(join)?, join)?;
        let (of_left, of_right): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
        let (left, right) = (self.stream(&join.left)?, self.stream(&join.right)?);
        let (left, left_keys) = self.with_columns(left, &of_left, "key", Reuse::Always)?;
        let (right, right_keys) = self.with_columns(right, &of_right, "key", Reuse::Always)?;
        let mut seen = HashSet::new();
        let by: Vec<&String> = right_keys.iter().filter(|key| seen.insert(*key)).collect();
        let config = json!({"by": by, "values": {}});
        let found = self.behind(&right.id, "aggregate", config);
        let (is_found, mark) = (self.fresh("found"), self.fresh("mark"));
        let keys: Vec<String> = right_keys.iter().map(|_| self.fresh("key")).collect();
        let texts = right_keys.iter().zip(&keys).map(|(old, new)| named(&quoted(old), new));
        let texts = texts.chain([format!("true as {is_found}")]).collect::<Vec<_>>();
        let found = self.behind(&found, "project", json!({"columns": texts}));
        let on = left_keys.iter().zip(&keys);
        let on = on.map(|(left, right)| json!({"left": left, "right": right}));
        let config = json!({"on": on.collect::<Vec<_>>(), "how": "left", "build": "right"});
        let id = self.document.place("join", config, None);
        self.attach(&left.id, &id, Some("left"));
        self.attach(&found, &id, Some("right"));
        let texts = left.columns.iter().map(|name| quoted(name));
        let texts = texts.chain([format!("{is_found} is not null as {mark}")]).collect::<Vec<_>>();
        let id = self.behind(&id, "project", json!({"columns": texts}));
        let (mut names, mut columns) = (left.names, left.columns);
        columns.push(mark.clone());
        names.push((mark_of(join), mark));
        Ok(PlannedRows { id, columns, names })
    }
}

/// The column that marks the rows of a join.
fn mark_of(join: &Join) -> Column {
    join.schema.columns().pop().unwrap_or_else(|| Column::from_name("mark"))
}

/// The keys of both sides. Where nulls are equal, two keys are compared instead of one: whether it
/// is null, and a value that is not. Without keys, all rows have the same one.
fn key_pairs(join: &Join) -> Result<Vec<(Expr, Expr)>> {
    if join.on.is_empty() {
        return Ok(vec![(lit(1_i64), lit(1_i64))]);
    }
    let on = join.on.iter().map(|(left, right)| nested_as_bytes(join, left, right));
    let on = on.collect::<Result<Vec<_>>>()?;
    if join.null_equality == NullEquality::NullEqualsNothing {
        return on.iter().map(|(left, right)| comparable(join, left, right)).collect();
    }
    let mut pairs = vec![];
    for (left, right) in &on {
        let types = [
            left.get_type(join.left.schema()).map_err(failed)?,
            right.get_type(join.right.schema()).map_err(failed)?,
        ];
        let data_type = common_type(&types)?;
        let (left, right) = &match types[0] == types[1] {
            true => (left.clone(), right.clone()),
            false => (cast(left, &data_type), cast(right, &data_type)),
        };
        pairs.push((null(left), null(right)));
        // Nulls alone have no values.
        if data_type.is_null() {
            continue;
        }
        let value = |side: &Expr| -> Result<Expr> {
            let zero = ScalarValue::new_default(&data_type).map_err(failed)?;
            let otherwise = Expr::Literal(zero, None);
            let is_null = vec![(Box::new(null(side)), Box::new(otherwise))];
            Ok(Expr::Case(Case::new(None, is_null, Some(Box::new(side.clone())))))
        };
        pairs.push((value(left)?, value(right)?));
    }
    Ok(pairs)
}

/// The keys, or bytes that are equal where lists or structs are.
fn nested_as_bytes(join: &Join, left: &Expr, right: &Expr) -> Result<(Expr, Expr)> {
    let (of_left, of_right) = (join.left.schema(), join.right.schema());
    let types =
        [left.get_type(of_left).map_err(failed)?, right.get_type(of_right).map_err(failed)?];
    if types.iter().any(|of| matches!(of, DataType::Map(..))) {
        return Err(
            Error::usage("maps are not compared").remedy("compare their entries: `map_entries(m)`")
        );
    }
    if !is_nested(left, of_left) || !is_nested(right, of_right) {
        // A column of nulls has no type of its own.
        return Ok(match (types[0].is_null(), types[1].is_null()) {
            (true, false) => (cast(left, &types[1]), right.clone()),
            (false, true) => (left.clone(), cast(right, &types[0])),
            _ => (left.clone(), right.clone()),
        });
    }
    let common = common_type(&types)?;
    let bytes = |side: &Expr, own: &DataType, schema| {
        let side = if *own == common { side.clone() } else { cast(side, &common) };
        as_bytes(&side, schema)
    };
    Ok((bytes(left, &types[0], of_left), bytes(right, &types[1], of_right)))
}

fn null(side: &Expr) -> Expr {
    side.clone().is_null()
}

fn cast(side: &Expr, to: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(side.clone()), to.clone()))
}

/// Keys in one type, where a join would not compare them: integers with numbers of other kinds, and
/// floating point numbers of two widths.
fn comparable(join: &Join, left: &Expr, right: &Expr) -> Result<(Expr, Expr)> {
    let types = [
        left.get_type(join.left.schema()).map_err(failed)?,
        right.get_type(join.right.schema()).map_err(failed)?,
    ];
    let kind = |one: &DataType| (one.is_integer(), one.is_floating(), one.is_decimal());
    let is_number = types.iter().all(DataType::is_numeric);
    let is_one_width = !types[0].is_floating() || types[0] == types[1];
    if !is_number || kind(&types[0]) == kind(&types[1]) && is_one_width {
        return Ok((left.clone(), right.clone()));
    }
    let common = common_type(&types)?;
    Ok((cast(left, &common), cast(right, &common)))
}

/// What stands behind names of the right that the left has too, so that all differ.
fn suffix(left: &PlannedRows, right: &PlannedRows, right_keys: &[String]) -> String {
    let (taken, names) = (&left.columns, &right.columns);
    let is_free = |suffix: &String| {
        let others = names.iter().filter(|name| !right_keys.contains(name));
        let mut renamed = others.filter(|name| taken.contains(name));
        renamed.all(|name| {
            let name = format!("{name}{suffix}");
            !taken.contains(&name) && !names.contains(&name)
        })
    };
    let numbered = (2..).map(|number| format!("_{number}"));
    let mut suffixes = ["_right".to_string()].into_iter().chain(numbered);
    suffixes.find(is_free).expect("numbers do not end")
}

/// Whether a plan is a table as it is.
fn is_whole(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_whole(&alias.input),
        LogicalPlan::TableScan(scan) => scan.filters.is_empty(),
        _ => false,
    }
}

/// The keys, of which a date beside a timestamp is one, too: at its midnight.
fn in_one_type(keys: Vec<(Expr, Expr)>, join: &Join) -> Result<Vec<(Expr, Expr)>> {
    let keys = keys.into_iter().map(|(left, right)| {
        let of_left = key_type(&left, join.left.schema())?;
        let of_right = key_type(&right, join.right.schema())?;
        Ok(match common_key(&of_left, &of_right).or_else(|| common_key(&of_right, &of_left)) {
            Some(common) => {
                (cast_key(left, &of_left, &common), cast_key(right, &of_right, &common))
            }
            None => (left, right),
        })
    });
    keys.collect()
}

/// The type of a key. The planner takes the nanoseconds that it knows for the microseconds that the
/// modules compute: a distant instant, which 9999-12-31 is, would not fit the former.
fn key_type(key: &Expr, schema: &DFSchema) -> Result<DataType> {
    let planned = key.get_type(schema).map_err(failed)?;
    Ok(match (key, planned) {
        (Expr::Column(_), planned) => planned,
        (_, DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone)
        }
        (_, planned) => planned,
    })
}

/// The type in which keys of two types are compared; `None` if the join compares them as they are,
/// or not at all.
fn common_key(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Float32, Float64, Time32, Time64, Timestamp};
    match (one, other) {
        // The planner knows one type of these, whatever their units are.
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => Some(Time64(TimeUnit::Nanosecond)),
        (one, other) if one == other => None,
        (Timestamp(a, None), Timestamp(b, None)) => Some(Timestamp((*a).max(*b), None)),
        (Timestamp(a, Some(zone)), Timestamp(b, _)) => {
            Some(Timestamp((*a).max(*b), Some(zone.clone())))
        }
        (Date32 | Date64, Timestamp(..)) => Some(other.clone()),
        (Date32, Date64) => Some(Timestamp(TimeUnit::Millisecond, None)),
        (Float32, Float64) => Some(Float64),
        (one, Float32 | Float64) if one.is_decimal() => Some(Float64),
        (one, other) if one.is_decimal() => {
            let ((digits, scale), (more, places)) = (decimal_size(one)?, decimal_size(other)?);
            let scale_of_both = scale.max(places);
            let wholes = [(digits, scale), (more, places)];
            let whole = wholes.map(|(digits, scale)| i16::from(digits) - i16::from(scale));
            let whole = whole[0].max(whole[1]);
            let digits = u8::try_from(whole + i16::from(scale_of_both)).ok()?;
            match digits {
                0..=38 => Some(DataType::Decimal128(digits, scale_of_both)),
                39..=76 => Some(DataType::Decimal256(digits, scale_of_both)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Digits and places of the numbers of a type.
fn decimal_size(of: &DataType) -> Option<(u8, i8)> {
    Some(match of {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => (*digits, *scale),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// The key in another type; null, which matches nothing, where that does not hold the value. Of
/// times of day and computed instants, the planner does not know the unit.
fn cast_key(key: Expr, own: &DataType, to: &DataType) -> Expr {
    let is_known = match own {
        DataType::Time32(_) | DataType::Time64(_) => false,
        DataType::Timestamp(..) => matches!(key, Expr::Column(_)),
        _ => true,
    };
    match own == to && is_known {
        true => key,
        false => arrow_try_cast().call(vec![key, lit(to.to_string())]),
    }
}
