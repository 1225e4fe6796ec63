//! `group by` and aggregates.

use datafusion_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Case, Expr};
use euphrates_flow::{Error, Result};
use serde_json::{Map, json};

use super::{Lowering, PlannedRows, Reuse};
use crate::errors::failed;
use crate::expressions::{Names, text_of};
use crate::statement::unsupported;

/// The functions that `aggregate` computes.
const FUNCTIONS: [&str; 9] =
    ["count", "sum", "min", "max", "avg", "var", "var_pop", "stddev", "stddev_pop"];

impl Lowering<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> Result<PlannedRows> {
        let columns = aggregate.schema.columns();
        let stream = self.stream(&aggregate.input)?;
        // Keys that are written twice come once.
        let keys = grouping_set_to_exprlist(&aggregate.group_expr).map_err(failed)?;
        let keys: Vec<Expr> = keys.into_iter().cloned().collect();
        let calls = &aggregate.aggr_expr;
        let (stream, keys) = self.with_scalars(stream, &keys)?;
        let (stream, of_keys) = self.with_columns(stream, &keys, "key", Reuse::Always)?;
        let mut names: Names = columns.iter().cloned().zip(of_keys.iter().cloned()).collect();
        // A column may be a key twice.
        let mut by: Vec<String> = vec![];
        for name in of_keys {
            if !by.contains(&name) {
                by.push(name);
            }
        }
        let mut values = Map::new();
        for (call, column) in calls.iter().zip(&columns[keys.len()..]) {
            let is_free = |name: &&String| {
                !by.contains(*name) && !values.contains_key(*name) && !name.contains('"')
            };
            let name = match self.wanted.get(column).filter(is_free).cloned() {
                Some(name) => name,
                None => self.fresh(&stem_of(call)),
            };
            values.insert(name.clone(), text(call, &stream)?.into());
            names.push((column.clone(), name));
        }
        let all = by.iter().cloned().chain(values.keys().cloned()).collect();
        let id = self.behind(&stream.id, "aggregate", json!({"by": by, "values": values}));
        Ok(PlannedRows { id, columns: all, names })
    }
}

/// The text of a call, as `aggregate` takes it.
fn text(call: &Expr, stream: &PlannedRows) -> Result<String> {
    let call = match call {
        Expr::Alias(alias) => return text(&alias.expr, stream),
        Expr::AggregateFunction(call) => call,
        other => return Err(Error::failed(format!("`{other}` is not an aggregate"))),
    };
    let name = match call.func.name() {
        "bool_and" => "min",
        "bool_or" => "max",
        name => name,
    };
    if !FUNCTIONS.contains(&name) {
        return Err(unsupported(name).remedy(format!("aggregates: {}", FUNCTIONS.join(", "))));
    }
    let AggregateFunctionParams { args, distinct, filter, .. } = &call.params;
    let [arg] = &args[..] else {
        return Err(unsupported(&format!("{name} of {} arguments", args.len())));
    };
    let is_literal = matches!(arg, Expr::Literal(value, _) if !value.is_null());
    // Rows that the filter leaves out are null, which aggregates skip.
    let arg = match filter {
        Some(condition) => {
            Expr::Case(Case::new(None, vec![(condition.clone(), Box::new(arg.clone()))], None))
        }
        None if name == "count" && is_literal && !distinct => return Ok("count()".into()),
        None => arg.clone(),
    };
    let distinct = match (distinct, name) {
        (false, _) | (true, "min" | "max") => "",
        (true, "count") => "distinct ",
        (true, _) => return Err(unsupported(&format!("{name}(distinct …)"))),
    };
    Ok(format!("{name}({distinct}{})", text_of(&arg, &stream.names)?))
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
