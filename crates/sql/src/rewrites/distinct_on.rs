//! `select distinct on (…)`: the first row of each group, as an aggregate of `first_value` for each
//! column. All of them take their values from the same row, since they have the same order.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::expr_rewriter::normalize_cols;
use datafusion_expr::logical_plan::{Aggregate, Distinct, DistinctOn};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_optimizer::OptimizerConfig;
use std::sync::Arc;

use crate::functions::aggregates::function;
use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const DISTINCT_ON: NodeRule = NodeRule { name: "distinct_on", rewrite };

fn rewrite(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(Distinct::On(distinct)) = plan else {
        return Ok(Transformed::no(plan));
    };
    let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = distinct;
    let (keys, order) = (on_expr.len(), sort_expr.unwrap_or_default());
    let first = |value: Expr| {
        let order = order.clone();
        let first = function("first_value");
        Expr::AggregateFunction(AggregateFunction::new_udf(
            first,
            vec![value],
            false,
            None,
            order,
            None,
        ))
    };
    let values = normalize_cols(select_expr.into_iter().map(first), input.as_ref())?;
    let by = normalize_cols(on_expr, input.as_ref())?;
    let rows = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(&input), by, values)?);
    let mut rows = LogicalPlanBuilder::from(rows);
    // The first keys of the order are those of the groups, and the others have one value in each.
    if !order.is_empty() {
        rows = rows.sort(order.iter().take(keys).cloned())?;
    }
    let rows = rows.build()?;
    let found = rows.schema().iter().skip(keys);
    let columns = found.zip(schema.iter()).map(|((from, field), (relation, wanted))| {
        Expr::Column(Column::from((from, field))).alias_qualified(relation.cloned(), wanted.name())
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(rows).project(columns)?.build()?))
}
