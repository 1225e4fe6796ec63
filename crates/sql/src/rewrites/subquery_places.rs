//! Subqueries in the arguments of aggregates and windows, in the keys of an order, and in the
//! conditions of joins are computed by a projection or a filter of their own, where other rewrites
//! look for them.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, ExprSchema, JoinType, Result, ScalarValue, Spans, plan_err};
use datafusion_expr::expr::Exists;
use datafusion_expr::logical_plan::{
    Aggregate, Filter, Join, Projection, Sort, Subquery, Union, Window,
};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};

use crate::rewrites::dependent_joins::named;
use crate::rewrites::outer_references::{free, subquery};

/// The node with its subqueries below it, and whether any were.
pub(crate) fn below(
    plan: LogicalPlan,
    fresh: &mut dyn FnMut(&str) -> String,
) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate)
            if aggregate.group_expr.iter().chain(&aggregate.aggr_expr).any(has_subquery) =>
        {
            let mut computed = Computed::new(fresh);
            let keys = aggregate.group_expr.iter().map(|key| match has_subquery(key) {
                true => computed.column(key.clone()),
                false => key.clone(),
            });
            let keys: Vec<Expr> = keys.collect();
            let calls = aggregate.aggr_expr.iter().map(|call| computed.within(call.clone()));
            let calls = calls.collect::<Result<Vec<_>>>()?;
            let rows = computed.above(aggregate.input)?;
            let rows = LogicalPlan::Aggregate(Aggregate::try_new(rows.into(), keys, calls)?);
            under_names(rows, &aggregate.schema.columns()).map(Transformed::yes)
        }
        LogicalPlan::Window(window) if window.window_expr.iter().any(has_subquery) => {
            let mut computed = Computed::new(fresh);
            let calls = window.window_expr.iter().map(|call| computed.within(call.clone()));
            let calls = calls.collect::<Result<Vec<_>>>()?;
            let rows = computed.above(window.input.clone())?;
            let inner = rows.schema().columns();
            let rows = LogicalPlan::Window(Window::try_new(calls, rows.into())?);
            // What was computed stands between the columns of the rows and those of the windows.
            let all = rows.schema().columns();
            let kept = window.input.schema().fields().len();
            let found = all.iter().take(kept).chain(&all[inner.len()..]);
            let columns = window.schema.columns();
            let named = found.zip(&columns).map(|(from, to)| named(Expr::Column(from.clone()), to));
            let rows = Projection::try_new(named.collect(), Arc::new(rows))?;
            Ok(Transformed::yes(LogicalPlan::Projection(rows)))
        }
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| has_subquery(&key.expr)) => {
            let mut computed = Computed::new(fresh);
            let keys = sort.expr.into_iter().map(|mut key| {
                if has_subquery(&key.expr) {
                    key.expr = computed.column(key.expr);
                }
                key
            });
            let expr: Vec<_> = keys.collect();
            let columns = sort.input.schema().columns();
            let rows = with_names(sort.input, &computed.values)?;
            let input = Arc::new(computed.above(rows)?);
            let rows = LogicalPlan::Sort(Sort { expr, input, fetch: sort.fetch });
            under_names(rows, &columns).map(Transformed::yes)
        }
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(has_subquery) => {
            condition(join, fresh).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The rows of a selection, with the columns that values name and that are not selected.
fn with_names(rows: Arc<LogicalPlan>, values: &[Expr]) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(selection) = rows.as_ref() else { return Ok(rows) };
    let mut selected = selection.expr.clone();
    for value in values {
        for name in names_in(value)? {
            let column = Expr::Column(name.clone());
            let is_new = !rows.schema().has_column(&name) && !selected.contains(&column);
            if is_new && selection.input.schema().has_column(&name) {
                selected.push(column);
            }
        }
    }
    if selected.len() == selection.expr.len() {
        return Ok(rows);
    }
    let rows = Projection::try_new(selected, selection.input.clone())?;
    Ok(Arc::new(LogicalPlan::Projection(rows)))
}

/// The first columns of rows under other names.
fn under_names(rows: LogicalPlan, names: &[Column]) -> Result<LogicalPlan> {
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let named = columns.zip(names).map(|(column, name)| named(column, name)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::new(rows))?))
}

/// A join without subqueries in its condition.
fn condition(join: Join, fresh: &mut dyn FnMut(&str) -> String) -> Result<LogicalPlan> {
    let conjuncts = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (tests, mut others): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(has_subquery);
    if join.join_type == JoinType::Inner {
        let join = LogicalPlan::Join(Join { filter: conjunction(others), ..join });
        let test = conjunction(tests).expect("there are some");
        return Ok(LogicalPlan::Filter(Filter::try_new(test, Arc::new(join))?));
    }
    let columns = join.schema.columns();
    let name = fresh("tests");
    let (mut left, mut right) = (Computed::named(name.clone()), Computed::named(name + "_right"));
    for test in tests {
        let names = names_in(&test)?;
        let are_of = |side: &LogicalPlan| names.iter().all(|name| side.schema().has_column(name));
        others.push(if are_of(&join.left) {
            left.column(test)
        } else if are_of(&join.right) {
            right.column(test)
        } else {
            return of_both_sides(&join);
        });
    }
    let (left, right) = (left.above(join.left)?, right.above(join.right)?);
    let join = Join::try_new(
        left.into(),
        right.into(),
        join.on,
        conjunction(others),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let selected = columns.into_iter().map(Expr::Column).collect();
    let rows = Projection::try_new(selected, Arc::new(LogicalPlan::Join(join)))?;
    Ok(LogicalPlan::Projection(rows))
}

/// An outer join whose condition has a subquery of both sides: the pairs, and the rows of a side
/// that make no pair, with nulls.
fn of_both_sides(join: &Join) -> Result<LogicalPlan> {
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(keys.chain(join.filter.clone())).expect("it has a subquery");
    let (of_left, of_right) = match join.join_type {
        JoinType::Left => (true, false),
        JoinType::Right => (false, true),
        JoinType::Full => (true, true),
        other => {
            return plan_err!(
                "a subquery in the condition of a {other} join names columns of both sides: test \
                 it in `where`, or name those of one side"
            );
        }
    };
    let pairs = LogicalPlanBuilder::from(join.left.as_ref().clone());
    let pairs =
        pairs.cross_join(join.right.as_ref().clone())?.filter(condition.clone())?.build()?;
    let mut inputs = vec![Arc::new(under_names(pairs, &join.schema.columns())?)];
    if of_left {
        inputs.push(Arc::new(without_pair(join, &condition, true)?));
    }
    if of_right {
        inputs.push(Arc::new(without_pair(join, &condition, false)?));
    }
    Ok(LogicalPlan::Union(Union { inputs, schema: join.schema.clone() }))
}

/// The rows of a side for which no row of the other meets the condition, with nulls for the
/// columns of the other.
fn without_pair(join: &Join, condition: &Expr, is_left: bool) -> Result<LogicalPlan> {
    let (side, other) = match is_left {
        true => (&join.left, &join.right),
        false => (&join.right, &join.left),
    };
    let within = condition.clone().transform_up(|one| match &one {
        Expr::Column(column) if side.schema().has_column(column) => {
            let field = side.schema().field_from_column(column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column.clone())))
        }
        _ => Ok(Transformed::no(one)),
    })?;
    let found = LogicalPlan::Filter(Filter::try_new(within.data, other.clone())?);
    let outer_ref_columns = found.all_out_ref_exprs();
    let subquery =
        Subquery { subquery: Arc::new(found), outer_ref_columns, spans: Spans::default() };
    let none = Expr::Exists(Exists { subquery, negated: true });
    let rows = LogicalPlan::Filter(Filter::try_new(none, side.clone())?);
    let selected = join.schema.iter().map(|(relation, field)| {
        let column = Column::new(relation.cloned(), field.name());
        let value = match side.schema().has_column(&column) {
            true => Expr::Column(column),
            false => cast(lit(ScalarValue::Null), field.data_type().clone()),
        };
        value.alias_qualified(relation.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(selected.collect(), Arc::new(rows))?))
}

/// The columns that an expression names, also in its subqueries.
fn names_in(expression: &Expr) -> Result<Vec<Column>> {
    let mut names = vec![];
    expression.apply(|one| {
        if let Expr::Column(column) = one {
            names.push(column.clone());
        }
        if let Some(query) = subquery(one) {
            names.extend(free(&query.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

pub(crate) fn has_subquery(expression: &Expr) -> bool {
    expression.exists(|one| Ok(subquery(one).is_some())).unwrap_or(false)
}

/// Values that a projection below a node computes.
struct Computed {
    relation: String,
    values: Vec<Expr>,
}

impl Computed {
    fn new(fresh: &mut dyn FnMut(&str) -> String) -> Computed {
        Computed::named(fresh("computed"))
    }

    fn named(relation: String) -> Computed {
        Computed { relation, values: vec![] }
    }

    /// The column of a value.
    fn column(&mut self, value: Expr) -> Expr {
        let name = format!("value_{}", self.values.len());
        let column = Column::new(Some(self.relation.clone()), name);
        self.values.push(named(value.unalias(), &column));
        Expr::Column(column)
    }

    /// The expression with columns for its subqueries.
    fn within(&mut self, expression: Expr) -> Result<Expr> {
        let name = expression.schema_name().to_string();
        let replaced = expression.transform_down(|one| match subquery(&one) {
            Some(_) => Ok(Transformed::new(self.column(one), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(one)),
        })?;
        Ok(if replaced.transformed { replaced.data.alias(name) } else { replaced.data })
    }

    /// The rows with the values.
    fn above(self, rows: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let columns = rows.schema().columns().into_iter().map(Expr::Column);
        let all = columns.chain(self.values).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(all, rows)?))
    }
}
