//! `with recursive`: the recursive part is a flow of its own, which the module `recurse` runs.

use std::collections::{HashMap, HashSet};

use datafusion_expr::logical_plan::RecursiveQuery;
use euphrates_flow::document::Document;
use euphrates_flow::{Error, Result};
use serde_json::{Map, Value, json};

use super::{Lowering, PlannedRows, WorkTable, last_at_end};
use crate::catalog::named as named_item;
use crate::expressions::{cast_text, name_of, named, quoted};
use crate::output_names::{internal, unique};

impl Lowering<'_> {
    pub(super) fn recursive(&mut self, query: &RecursiveQuery) -> Result<PlannedRows> {
        let columns = query.schema.columns();
        let mut used = HashSet::new();
        let stream_names = columns.iter().map(|column| unique(&internal(&column.name), &mut used));
        let stream_names: Vec<String> = stream_names.collect();
        let start = self.stream(&query.static_term)?;
        let real = self.types_of(&start.id)?;
        let (mut texts, mut types) = (vec![], vec![]);
        let known = query.static_term.schema().columns();
        for (at, column) in known.iter().enumerate() {
            let name = name_of(column, &start.names)?;
            let planned = query.schema.field(at).data_type();
            let is_same = query.static_term.schema().field(at).data_type() == planned;
            let of = real.get(name).filter(|of| is_same && !of.is_null()).unwrap_or(planned);
            let text = match real.get(name) == Some(of) {
                true => quoted(name),
                false => cast_text(name, of)?,
            };
            texts.push(named(&text, &stream_names[at]));
            types.push(of.clone());
        }
        let start = self.behind(&start.id, "project", json!({"columns": texts}));
        let work = WorkTable {
            name: query.name.clone(),
            columns: stream_names.clone(),
            rows: self.part_of(&start),
        };
        let mut step = Lowering {
            document: Document::new("step"),
            facts_of: self.facts_of,
            tables: self.tables,
            taken: self.taken.clone(),
            wanted: HashMap::new(),
            work: self.work.iter().cloned().chain([work]).collect(),
            read: Some(vec![]),
            shared: HashMap::new(),
        };
        let rows = step.stream(&query.recursive_term)?;
        let real = step.types_of(&rows.id)?;
        let mut texts = vec![];
        for (at, column) in query.recursive_term.schema().columns().iter().enumerate() {
            let name = name_of(column, &rows.names)?;
            let text = match real.get(name) == Some(&types[at]) {
                true => quoted(name),
                false => cast_text(name, &types[at])?,
            };
            texts.push(named(&text, &stream_names[at]));
        }
        let last = step.behind(&rows.id, "project", json!({"columns": texts}));
        // Inputs take the places of the tables, which were there for their types.
        let mut inputs: Vec<String> = vec![query.name.clone()];
        for (id, table) in step.read.take().unwrap_or_default() {
            let input = match inputs.iter().position(|known| *known == table) {
                Some(input) => input,
                None => {
                    inputs.push(table);
                    inputs.len() - 1
                }
            };
            replace(&mut step.document, &id, input);
        }
        last_at_end(&mut step.document, &last);
        let step_document: Value = serde_json::from_str(&step.document.to_json())
            .map_err(|error| Error::failed(error.to_string()))?;
        let config = json!({"step": step_document, "distinct": query.is_distinct});
        let id = self.behind(&start, "recurse", config);
        for table in &inputs[1..] {
            let rows = self.rows_of(table)?;
            let rows = self.embed(&rows);
            self.note_read(&rows, table);
            self.attach(&rows, &id, None);
        }
        Ok(PlannedRows::of(id, columns.into_iter().zip(stream_names).collect()))
    }

    /// The flow of a table, or of the rows of a recursive query around.
    fn rows_of(&self, name: &str) -> Result<Document> {
        if let Some(work) = self.work.iter().rev().find(|work| work.is(name)) {
            return Ok(work.rows.clone());
        }
        let table = named_item(self.tables, |table| &table.name, name);
        let table = table.ok_or_else(|| Error::failed(format!("no table named `{name}`")))?;
        Ok(table.rows.clone())
    }
}

/// Puts the input of a step in the place of a module and of what is only there for it.
fn replace(step: &mut Document, id: &str, input: usize) {
    let mut gone = vec![id.to_string()];
    let mut at = 0;
    while at < gone.len() {
        let from = step.queues.iter().filter(|queue| queue.to == gone[at]);
        gone.extend(from.map(|queue| queue.from.clone()).collect::<Vec<_>>());
        step.queues.retain(|queue| queue.to != gone[at]);
        at += 1;
    }
    step.modules.retain(|node| node.id == id || !gone.contains(&node.id));
    for node in step.modules.iter_mut().filter(|node| node.id == id) {
        node.module = "given".into();
        node.config = Map::from_iter([("input".to_string(), Value::from(input))]);
        node.count = None;
    }
}
