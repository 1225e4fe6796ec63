//! Subqueries that are one value of a row of the query around them, but do not aggregate: they
//! become aggregates, which the planner makes joins of. Of several rows, the first by an order is
//! taken, or they fail.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::expr::{AggregateFunction, Sort as SortKey};
use datafusion_expr::logical_plan::{Aggregate, Subquery};
use datafusion_expr::{Expr, FetchType, LogicalPlan, SkipType};

use crate::functions::aggregates::function;

/// The plan with aggregates in such subqueries.
pub(crate) fn aggregated(plan: LogicalPlan) -> Result<LogicalPlan> {
    let aggregated = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|expression| match expression {
                Expr::ScalarSubquery(query) if !query.outer_ref_columns.is_empty() => {
                    match aggregate_of(&query.subquery)? {
                        Some(plan) => {
                            let subquery = Arc::new(plan);
                            let query = Subquery { subquery, ..query };
                            Ok(Transformed::yes(Expr::ScalarSubquery(query)))
                        }
                        None => Ok(Transformed::no(Expr::ScalarSubquery(query))),
                    }
                }
                other => Ok(Transformed::no(other)),
            })
        })
    });
    aggregated.map(|aggregated| aggregated.data)
}

/// The aggregate of a subquery that has none.
fn aggregate_of(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let one = |rows: &LogicalPlan, value: Expr, name: &str, order: Vec<SortKey>| {
        let args = vec![value];
        let call = AggregateFunction::new_udf(function(name), args, false, None, order, None);
        let calls = vec![Expr::AggregateFunction(call)];
        let rows = Arc::new(rows.clone());
        Ok(Some(LogicalPlan::Aggregate(Aggregate::try_new(rows, vec![], calls)?)))
    };
    let [column] = &plan.schema().columns()[..] else { return Ok(None) };
    let column = Expr::Column(column.clone());
    match plan {
        _ if is_aggregate(plan) => Ok(None),
        LogicalPlan::Limit(limit) => {
            let is_first = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1)))
                && matches!(limit.get_skip_type()?, SkipType::Literal(0));
            match limit.input.as_ref() {
                _ if !is_first => Ok(None),
                LogicalPlan::Sort(sort) => {
                    one(&sort.input, column, "first_value", sort.expr.clone())
                }
                // The order is by columns that are not selected.
                LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                    LogicalPlan::Sort(sort) => {
                        let value = projection.expr[0].clone().unalias();
                        one(&sort.input, value, "first_value", sort.expr.clone())
                    }
                    rows => one(rows, projection.expr[0].clone().unalias(), "first_value", vec![]),
                },
                rows => one(rows, column, "first_value", vec![]),
            }
        }
        _ => one(plan, column, "only", vec![]),
    }
}

/// Whether a subquery has one row anyway.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(projection) => is_aggregate(&projection.input),
        LogicalPlan::Filter(filter) => is_aggregate(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregate(&alias.input),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}
