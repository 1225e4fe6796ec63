//! `order by`, and the first rows of an order.

use datafusion_expr::Expr;
use datafusion_expr::logical_plan::Sort;
use euphrates_flow::Result;
use serde_json::{Value, json};

use super::aggregates::order_of;
use super::{Lowering, PlannedRows, Reuse, order_key};

impl Lowering<'_> {
    pub(super) fn sort(&mut self, sort: &Sort) -> Result<PlannedRows> {
        let stream = self.stream(&sort.input)?;
        let keys = sort.expr.iter().map(|key| order_of(key, sort.input.schema()));
        let expressions: Vec<Expr> = keys.collect();
        let (stream, expressions) = self.with_scalars(stream, &expressions)?;
        let (mut stream, columns) =
            self.with_columns(stream, &expressions, "order", Reuse::Always)?;
        let mut by: Vec<Value> = vec![];
        for (key, column) in sort.expr.iter().zip(columns) {
            by.push(order_key(&column, key));
        }
        stream.id = self.behind(&stream.id, "sort", json!({"by": by}));
        if let Some(rows) = sort.fetch {
            stream.id = self.behind(&stream.id, "limit", json!({"rows": rows}));
        }
        Ok(stream)
    }
}
