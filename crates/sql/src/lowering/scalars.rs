//! Subqueries that are one value.

use datafusion_common::Column;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{Expr, FetchType, LogicalPlan};
use euphrates_flow::Result;
use serde_json::{Map, json};

use super::{Lowering, PlannedRows};
use crate::errors::failed;
use crate::expressions::{named, quoted};
use crate::rewrites::one_row_barriers::is_barrier;
use crate::statement::unsupported;

impl Lowering<'_> {
    /// The rows with the value of each scalar subquery in these expressions, and the expressions
    /// over them.
    pub(super) fn with_scalars(
        &mut self,
        mut stream: PlannedRows,
        expressions: &[Expr],
    ) -> Result<(PlannedRows, Vec<Expr>)> {
        let mut found = vec![];
        let mut replace = |expression: Expr| {
            Ok(match expression {
                Expr::ScalarSubquery(query) => {
                    let column = Column::new(Some("scalar"), found.len().to_string());
                    found.push((column.clone(), query));
                    Transformed::yes(Expr::Column(column))
                }
                other => Transformed::no(other),
            })
        };
        let replaced = expressions.iter().map(|expression| {
            expression.clone().transform_up(&mut replace).map(|it| it.data).map_err(failed)
        });
        let replaced = replaced.collect::<Result<Vec<_>>>()?;
        for (column, query) in found {
            let value = self.stream(&query.subquery)?;
            let value = match has_one_row(&query.subquery) {
                true => value,
                false => self.only_row(value)?,
            };
            let [(_, name)] = &value.names[..] else {
                return Err(unsupported("a subquery of several columns in an expression"));
            };
            let name = name.clone();
            let names = self.beside(&mut stream, &value.id, &[name])?;
            stream.names.extend(names.into_iter().map(|name| (column.clone(), name)));
        }
        Ok((stream, replaced))
    }

    /// The row of a query in an expression, or a row of a null; several fail.
    fn only_row(&mut self, rows: PlannedRows) -> Result<PlannedRows> {
        let [(column, name)] = &rows.names[..] else { return Ok(rows) };
        let value = self.fresh("value");
        let values = Map::from_iter([(value.clone(), format!("only({})", quoted(name)).into())]);
        let by: [&str; 0] = [];
        let id = self.behind(&rows.id, "aggregate", json!({"by": by, "values": values}));
        let names = vec![(column.clone(), value.clone())];
        Ok(PlannedRows { id, columns: vec![value], names })
    }

    /// Joins the one row of another module to every row, by a key that all rows have; without a row
    /// its values are null. Returns the new names of its columns.
    pub(super) fn beside(
        &mut self,
        stream: &mut PlannedRows,
        one_row: &str,
        columns: &[String],
    ) -> Result<Vec<String>> {
        let (left, right) = (self.fresh("all"), self.fresh("all"));
        let names: Vec<String> = columns.iter().map(|_| self.fresh("scalar")).collect();
        let renamed = columns.iter().zip(&names).map(|(old, new)| named(&quoted(old), new));
        let renamed = renamed.chain([format!("1 as {right}")]).collect::<Vec<_>>();
        let value = self.behind(one_row, "project", json!({"columns": renamed}));
        let columns = ["*".to_string(), format!("1 as {left}")];
        let rows = self.behind(&stream.id, "project", json!({"columns": columns}));
        let on = [json!({"left": left, "right": right})];
        let config = json!({"on": on, "how": "left", "build": "right"});
        let id = self.document.place("join", config, None);
        self.attach(&rows, &id, Some("left"));
        self.attach(&value, &id, Some("right"));
        stream.id = id;
        stream.columns.push(left);
        stream.columns.extend(names.iter().cloned());
        Ok(names)
    }
}

/// Whether a plan has at most one row.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) if is_barrier(limit) => has_one_row(&limit.input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
        }
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        _ => false,
    }
}
