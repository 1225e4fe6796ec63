//! `unnest`.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use datafusion_expr::logical_plan::Unnest;
use datafusion_expr::{Expr, LogicalPlan};
use euphrates_flow::Result;
use serde_json::json;

use super::{Lowering, PlannedRows};
use crate::expressions::{name_of, named, quoted};
use crate::statement::unsupported;

impl Lowering<'_> {
    /// A column for each field of structs.
    fn struct_fields(&mut self, unnest: &Unnest) -> Result<PlannedRows> {
        if !unnest.list_type_columns.is_empty() {
            return Err(unsupported("unnest of a list and of a struct in one selection")
                .remedy("unnest the list in a subquery"));
        }
        let stream = self.stream(&unnest.input)?;
        let inner = unnest.input.schema();
        let mut columns: Vec<String> = stream.columns.clone();
        let (mut texts, mut names) = (vec!["*".to_string()], vec![]);
        let outputs = unnest.schema.columns().into_iter().zip(&unnest.dependency_indices);
        let mut places = vec![0; inner.fields().len()];
        for (column, from) in outputs {
            let source = name_of(&inner.columns()[*from], &stream.names)?.to_string();
            let DataType::Struct(fields) = inner.field(*from).data_type() else {
                names.push((column, source));
                continue;
            };
            if !unnest.struct_type_columns.contains(from) {
                names.push((column, source));
                continue;
            }
            let field = fields[places[*from]].name();
            places[*from] += 1;
            let name = self.fresh("field");
            let text = format!("{}['{}']", quoted(&source), field.replace('\'', "''"));
            texts.push(named(&text, &name));
            columns.push(name.clone());
            names.push((column, name));
        }
        let id = self.behind(&stream.id, "project", json!({"columns": texts}));
        Ok(PlannedRows { id, columns, names })
    }

    /// A row for each item of the lists, in columns of their own: the lists may be selected too.
    pub(super) fn unnest(&mut self, unnest: &Unnest) -> Result<PlannedRows> {
        if !unnest.struct_type_columns.is_empty() {
            return self.struct_fields(unnest);
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

    /// The name of the field that a column of a result is, if `unnest` of a struct has made it.
    pub(super) fn field_at(plan: &LogicalPlan, at: usize) -> Option<String> {
        match plan {
            LogicalPlan::Sort(sort) => Self::field_at(&sort.input, at),
            LogicalPlan::Limit(limit) => Self::field_at(&limit.input, at),
            LogicalPlan::Projection(projection) => {
                let Expr::Column(column) = &projection.expr[at] else { return None };
                let inner = projection.input.schema();
                Self::field_at(&projection.input, inner.maybe_index_of_column(column)?)
            }
            LogicalPlan::Unnest(unnest) => {
                let from = unnest.dependency_indices[at];
                let of = unnest.input.schema().field(from);
                let before =
                    unnest.dependency_indices[..at].iter().filter(|it| **it == from).count();
                match of.data_type() {
                    DataType::Struct(fields) if unnest.struct_type_columns.contains(&from) => {
                        Some(fields[before].name().clone())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
