//! Limits and offsets that are computed, `limit (select …)` and `limit 10%`: the rows are numbered
//! in their order by a window, and a filter compares the numbers.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result, plan_err};
use datafusion_expr::expr::{Cast, Sort, WindowFunction};
use datafusion_expr::logical_plan::{Filter, Limit, Projection};
use datafusion_expr::{
    Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType,
    WindowFunctionDefinition, lit, when,
};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_window::row_number::row_number_udwf;

use crate::relations::limit_tokens::PERCENT;
use crate::relations::sampled::is_sample;

/// The plan without such limits.
pub(crate) fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let numbered = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(limit) if is_computed(&limit) => Ok(Transformed::yes(filtered(&limit)?)),
        other => Ok(Transformed::no(other)),
    });
    numbered.map(|numbered| numbered.data)
}

fn is_computed(limit: &Limit) -> bool {
    // A negative number is an error, which the lowering reports.
    let is_computed = matches!(limit.get_skip_type(), Ok(SkipType::UnsupportedExpr))
        || matches!(limit.get_fetch_type(), Ok(FetchType::UnsupportedExpr));
    is_computed && !limit.fetch.as_deref().is_some_and(is_sample)
}

/// The rows whose numbers are within the limit, in their order.
fn filtered(limit: &Limit) -> Result<LogicalPlan> {
    if let Some(random) = limit.skip.iter().chain(&limit.fetch).find(|one| one.is_volatile()) {
        return plan_err!("`{random}` is no limit: it has another value for each row");
    }
    let names = limit.input.schema().columns();
    let (number, all) = (column("_limit_row"), column("_limit_rows"));
    let rows = with_numbers(&limit.input)?;
    let skip = limit.skip.as_ref().map(|skip| {
        let skip = whole(skip.as_ref().clone());
        // An offset that is null passes over no row.
        when(skip.clone().is_null(), lit(0_i64)).otherwise(skip)
    });
    let skip = skip.transpose()?;
    let mut conditions = vec![];
    if let Some(skip) = &skip {
        conditions.push(number.clone().gt(skip.clone()));
    }
    if let Some(fetch) = &limit.fetch {
        let passed = match &skip {
            Some(skip) => number.clone() - skip.clone(),
            None => number.clone(),
        };
        conditions.push(match percent_of(fetch) {
            Some(percent) => passed.lt_eq(cast(all, DataType::Float64) * percent / lit(100.0_f64)),
            None => passed.lt_eq(whole(fetch.as_ref().clone())),
        });
    }
    // A limit that is null has all rows.
    let conditions = conditions.into_iter().map(|one| Expr::IsNotFalse(Box::new(one)));
    let condition = conditions.reduce(Expr::and).unwrap_or(lit(true));
    let rows = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows))?);
    let rows = LogicalPlanBuilder::from(rows).sort([Sort::new(number, true, false)])?.build()?;
    let selected = names.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(selected, Arc::new(rows))?))
}

/// The rows with their numbers, from 1, and with how many there are.
fn with_numbers(rows: &LogicalPlan) -> Result<LogicalPlan> {
    let (keys, rows) = match rows {
        LogicalPlan::Projection(projection) => {
            let inner = with_numbers(&projection.input)?;
            let added = [column("_limit_row"), column("_limit_rows")];
            let all = projection.expr.iter().cloned().chain(added).collect();
            return Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(inner))?));
        }
        LogicalPlan::Sort(sort) => (sort.expr.clone(), sort.input.as_ref().clone()),
        other => (vec![], other.clone()),
    };
    let number = Expr::from(WindowFunction::new(row_number_udwf(), vec![]));
    let number = if keys.is_empty() { number } else { number.order_by(keys).build()? };
    let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
    let count = Expr::from(WindowFunction::new(count, vec![lit(1_i64)]));
    let columns = rows.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let calls = [number.alias("_limit_number"), count.alias("_limit_count")];
    let rows = LogicalPlanBuilder::from(rows).window(calls)?;
    let added = [("_limit_number", "_limit_row"), ("_limit_count", "_limit_rows")];
    let added = added.map(|(from, to)| cast(column(from), DataType::Int64).alias(to));
    rows.project(columns.into_iter().chain(added))?.build()
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

fn cast(of: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(of), to))
}

/// A number of rows; the cast of a negative one fails.
fn whole(count: Expr) -> Expr {
    cast(cast(count, DataType::UInt64), DataType::Int64)
}

/// The number that is a share of all rows.
fn percent_of(fetch: &Expr) -> Option<Expr> {
    match fetch {
        Expr::ScalarFunction(call) if call.func.name() == PERCENT => {
            Some(cast(call.args.first()?.clone(), DataType::Float64))
        }
        Expr::Cast(cast) => percent_of(&cast.expr),
        _ => None,
    }
}
