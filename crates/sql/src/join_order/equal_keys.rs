//! Equalities in the condition of a join become its keys. A join whose keys take nulls for equal
//! keeps them as a condition, since `=` does not.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{NullEquality, Result};
use datafusion_expr::LogicalPlan;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer.
pub(crate) const EQUAL_KEYS: NodeRule = NodeRule { name: "equal_keys", rewrite };

fn rewrite(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty() =>
        {
            Ok(Transformed::no(plan))
        }
        _ => ExtractEquijoinPredicate::new().rewrite(plan, config),
    }
}
