//! Conjuncts that all alternatives of a condition share are taken out of it: `(a and b) or (a and
//! c)` becomes `a and (b or c)`, so that `a` is evaluated once, and can be pushed down.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::logical_plan::Filter;
use datafusion_expr::utils::{conjunction, disjunction, split_binary, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, Operator};
use datafusion_optimizer::OptimizerConfig;

use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const FACTOR_CONJUNCTS: NodeRule = NodeRule { name: "factor_conjuncts", rewrite };

fn rewrite(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
    let factored = factored(filter.predicate.clone());
    if factored == filter.predicate {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let filter = Filter::try_new(factored, filter.input)?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// The condition with the shared conjuncts of its disjunctions taken out.
fn factored(condition: Expr) -> Expr {
    let conjuncts = split_conjunction_owned(condition).into_iter().flat_map(factors);
    conjunction(conjuncts.collect::<Vec<_>>()).expect("a condition has a conjunct")
}

/// The conjuncts that a disjunction is equal to.
pub(crate) fn factors(condition: Expr) -> Vec<Expr> {
    let alternatives: Vec<Vec<Expr>> = split_binary(&condition, Operator::Or)
        .into_iter()
        .map(|alternative| split_conjunction_owned(alternative.clone()))
        .collect();
    let [first, others @ ..] = &alternatives[..] else { return vec![condition] };
    let is_shared = |one: &&Expr| others.iter().all(|other| other.contains(one));
    let shared: Vec<Expr> = first.iter().filter(is_shared).cloned().collect();
    if others.is_empty() || shared.is_empty() {
        return vec![condition];
    }
    let rest = alternatives.into_iter().map(|alternative| {
        conjunction(alternative.into_iter().filter(|one| !shared.contains(one)))
    });
    let mut conjuncts = shared.clone();
    // An alternative that is shared as a whole makes the others superfluous.
    if let Some(rest) = rest.collect::<Option<Vec<_>>>() {
        conjuncts.extend(disjunction(rest));
    }
    conjuncts
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;

    #[test]
    fn shared_conjuncts_are_taken_out() {
        let [a, b, c] = ["a", "b", "c"].map(col);
        let both = |x: &Expr, y: &Expr| x.clone().and(y.clone());
        let condition = both(&a, &b).or(both(&a, &c));
        assert_eq!(factored(condition), both(&a, &b.clone().or(c.clone())));
        let absorbed = both(&a, &b).or(a.clone());
        assert_eq!(factored(absorbed), a);
        let different = both(&a, &b).or(c.clone());
        assert_eq!(factored(different.clone()), different);
    }
}
