//! `unnest`.

use std::collections::HashSet;

use datafusion_expr::logical_plan::Unnest;
use euphrates_flow::Result;
use serde_json::json;

use super::{Lowering, PlannedRows};
use crate::expressions::{name_of, named, quoted};
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
        // Nothing else is repeated for each item, least of all the lists.
        let kept = unnest.dependency_indices.iter().filter(|at| !lists.contains(at));
        let kept = kept.map(|at| name_of(&inner[*at], &stream.names).map(str::to_string));
        let mut columns: Vec<String> = vec![];
        for name in kept.collect::<Result<Vec<_>>>()? {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        let mut texts: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let mut items = vec![];
        for at in &lists {
            let item = self.fresh("item");
            texts.push(named(&quoted(name_of(&inner[*at], &stream.names)?), &item));
            items.push(item);
        }
        columns.extend(items.iter().cloned());
        let id = self.behind(&stream.id, "project", json!({"columns": texts}));
        let stream = PlannedRows { id, columns, ..stream };
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
