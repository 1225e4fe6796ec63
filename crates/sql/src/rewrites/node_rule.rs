//! Rules of the optimizer that rewrite one node of a plan at a time.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::LogicalPlan;
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

/// A rule that is applied to each node, parents first.
#[derive(Debug)]
pub(crate) struct NodeRule {
    pub(crate) name: &'static str,
    pub(crate) rewrite: fn(LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>,
}

impl OptimizerRule for NodeRule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan, config)
    }
}
