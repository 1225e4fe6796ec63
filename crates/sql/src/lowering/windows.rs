//! Window functions: calls with the same partitions and order are one module.

use datafusion_common::{Column, DFSchema, ScalarValue};
use datafusion_expr::expr::{NullTreatment, Sort, WindowFunction, WindowFunctionParams};
use datafusion_expr::logical_plan::Window;
use datafusion_expr::{Case, Expr, ExprSchemable, WindowFrame, WindowFrameBound};
use euphrates_flow::{Error, Result};
use serde_json::{Map, json};

use super::aggregates::{as_number, comparable, instant_text, is_nested, is_truth_value, order_of};
use super::{Lowering, PlannedRows, Reuse, order_key};
use crate::expressions::{named, text_of};
use crate::functions::aggregates::is_instant;
use crate::functions::scalars::function;
use crate::relations::exclusion_tokens::marked;

impl Lowering<'_> {
    pub(super) fn window(&mut self, window: &Window) -> Result<PlannedRows> {
        let mut rows = self.stream(&window.input)?;
        let columns = window.schema.columns();
        let columns = columns[columns.len() - window.window_expr.len()..].iter();
        let calls = window.window_expr.iter().map(call_of);
        let mut calls: Vec<(&WindowFunction, &Column)> =
            calls.zip(columns).map(|(call, column)| Ok((call?, column))).collect::<Result<_>>()?;
        while let Some((first, _)) = calls.first() {
            let params = &first.params;
            let (partition_by, order_by) = (&params.partition_by, &params.order_by);
            let is_same = |(call, _): &(&WindowFunction, &Column)| {
                call.params.partition_by == *partition_by && call.params.order_by == *order_by
            };
            let (same, others): (Vec<_>, Vec<_>) = calls.iter().copied().partition(is_same);
            let keys = partition_by.iter().filter(|key| marked(key).is_none());
            let partition_by: Vec<Expr> =
                keys.map(|key| comparable(key, window.input.schema())).collect();
            let schema = window.input.schema();
            rows = self.one_window(rows, &partition_by, order_by, &same, schema)?;
            calls = others;
        }
        Ok(rows)
    }

    fn one_window(
        &mut self,
        rows: PlannedRows,
        partition_by: &[Expr],
        order_by: &[Sort],
        calls: &[(&WindowFunction, &Column)],
        schema: &DFSchema,
    ) -> Result<PlannedRows> {
        // All rows are one partition if they have the same key.
        let one = [datafusion_expr::lit(1_i64)];
        let partition_by = if partition_by.is_empty() { &one[..] } else { partition_by };
        let (rows, parts) = self.with_columns(rows, partition_by, "part", Reuse::Always)?;
        let keys: Vec<Expr> = order_by.iter().map(|key| order_of(key, schema)).collect();
        let (mut rows, keys) = self.with_columns(rows, &keys, "order", Reuse::Always)?;
        let mut by = vec![];
        for (key, column) in order_by.iter().zip(&keys) {
            by.push(order_key(column, key));
        }
        let (mut values, mut names) = (Map::new(), rows.names.clone());
        for (call, column) in calls {
            let is_free = |name: &&String| {
                !values.contains_key(*name) && !rows.columns.iter().any(|known| known == *name)
            };
            let name = match self.wanted.get(column).filter(is_free).cloned() {
                Some(name) => name,
                None => self.fresh(call.fun.name()),
            };
            values.insert(name.clone(), text(call, &rows, schema)?.into());
            names.push(((*column).clone(), name));
        }
        let mut config = json!({"partition_by": parts, "values": values});
        if !by.is_empty() {
            config["order_by"] = by.into();
        }
        rows.columns.extend(values.keys().cloned());
        let id = self.behind(&rows.id, "window", config);
        let means = calls.iter().filter(|(call, _)| is_mean_of_instants(call, schema));
        let means: Vec<&Column> = means.map(|(_, column)| *column).collect();
        self.with_instants(PlannedRows { id, names, ..rows }, &means)
    }

    /// The rows with these columns as instants, of which they are the microseconds.
    fn with_instants(&mut self, mut rows: PlannedRows, columns: &[&Column]) -> Result<PlannedRows> {
        if columns.is_empty() {
            return Ok(rows);
        }
        let mut computed = vec!["*".to_string()];
        for column in columns {
            let mean = text_of(&Expr::Column((*column).clone()), &rows.names)?;
            let name = self.fresh("mean");
            computed.push(named(&instant_text(&mean), &name));
            rows.columns.push(name.clone());
            let entry = rows.names.iter_mut().find(|(known, _)| known == *column);
            entry.into_iter().for_each(|(_, known)| *known = name.clone());
        }
        rows.id = self.behind(&rows.id, "project", json!({"columns": computed}));
        Ok(rows)
    }
}

/// Whether a call is a mean of instants, which a window computes of their microseconds.
fn is_mean_of_instants(call: &WindowFunction, schema: &DFSchema) -> bool {
    let of = call.params.args.first().filter(|_| call.fun.name() == "avg");
    of.and_then(|of| of.get_type(schema).ok()).is_some_and(|of| is_instant(&of))
}

fn call_of(expression: &Expr) -> Result<&WindowFunction> {
    match expression {
        Expr::Alias(alias) => call_of(&alias.expr),
        Expr::WindowFunction(call) => Ok(call),
        other => Err(Error::failed(format!("`{other}` is not a window function"))),
    }
}

/// The text of a call, as `window` takes it.
fn text(call: &WindowFunction, rows: &PlannedRows, schema: &DFSchema) -> Result<String> {
    let ignores_nulls = call.params.null_treatment == Some(NullTreatment::IgnoreNulls);
    let name = match call.fun.name() {
        "bool_and" => "min",
        "bool_or" => "max",
        "first" if ignores_nulls => "first_value",
        "last" if ignores_nulls => "last_value",
        name => name,
    };
    let WindowFunctionParams { args, order_by, window_frame, filter, null_treatment, .. } =
        &call.params;
    // A null within a list is greater than its other values.
    let (name, args) = match (name, &args[..]) {
        ("min" | "max", [of]) if is_nested(of, schema) => {
            let name = if name == "min" { "arg_min" } else { "arg_max" };
            (name, &vec![of.clone(), comparable(of, schema)])
        }
        ("arg_min" | "argmin" | "min_by" | "arg_max" | "argmax" | "max_by", [_, key, ..])
            if is_nested(key, schema) =>
        {
            (name, &[&args[..1], &[comparable(key, schema)], &args[2..]].concat())
        }
        ("sum", [of]) if is_truth_value(of, schema) => (name, &vec![as_number(of)]),
        ("avg", [of]) if is_mean_of_instants(call, schema) => {
            (name, &vec![function("epoch_us").call(vec![of.clone()])])
        }
        _ => (name, args),
    };
    let is_folded = matches!(name, "count" | "sum" | "min" | "max" | "avg");
    // Other functions of `aggregate` have these clauses themselves.
    let is_own = !is_folded || call.params.distinct;
    let mut texts = vec![];
    for arg in args {
        let is_count_of_rows = name == "count"
            && filter.is_none()
            && !call.params.distinct
            && matches!(arg, Expr::Literal(value, _) if !value.is_null());
        let arg = match filter {
            Some(condition) if !is_own => {
                Expr::Case(Case::new(None, vec![(condition.clone(), Box::new(arg.clone()))], None))
            }
            _ if call.params.distinct && name == "count" => comparable(arg, schema),
            _ => arg.clone(),
        };
        if !is_count_of_rows {
            texts.push(text_of(&arg, &rows.names)?);
        }
    }
    let nulls = match null_treatment {
        Some(NullTreatment::IgnoreNulls) => " ignore nulls",
        _ => "",
    };
    let exclusion = call.params.partition_by.iter().find_map(marked);
    let usual = WindowFrame::new((!order_by.is_empty()).then_some(false));
    let is_usual = *window_frame == usual || order_by.is_empty() && is_whole(window_frame);
    let frame = match is_usual && exclusion.is_none() {
        true => String::new(),
        false => {
            let exclusion = exclusion.map(|what| format!(" exclude {what}")).unwrap_or_default();
            let units = window_frame.units.to_string().to_lowercase();
            let (start, end) = (&window_frame.start_bound, &window_frame.end_bound);
            format!(" over ({units} between {} and {}{exclusion})", bound(start), bound(end))
        }
    };
    let filter = match filter {
        Some(condition) if is_own => {
            format!(" filter (where {})", text_of(condition, &rows.names)?)
        }
        _ => String::new(),
    };
    let distinct = if call.params.distinct { "distinct " } else { "" };
    Ok(format!("{name}({distinct}{}{nulls}){filter}{frame}", texts.join(", ")))
}

fn is_whole(frame: &WindowFrame) -> bool {
    let is_unbounded = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            offset.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    is_unbounded(&frame.start_bound) && is_unbounded(&frame.end_bound)
}

fn bound(bound: &WindowFrameBound) -> String {
    let (offset, word) = match bound {
        WindowFrameBound::CurrentRow => return "current row".into(),
        WindowFrameBound::Preceding(offset) => (offset, "preceding"),
        WindowFrameBound::Following(offset) => (offset, "following"),
    };
    match offset {
        value if value.is_null() => format!("unbounded {word}"),
        ScalarValue::Utf8(Some(text)) if text.parse::<f64>().is_err() => {
            format!("interval '{text}' {word}")
        }
        other => format!("{other} {word}"),
    }
}
