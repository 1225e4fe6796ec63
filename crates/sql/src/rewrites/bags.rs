//! `intersect all` and `except all`: a row counts as often as it occurs on both sides, or more
//! often on the left. The planner makes semi and anti joins of them, which do not count; with the
//! number of a row among equal ones as a further key they do.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::logical_plan::{Distinct, Join};
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion_functions_window::row_number::row_number_udwf;

/// The plan with set operations that count rows.
pub(crate) fn counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let counted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_of_bags(&join) => Ok(Transformed::yes(numbered(join)?)),
        other => Ok(Transformed::no(other)),
    });
    counted.map(|counted| counted.data)
}

/// Whether a join stands for a set operation, whose left side may have a row several times.
fn is_of_bags(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left, left_number) = with_numbers(join.left.as_ref().clone())?;
    let (right, right_number) = with_numbers(join.right.as_ref().clone())?;
    let (mut left_keys, mut right_keys): (Vec<Expr>, Vec<Expr>) = join.on.into_iter().unzip();
    left_keys.push(Expr::Column(left_number));
    right_keys.push(Expr::Column(right_number));
    let on = left_keys.into_iter().zip(right_keys).collect();
    let rows = LogicalPlan::Join(Join::try_new(
        left.into(),
        right.into(),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?);
    LogicalPlanBuilder::from(rows).project(columns.into_iter().map(Expr::Column))?.build()
}

/// The rows with the number of each among equal ones.
fn with_numbers(rows: LogicalPlan) -> Result<(LogicalPlan, Column)> {
    let all = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = Expr::from(WindowFunction::new(row_number_udwf(), vec![]));
    let number = number.partition_by(all).build()?;
    let rows = LogicalPlanBuilder::from(rows).window([number])?.build()?;
    let number = rows.schema().columns().pop().expect("it has the number");
    Ok((rows, number))
}
