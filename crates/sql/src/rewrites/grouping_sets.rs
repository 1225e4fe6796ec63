//! `grouping sets`, `rollup` and `cube` become the union of an aggregate for each set.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, Cast};
use datafusion_expr::logical_plan::{Aggregate, Projection, Union};
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, GroupingSet, LogicalPlan, lit};
use datafusion_functions_aggregate::expr_fn::count;

/// The plan without grouping sets, and without the function `grouping`.
pub(crate) fn expanded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let expanded = plan.transform_up_with_subqueries(|node| match &node {
        LogicalPlan::Aggregate(aggregate) if is_of_sets(aggregate) => {
            Ok(Transformed::yes(union(aggregate)?))
        }
        _ => Ok(Transformed::no(node)),
    });
    expanded.map(|expanded| expanded.data)
}

fn is_of_sets(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)])
        || aggregate.aggr_expr.iter().any(|call| grouping(call).is_some())
}

/// The call of `grouping` that an expression is.
fn grouping(expression: &Expr) -> Option<&AggregateFunction> {
    match expression {
        Expr::Alias(alias) => grouping(&alias.expr),
        Expr::AggregateFunction(call) if call.func.name() == "grouping" => Some(call),
        _ => None,
    }
}

fn union(aggregate: &Aggregate) -> Result<LogicalPlan> {
    let all: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let sets = match &aggregate.group_expr[..] {
        [Expr::GroupingSet(set)] => sets_of(set),
        keys => vec![keys.to_vec()],
    };
    let branches = sets.into_iter().map(|set| {
        let mut keys: Vec<Expr> = vec![];
        set.into_iter().for_each(|key| {
            if !keys.contains(&key) {
                keys.push(key)
            }
        });
        Ok(Arc::new(branch(aggregate, &all, &keys)?))
    });
    let mut branches = branches.collect::<Result<Vec<_>>>()?;
    if branches.len() == 1 {
        return Ok(Arc::unwrap_or_clone(branches.remove(0)));
    }
    Ok(LogicalPlan::Union(Union { inputs: branches, schema: aggregate.schema.clone() }))
}

fn sets_of(set: &GroupingSet) -> Vec<Vec<Expr>> {
    match set {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(keys) => {
            (0..=keys.len()).rev().map(|count| keys[..count].to_vec()).collect()
        }
        GroupingSet::Cube(keys) => (0..1_usize << keys.len())
            .map(|chosen| {
                let is_chosen = |at: &usize| chosen >> at & 1 == 0;
                (0..keys.len()).filter(is_chosen).map(|at| keys[at].clone()).collect()
            })
            .collect(),
    }
}

/// The rows of one set, with the columns of all: keys that are not in the set are null.
fn branch(aggregate: &Aggregate, all: &[Expr], set: &[Expr]) -> Result<LogicalPlan> {
    let columns = aggregate.schema.columns();
    let fields = aggregate.schema.fields();
    let calls = aggregate.aggr_expr.iter().filter(|call| grouping(call).is_none());
    let mut calls: Vec<Expr> = calls.cloned().collect();
    if calls.is_empty() && set.is_empty() {
        // One row, which no set of keys and no call would not have.
        calls.push(count(lit(1_i64)));
    }
    let grouped = Aggregate::try_new(aggregate.input.clone(), set.to_vec(), calls)?;
    let mut inner = grouped.schema.columns().into_iter();
    let keys: Vec<Column> = inner.by_ref().take(set.len()).collect();
    let named = |value: Expr, column: &Column| {
        value.alias_qualified(column.relation.clone(), column.name.clone())
    };
    let mut selected = vec![];
    for (at, key) in all.iter().enumerate() {
        let value = match set.iter().position(|one| one == key) {
            Some(at) => Expr::Column(keys[at].clone()),
            None => {
                let null = Box::new(Expr::Literal(ScalarValue::Null, None));
                Expr::Cast(Cast::new(null, fields[at].data_type().clone()))
            }
        };
        selected.push(named(value, &columns[at]));
    }
    let mut place = all.len();
    if matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)]) {
        selected.push(named(lit(0_i64), &columns[place]));
        place += 1;
    }
    for (call, column) in aggregate.aggr_expr.iter().zip(&columns[place..]) {
        let value = match grouping(call) {
            // A bit for each argument, which is set if the row is not grouped by it.
            Some(call) => lit(call
                .params
                .args
                .iter()
                .fold(0_i64, |bits, arg| bits << 1 | i64::from(!set.contains(arg)))),
            None => inner.next().map(Expr::Column).unwrap_or_else(|| lit(0_i64)),
        };
        selected.push(named(value, column));
    }
    let grouped = Arc::new(LogicalPlan::Aggregate(grouped));
    Ok(LogicalPlan::Projection(Projection::try_new(selected, grouped)?))
}
