//! Rows that are used several times: the module `spool` gives them to all that read them.

use datafusion_expr::LogicalPlan;
use euphrates_flow::Result;
use serde_json::json;

use super::{Lowering, PlannedRows};
use crate::rewrites::shared_parts::{is_costly, is_plain};

impl Lowering<'_> {
    /// The rows of a plan. Those of a part that occurs several times are lowered once.
    pub(super) fn stream(&mut self, plan: &LogicalPlan) -> Result<PlannedRows> {
        let known = match self.shared.is_empty() || !is_costly(plan) {
            true => None,
            false => self.shared.get(plan).cloned(),
        };
        match known {
            None => self.unshared(plan),
            Some(Some(rows)) => Ok(rows),
            Some(None) => {
                let rows = self.unshared(plan)?;
                let rows = self.spooled(rows);
                self.shared.insert(plan.clone(), Some(rows.clone()));
                Ok(rows)
            }
        }
    }

    /// The rows of a plan for two that read them.
    pub(super) fn twice(&mut self, plan: &LogicalPlan) -> Result<[PlannedRows; 2]> {
        let rows = self.stream(plan)?;
        if is_plain(plan) {
            return Ok([rows, self.stream(plan)?]);
        }
        let rows = self.spooled(rows);
        Ok([rows.clone(), rows])
    }

    /// The rows, which any number of modules may read.
    fn spooled(&mut self, rows: PlannedRows) -> PlannedRows {
        let is_spool = self.document.node(&rows.id).is_some_and(|node| node.module == "spool");
        let id = if is_spool { rows.id } else { self.behind(&rows.id, "spool", json!({})) };
        PlannedRows { id, ..rows }
    }
}
