//! Orders inner joins by greedy operator ordering (Fegaras, DEXA 1998): of all pairs of inputs that
//! a condition connects, the one with the fewest estimated rows is joined next. The tree may be
//! bushy.

pub(crate) mod connected_inputs;
pub(crate) mod equal_keys;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::logical_plan::{Filter, Join, JoinConstraint, Projection};
use datafusion_expr::utils::conjunction;
use datafusion_expr::{Expr, LogicalPlan};

use crate::cardinality::{Cardinality, EqualColumns};

/// Inputs of which all pairs are compared; of more, the order of the query stays.
const INPUTS_MAX: usize = 64;

/// The plan with all its trees of inner joins ordered.
pub(crate) fn ordered(plan: LogicalPlan, estimates: &Cardinality) -> Result<LogicalPlan> {
    let ordered = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        if !is_inner(join) {
            return Ok(Transformed::no(node));
        }
        let mut graph = JoinGraph::default();
        graph.flatten(&node);
        if graph.inputs.len() > INPUTS_MAX || graph.inputs.len() < 3 {
            return Ok(Transformed::no(node));
        }
        let inputs = std::mem::take(&mut graph.inputs).into_iter();
        graph.inputs = inputs.map(|input| ordered(input, estimates)).collect::<Result<_>>()?;
        let joined = graph.joined(estimates)?;
        let plan = LogicalPlan::Projection(Projection::new_from_schema(
            Arc::new(joined),
            Arc::clone(node.schema()),
        ));
        Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
    });
    ordered.map(|ordered| ordered.data)
}

fn is_inner(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

/// The inputs of a tree of inner joins, and the conditions that connect them.
#[derive(Default)]
struct JoinGraph {
    inputs: Vec<LogicalPlan>,
    on: Vec<(Expr, Expr)>,
    filters: Vec<Expr>,
}

/// Some inputs that are joined already.
struct JoinedPart {
    plan: LogicalPlan,
    rows: f64,
    /// The rows without conditions on one table: the bound of a key's number of values.
    base_rows: f64,
}

impl JoinGraph {
    fn flatten(&mut self, plan: &LogicalPlan) {
        match plan {
            LogicalPlan::Join(join) if is_inner(join) => {
                self.flatten(&join.left);
                self.flatten(&join.right);
                self.on.extend(join.on.iter().cloned());
                self.filters.extend(join.filter.iter().cloned());
            }
            other => self.inputs.push(other.clone()),
        }
    }

    /// The join of all inputs.
    fn joined(self, estimates: &Cardinality) -> Result<LogicalPlan> {
        let JoinGraph { inputs, mut on, mut filters } = self;
        let mut classes = EqualColumns::default();
        for (left, right) in &on {
            if let (Expr::Column(left), Expr::Column(right)) = (left, right) {
                classes.unite(left, right);
            }
        }
        let part = |plan: LogicalPlan| {
            let (rows, base_rows) = (estimates.rows(&plan), estimates.base_rows(&plan));
            JoinedPart { plan, rows, base_rows }
        };
        let mut parts: Vec<JoinedPart> = inputs.into_iter().map(part).collect();
        let values = values_of_classes(&classes, &on, &parts);
        while parts.len() > 1 {
            let (left, right, rows) = cheapest(&parts, &on, &classes, &values);
            let second = parts.remove(right);
            let first = parts.remove(left);
            let base_rows = first.base_rows.max(second.base_rows);
            let plan = join(first.plan, second.plan, &mut on, &mut filters)?;
            parts.push(JoinedPart { plan, rows, base_rows });
        }
        let plan = parts.remove(0).plan;
        // Conditions on no column, or on columns that were known too late.
        let left = on.into_iter().map(|(left, right)| left.eq(right)).chain(filters);
        match conjunction(left) {
            Some(left) => Ok(LogicalPlan::Filter(Filter::try_new(left, Arc::new(plan))?)),
            None => Ok(plan),
        }
    }
}

/// The number of values of each class of equal columns: at most the rows of the smallest table that
/// has one of them.
fn values_of_classes(
    classes: &EqualColumns,
    on: &[(Expr, Expr)],
    parts: &[JoinedPart],
) -> HashMap<usize, f64> {
    let mut values: HashMap<usize, f64> = HashMap::new();
    for key in on.iter().flat_map(|(left, right)| [left, right]) {
        let Expr::Column(column) = key else { continue };
        let Some(class) = classes.class(column) else { continue };
        for part in parts.iter().filter(|part| part.plan.schema().has_column(column)) {
            let known = values.entry(class).or_insert(f64::INFINITY);
            *known = known.min(part.base_rows);
        }
    }
    values
}

/// The pair of parts to join next, the earlier one first, and the rows of their join. Pairs without
/// a condition come last.
fn cheapest(
    parts: &[JoinedPart],
    on: &[(Expr, Expr)],
    classes: &EqualColumns,
    values: &HashMap<usize, f64>,
) -> (usize, usize, f64) {
    let mut best = (0, 1, f64::INFINITY);
    let mut best_is_connected = false;
    for left in 0..parts.len() {
        for right in left + 1..parts.len() {
            let (one, other) = (&parts[left], &parts[right]);
            let mut keys = vec![];
            for (a, b) in on.iter().filter(|pair| connects(pair, &one.plan, &other.plan)) {
                let class = |side: &Expr| match side {
                    Expr::Column(column) => classes.class(column),
                    _ => None,
                };
                let key = class(a).or_else(|| class(b));
                if key.is_none() || !keys.contains(&key) {
                    keys.push(key);
                }
            }
            let most = one.base_rows.min(other.base_rows);
            let of_key = |key: &Option<usize>| {
                key.and_then(|class| values.get(&class)).copied().unwrap_or(most)
            };
            let count = keys.iter().map(of_key).product::<f64>().min(most.max(1.0));
            let is_connected = !keys.is_empty();
            let rows = (one.rows * other.rows / count.max(1.0)).max(1.0);
            if (is_connected && !best_is_connected)
                || (is_connected == best_is_connected && rows < best.2)
            {
                best = (left, right, rows);
                best_is_connected = is_connected;
            }
        }
    }
    best
}

/// Whether a condition compares a value of one plan with a value of the other.
fn connects((a, b): &(Expr, Expr), left: &LogicalPlan, right: &LogicalPlan) -> bool {
    (is_of(a, left) && is_of(b, right)) || (is_of(a, right) && is_of(b, left))
}

/// Whether an expression has columns, all of which a plan has.
fn is_of(expression: &Expr, plan: &LogicalPlan) -> bool {
    let columns = expression.column_refs();
    !columns.is_empty() && has_all(columns, plan)
}

fn has_all<'a>(columns: impl IntoIterator<Item = &'a Column>, plan: &LogicalPlan) -> bool {
    columns.into_iter().all(|column| plan.schema().has_column(column))
}

/// The inner join of two plans by all conditions over their columns, which are taken out.
fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    on: &mut Vec<(Expr, Expr)>,
    filters: &mut Vec<Expr>,
) -> Result<LogicalPlan> {
    let (mut keys, mut rest) = (vec![], vec![]);
    for pair in on.drain(..) {
        match connects(&pair, &left, &right) {
            true if is_of(&pair.0, &left) => keys.push(pair),
            true => keys.push((pair.1, pair.0)),
            false => rest.push(pair),
        }
    }
    *on = rest;
    let schema = left.schema().join(right.schema())?;
    let is_known = |filter: &Expr| filter.column_refs().iter().all(|one| schema.has_column(one));
    let (known, unknown): (Vec<Expr>, Vec<Expr>) = filters.drain(..).partition(is_known);
    *filters = unknown;
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        keys,
        conjunction(known),
        JoinType::Inner,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok(LogicalPlan::Join(join))
}
