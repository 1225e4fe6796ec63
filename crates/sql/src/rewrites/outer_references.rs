//! References of a subquery to columns of the queries around it: which there are, and others in
//! their place. A reference belongs to the innermost query around it that has such a column.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchemaRef, Result};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::logical_plan::{Join, Subquery};
use datafusion_expr::{Expr, LogicalPlan};

/// Columns of a query, each with the one that takes its place.
pub(crate) type Replacements = Vec<(Column, Column)>;

/// The columns that a plan names and does not have, each once.
pub(crate) fn free(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut found = vec![];
    let mut add = |column: Column| {
        if !found.contains(&column) {
            found.push(column);
        }
    };
    plan.apply_expressions(|expression| {
        of_expression(expression, plan)?.into_iter().for_each(&mut add);
        Ok(TreeNodeRecursion::Continue)
    })?;
    match plan {
        LogicalPlan::Join(join) => {
            free(&join.left)?.into_iter().for_each(&mut add);
            let of_right = free(&join.right)?.into_iter();
            let is_lateral = is_lateral(&join.right);
            let left = join.left.schema();
            let others = of_right.filter(|column| !(is_lateral && left.has_column(column)));
            others.for_each(&mut add);
        }
        other => {
            for input in other.inputs() {
                free(input)?.into_iter().for_each(&mut add);
            }
        }
    }
    Ok(found)
}

/// The columns that an expression of a node names and the node's inputs do not have.
fn of_expression(expression: &Expr, node: &LogicalPlan) -> Result<Vec<Column>> {
    let mut found = vec![];
    expression.apply(|one| {
        if let Expr::OuterReferenceColumn(_, column) = one {
            found.push(column.clone());
        }
        if let Some(query) = subquery(one) {
            let of_query = free(&query.subquery)?.into_iter();
            found.extend(of_query.filter(|column| !has_column(node, column)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether the inputs of a node have a column.
pub(crate) fn has_column(node: &LogicalPlan, column: &Column) -> bool {
    node.inputs().iter().any(|input| input.schema().has_column(column))
}

/// Whether the right side of a join sees the columns of the left.
pub(crate) fn is_lateral(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}

/// The subquery that an expression is, or tests.
pub(crate) fn subquery(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => {
            Some(subquery)
        }
        _ => None,
    }
}

/// The expression with another plan in its subquery.
pub(crate) fn with_subquery(expression: Expr, plan: LogicalPlan) -> Expr {
    let of = |query: Subquery| Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan.clone()),
        ..query
    };
    match expression {
        Expr::ScalarSubquery(query) => Expr::ScalarSubquery(of(query)),
        Expr::Exists(test) => Expr::Exists(Exists { subquery: of(test.subquery), ..test }),
        Expr::InSubquery(test) => {
            Expr::InSubquery(InSubquery { subquery: of(test.subquery), ..test })
        }
        other => other,
    }
}

/// An expression of a node whose inputs now have the new columns: its references become columns,
/// and those of its subqueries become references to the new columns.
pub(crate) fn resolved(
    expression: Expr,
    replacements: &Replacements,
    inputs: &[DFSchemaRef],
) -> Result<Expr> {
    let resolved = expression.transform_up(|one| match &one {
        Expr::OuterReferenceColumn(_, column) => match new_of(column, replacements, &[]) {
            Some(new) => Ok(Transformed::yes(Expr::Column(new))),
            None => Ok(Transformed::no(one)),
        },
        _ => match subquery(&one) {
            Some(query) => {
                let plan = renamed(query.subquery.as_ref().clone(), replacements, inputs)?;
                Ok(Transformed::yes(with_subquery(one, plan)))
            }
            None => Ok(Transformed::no(one)),
        },
    })?;
    Ok(resolved.data)
}

/// A plan within a subquery with references to the new columns. `scopes` are the columns of the
/// queries between.
fn renamed(
    plan: LogicalPlan,
    replacements: &Replacements,
    scopes: &[DFSchemaRef],
) -> Result<LogicalPlan> {
    let inner: Vec<DFSchemaRef> =
        scopes.iter().cloned().chain(plan.inputs().iter().map(|it| it.schema().clone())).collect();
    let plan = match plan {
        LogicalPlan::Join(join) if is_lateral(&join.right) => {
            let with_left: Vec<DFSchemaRef> =
                scopes.iter().cloned().chain([join.left.schema().clone()]).collect();
            let left = renamed(Arc::unwrap_or_clone(join.left), replacements, scopes)?;
            let right = renamed(Arc::unwrap_or_clone(join.right), replacements, &with_left)?;
            LogicalPlan::Join(Join { left: left.into(), right: right.into(), ..join })
        }
        other => {
            let of = |child| Ok(Transformed::yes(renamed(child, replacements, scopes)?));
            other.map_children(of)?.data
        }
    };
    let renamed = plan.map_expressions(|expression| {
        expression.transform_up(|one| match &one {
            Expr::OuterReferenceColumn(field, column) => {
                match new_of(column, replacements, scopes) {
                    Some(new) => {
                        Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), new)))
                    }
                    None => Ok(Transformed::no(one)),
                }
            }
            _ => match subquery(&one) {
                Some(query) => {
                    let plan = renamed(query.subquery.as_ref().clone(), replacements, &inner)?;
                    Ok(Transformed::yes(with_subquery(one, plan)))
                }
                None => Ok(Transformed::no(one)),
            },
        })
    })?;
    Ok(renamed.data)
}

/// The column in the place of another one, unless a query between has that.
fn new_of(column: &Column, replacements: &Replacements, scopes: &[DFSchemaRef]) -> Option<Column> {
    if scopes.iter().any(|schema| schema.has_column(column)) {
        return None;
    }
    replacements.iter().find(|(old, _)| old == column).map(|(_, new)| new.clone())
}
