//! `group by` and aggregates.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, AggregateFunctionParams, NullTreatment, Sort};
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use euphrates_flow::{Error, Result};
use serde_json::{Map, json};

use super::{Lowering, PlannedRows, Reuse};
use crate::errors::failed;
use crate::expressions::{Names, text_of};
use crate::functions::aggregates::{MODE_BY_KEYS, is_clock, is_computed, is_instant, names};
use crate::functions::scalars::function;
use crate::statement::unsupported;

impl Lowering<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> Result<PlannedRows> {
        let columns = aggregate.schema.columns();
        let stream = self.stream(&aggregate.input)?;
        // Keys that are written twice come once.
        let keys = grouping_set_to_exprlist(&aggregate.group_expr).map_err(failed)?;
        let keys: Vec<Expr> = keys.into_iter().cloned().collect();
        let calls = &aggregate.aggr_expr;
        let (stream, keys) = self.with_scalars(stream, &keys)?;
        let schema = aggregate.input.schema();
        // Rows are grouped by bytes of nested values, of which each group keeps the first.
        let by_keys: Vec<Expr> = keys.iter().map(|key| comparable(key, schema)).collect();
        let (stream, of_keys) = self.with_columns(stream, &by_keys, "key", Reuse::Always)?;
        let mut names: Names = columns.iter().cloned().zip(of_keys.iter().cloned()).collect();
        // A column may be a key twice.
        let mut by: Vec<String> = vec![];
        for name in of_keys {
            if !by.contains(&name) {
                by.push(name);
            }
        }
        let mut values = Map::new();
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| is_nested(key, schema)) {
            let name = self.fresh("key");
            values.insert(name.clone(), format!("first({})", text_of(key, &stream.names)?).into());
            names[at].1 = name;
        }
        for (call, column) in calls.iter().zip(&columns[keys.len()..]) {
            let is_free = |name: &&String| {
                !by.contains(*name) && !values.contains_key(*name) && !name.contains('"')
            };
            let name = match self.wanted.get(column).filter(is_free).cloned() {
                Some(name) => name,
                None => self.fresh(&stem_of(call)),
            };
            values.insert(name.clone(), text(call, calls, &stream, schema)?.into());
            names.push((column.clone(), name));
        }
        let all = by.iter().cloned().chain(values.keys().cloned()).collect();
        let id = self.behind(&stream.id, "aggregate", json!({"by": by, "values": values}));
        Ok(PlannedRows { id, columns: all, names })
    }
}

/// The text of a call, as `aggregate` takes it; `calls` are all that it computes.
fn text(call: &Expr, calls: &[Expr], stream: &PlannedRows, schema: &DFSchema) -> Result<String> {
    let call = match call {
        Expr::Alias(alias) => return text(&alias.expr, calls, stream, schema),
        Expr::AggregateFunction(call) => call,
        other => return Err(Error::failed(format!("`{other}` is not an aggregate"))),
    };
    let name = match call.func.name() {
        MODE_BY_KEYS => "mode",
        name => name,
    };
    if !is_computed(name) {
        let error = unsupported(name);
        return Err(error.remedy(format!("aggregates: {}", names().collect::<Vec<_>>().join(", "))));
    }
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = &call.params;
    let nested = args.first().filter(|arg| is_nested(arg, schema));
    let (name, args) = match (name, nested) {
        ("count", Some(of)) if *distinct => (name, &vec![comparable(of, schema)]),
        ("min" | "max", Some(of)) if args.len() == 1 => (
            if name == "min" { "arg_min" } else { "arg_max" },
            &vec![of.clone(), comparable(of, schema)],
        ),
        ("arg_min" | "argmin" | "min_by" | "arg_max" | "argmax" | "max_by", _)
            if args.len() > 1 && is_nested(&args[1], schema) =>
        {
            let key = comparable(&args[1], schema);
            (name, &[&args[..1], &[key], &args[2..]].concat())
        }
        ("sum", _) if args.iter().any(|of| is_truth_value(of, schema)) => {
            (name, &vec![as_number(&args[0])])
        }
        _ => (name, args),
    };
    // `mode(value order by key)`: the planner puts the keys before the value.
    if let ("mode", [_, .., value]) = (name, &args[..]) {
        let value = text_of(value, &stream.names)?;
        let keys = order_by.iter().map(|key| order_text(key, stream, schema));
        let keys = keys.collect::<Result<Vec<_>>>()?.join(", ");
        let filter = filter.as_deref().map(|condition| text_of(condition, &stream.names));
        let filter = filter.transpose()?.map(|text| format!(" filter (where {text})"));
        return Ok(format!("mode({value} order by {keys}){}", filter.unwrap_or_default()));
    }
    let texts = args.iter().map(|arg| text_of(arg, &stream.names));
    let mut args_text = texts.collect::<Result<Vec<_>>>()?.join(", ");
    let is_known = |arg: &Expr| arg.nullable(schema).is_ok_and(|nullable| !nullable);
    if name == "count" && !distinct && args.iter().all(is_known) {
        args_text.clear();
    }
    let mut skipped = filter.as_deref().cloned();
    if *null_treatment == Some(NullTreatment::IgnoreNulls) && !args.is_empty() {
        let is_value = args[0].clone().is_not_null();
        skipped = Some(match skipped {
            Some(condition) => condition.and(is_value),
            None => is_value,
        });
    }
    let is_plain_sum = name == "sum" && !distinct && skipped.is_none() && order_by.is_empty();
    if let Some((of, constant)) =
        args.first().filter(|_| is_plain_sum).and_then(|arg| shifted(arg, schema))
    {
        let of = text_of(of, &stream.names)?;
        return Ok(format!("sum({of}) + {constant} * count({of})"));
    }
    // The mean shares the states of a sum that is computed anyway.
    if name == "avg" && calls.iter().any(|other| is_sum_of_same(other, &call.params)) {
        let is_number = args[0].get_type(schema).is_ok_and(|of| of.is_numeric());
        if is_number && shifted(&args[0], schema).is_none() {
            let counted = if is_known(&args[0]) { "" } else { &args_text };
            return Ok(format!("cast(sum({args_text}) as double) / count({counted})"));
        }
    }
    let distinct = if *distinct { "distinct " } else { "" };
    let is_reversed = order_by.iter().any(|key| !key.asc);
    let order = match call.func.supports_within_group_clause() || is_fraction_of(name) {
        // The value is the first argument already.
        true if is_reversed && name != "mode" => {
            format!(" within group (order by {} desc)", text_of(&args[0], &stream.names)?)
        }
        true => String::new(),
        false if order_by.is_empty() => String::new(),
        false => {
            let keys = order_by.iter().map(|key| match distinct.is_empty() {
                true => order_text(key, stream, schema),
                // The values are ordered by themselves.
                false => Ok(with_direction(key, &text_of(&key.expr, &stream.names)?)),
            });
            format!(" order by {}", keys.collect::<Result<Vec<_>>>()?.join(", "))
        }
    };
    let filter = match skipped {
        Some(condition) => format!(" filter (where {})", text_of(&condition, &stream.names)?),
        None => String::new(),
    };
    if order.starts_with(" within") {
        let fraction = text_of(&args[1], &stream.names)?;
        return Ok(format!("{name}({distinct}{fraction}){order}{filter}"));
    }
    let of = args.first().filter(|_| name == "avg").and_then(|arg| arg.get_type(schema).ok());
    if matches!(of, Some(DataType::Interval(_))) && distinct.is_empty() {
        // There is no sum of intervals, whose months have no length.
        let sum = |part: &str| format!("sum(_{part}_of_interval({args_text})){filter}");
        let sums = ["months", "days", "micros"].map(sum).join(", ");
        return Ok(format!("_interval_over(_interval_of({sums}), count({args_text}){filter})"));
    }
    if of.as_ref().is_some_and(is_instant) {
        let mean = format!("avg({distinct}epoch_us({args_text})){filter}");
        return Ok(instant_text(&mean));
    }
    if matches!(of, Some(DataType::Timestamp(_, Some(_)))) {
        let mean = format!("avg({distinct}epoch_us({args_text})){filter}");
        return Ok(format!("({} at time zone 'UTC')", instant_text(&mean)));
    }
    if of.as_ref().is_some_and(is_clock) {
        let instants = format!("epoch_us(_instant_at(date '1970-01-01', {args_text}))");
        let mean = format!("avg({distinct}{instants}){filter}");
        return Ok(format!("cast({} as time)", instant_text(&mean)));
    }
    Ok(format!("{name}({distinct}{args_text}{order}){filter}"))
}

/// The instant of a mean of microseconds, of which a half is rounded down.
pub(super) fn instant_text(mean: &str) -> String {
    format!("instant_of_us(cast(ceil({mean} - 0.5) as bigint))")
}

/// Whether a call is the sum of the values of which another is the mean, and of nothing less.
fn is_sum_of_same(call: &Expr, mean: &AggregateFunctionParams) -> bool {
    match call {
        Expr::Alias(alias) => is_sum_of_same(&alias.expr, mean),
        Expr::AggregateFunction(sum) => {
            let is_plain = !mean.distinct && mean.filter.is_none() && mean.order_by.is_empty();
            is_plain && sum.func.name() == "sum" && sum.params == *mean
        }
        _ => false,
    }
}

/// The greatest constant that is taken out of a sum: times a number of rows, it fits 64 bits.
const SHIFT_MAX: i64 = 1 << 30;

/// The column and the constant of `column + constant`, of integers with a sign: the sum of these is
/// that of the column, which many sums may share, and the constant times the number of values.
fn shifted<'a>(of: &'a Expr, schema: &DFSchema) -> Option<(&'a Expr, i64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = of else { return None };
    let (column, constant) = match (op, constant(left), constant(right)) {
        (Operator::Plus, _, Some(constant)) => (left, constant),
        (Operator::Plus, Some(constant), _) => (right, constant),
        (Operator::Minus, _, Some(constant)) => (left, -constant),
        _ => return None,
    };
    let column = match &**column {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int64 => &*cast.expr,
        other => other,
    };
    let is_integer = column.get_type(schema).is_ok_and(|of| of.is_signed_integer());
    (matches!(column, Expr::Column(_)) && is_integer).then_some((column, constant))
}

fn constant(of: &Expr) -> Option<i64> {
    match of {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => {
            Some(*value).filter(|value| value.abs() <= SHIFT_MAX)
        }
        _ => None,
    }
}

/// Whether the values are compared by bytes that `nested_key` makes of them: lists, structs and
/// intervals.
pub(super) fn is_nested(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| match of {
        DataType::Map(..) => false,
        DataType::Interval(_) => true,
        of => of.is_nested(),
    })
}

/// What rows are sorted by for a key: a null within a list is greater than its other values, also
/// in descending order and with nulls first, and intervals are compared by their length.
pub(super) fn order_of(key: &Sort, schema: &DFSchema) -> Expr {
    let is_interval = key.expr.get_type(schema).is_ok_and(|of| matches!(of, DataType::Interval(_)));
    match !key.asc || key.nulls_first || is_interval {
        true => comparable(&key.expr, schema),
        false => key.expr.clone(),
    }
}

/// The expression, or bytes that compare as its nested values.
pub(super) fn comparable(of: &Expr, schema: &DFSchema) -> Expr {
    match is_nested(of, schema) {
        true => function("nested_key").call(vec![of.clone()]),
        false => of.clone(),
    }
}

/// Whether the values are true or false.
pub(super) fn is_truth_value(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| of == DataType::Boolean)
}

/// 1 for true, 0 for false.
pub(super) fn as_number(of: &Expr) -> Expr {
    cast(of.clone(), DataType::Int64)
}

/// Whether the call takes its value from `within group`.
fn is_fraction_of(name: &str) -> bool {
    name == "approx_percentile_cont"
}

/// A key of the order within a call.
fn order_text(key: &Sort, stream: &PlannedRows, schema: &DFSchema) -> Result<String> {
    let text = text_of(&comparable(&key.expr, schema), &stream.names)?;
    Ok(with_direction(key, &text))
}

fn with_direction(key: &Sort, text: &str) -> String {
    let direction = if key.asc { "" } else { " desc" };
    let nulls = if key.nulls_first { " nulls first" } else { "" };
    format!("{text}{direction}{nulls}")
}

/// A name for a call: `sum_price`.
fn stem_of(call: &Expr) -> String {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = call else {
        return "value".into();
    };
    match params.args.first() {
        Some(Expr::Column(column)) => format!("{}_{}", func.name(), column.name),
        _ => func.name().into(),
    }
}
