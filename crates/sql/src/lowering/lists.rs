//! `unnest`.

use std::collections::HashSet;

use datafusion_expr::Expr;
use datafusion_expr::logical_plan::Unnest;
use euphrates_flow::Result;
use serde_json::json;

use super::{Lowering, PlannedRows, Reuse};
use crate::expressions::name_of;
use crate::statement::unsupported;

impl Lowering<'_> {
    /// A row for each item of the lists, in columns of their own: the lists may be selected too.
    pub(super) fn unnest(&mut self, unnest: &Unnest) -> Result<PlannedRows> {
        if !unnest.struct_type_columns.is_empty() {
            return Err(unsupported("unnest of a struct").remedy("select its fields: `s.a, s.b`"));
        }
        let mut seen = HashSet::new();
        let is_nested =
            |depth: usize, at: usize, seen: &mut HashSet<usize>| depth > 1 || !seen.insert(at);
        let mut lists = unnest.list_type_columns.iter();
        if lists.any(|(at, list)| is_nested(list.depth, *at, &mut seen)) {
            return Err(
                unsupported("unnest of a list in a list").remedy("unnest it in two queries")
            );
        }
        let inner = unnest.input.schema().columns();
        let stream = self.stream(&unnest.input)?;
        let lists: Vec<usize> = unnest.list_type_columns.iter().map(|(at, _)| *at).collect();
        let columns: Vec<Expr> = lists.iter().map(|at| Expr::Column(inner[*at].clone())).collect();
        let (stream, items) = self.with_columns(stream, &columns, "item", Reuse::Never)?;
        let names = unnest.schema.columns().into_iter().zip(&unnest.dependency_indices);
        let names = names.map(|(column, from)| {
            let item = lists.iter().position(|list| list == from);
            let name = match item {
                Some(number) => items[number].as_str(),
                None => name_of(&inner[*from], &stream.names)?,
            };
            Ok((column, name.to_string()))
        });
        let names = names.collect::<Result<_>>()?;
        let mut config = json!({"columns": items});
        if unnest.options.preserve_nulls() {
            config["keep_empty"] = true.into();
        }
        let id = self.behind(&stream.id, "unnest", config);
        Ok(PlannedRows { id, columns: stream.columns, names })
    }
}
