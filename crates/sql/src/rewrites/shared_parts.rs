//! Finds the parts of a plan that occur several times, so that their rows are computed once.

use std::collections::{HashMap, HashSet};

use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::LogicalPlan;

/// The parts that occur several times and cost more than to read a table.
pub(crate) fn shared_parts(plan: &LogicalPlan) -> Result<HashSet<LogicalPlan>> {
    let mut found = HashMap::new();
    count(plan, &mut found)?;
    let mut shared = HashSet::new();
    for (part, times) in found {
        if times > 1 && !is_volatile(&part)? {
            shared.insert(part);
        }
    }
    Ok(shared)
}

/// Counts the occurrences of parts, but not within those that have occurred before.
fn count(plan: &LogicalPlan, found: &mut HashMap<LogicalPlan, usize>) -> Result<()> {
    if is_costly(plan) {
        let times = found.entry(plan.clone()).or_default();
        *times += 1;
        if *times > 1 {
            return Ok(());
        }
    }
    // The recursive part is lowered to a flow of its own.
    if let LogicalPlan::RecursiveQuery(query) = plan {
        return count(&query.static_term, found);
    }
    plan.apply_subqueries(|query| {
        count(query, found)?;
        Ok(TreeNodeRecursion::Jump)
    })?;
    plan.inputs().into_iter().try_for_each(|input| count(input, found))
}

/// Whether a part is more than rows of a table. Rows in an order would lose it.
pub(crate) fn is_costly(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Aggregate(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::RecursiveQuery(_)
    )
}

/// Whether a part has other values each time.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Whether rows come from a table by themselves, so that to read them twice costs little.
pub(crate) fn is_plain(plan: &LogicalPlan) -> bool {
    let is_kind = matches!(
        plan,
        LogicalPlan::TableScan(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
    );
    is_kind && plan.inputs().into_iter().all(is_plain)
}
