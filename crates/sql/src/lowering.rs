//! Lowers a logical plan to the modules of a flow.

mod aggregates;
mod joins;
mod limits;
mod lists;
mod recursion;
mod scalars;
mod sets;
mod shared;
mod sorting;
mod windows;

use std::collections::{HashMap, HashSet};

use arrow::datatypes::DataType;
use datafusion_common::Column;
use datafusion_expr::logical_plan::{Projection, TableScan};
use datafusion_expr::{Expr, LogicalPlan};
use euphrates_flow::document::{Document, Port};
use euphrates_flow::{Error, Result};
use serde_json::{Value, json};

use crate::catalog::{QueryTable, TableFacts, named as named_item};
use crate::copy_options::StatementSink;
use crate::errors::failed;
use crate::expressions::{Names, name_of, named, quoted, text_of};
use crate::output_names::{internal, unique};
use crate::rewrites::shared_parts::shared_parts;
use crate::statement::{catalog_name, unsupported};

/// The flow of a plan.
pub(crate) fn lower(
    plan: &LogicalPlan,
    tables: &[QueryTable],
    sink: Option<&StatementSink>,
    facts_of: &dyn Fn(&Document) -> Result<TableFacts>,
) -> Result<Document> {
    let names = tables.iter().flat_map(|table| &table.columns);
    let taken = names.map(|name| name.to_lowercase()).collect();
    let document = Document::new("query");
    let (wanted, work, read) = (HashMap::new(), vec![], None);
    let shared = shared_parts(plan).map_err(failed)?;
    let shared = shared.into_iter().map(|part| (part, None)).collect();
    let mut lowering = Lowering { document, tables, taken, wanted, facts_of, work, read, shared };
    let stream = lowering.stream(plan)?;
    let mut last = lowering.with_result_names(stream, plan)?;
    if let Some(sink) = sink {
        let id = lowering.document.place(sink.module, sink.config.clone(), None);
        lowering.attach(&last, &id, None);
        last = id;
    }
    last_at_end(&mut lowering.document, &last);
    Ok(lowering.document)
}

/// Moves the module that has the rows to the end.
fn last_at_end(document: &mut Document, last: &str) {
    let modules = &mut document.modules;
    let at = modules.iter().position(|node| node.id == last).unwrap_or_default();
    let node = modules.remove(at);
    modules.push(node);
}

/// The rows of a part of a plan.
#[derive(Clone)]
struct PlannedRows {
    /// The module that puts them out.
    id: String,
    /// All its columns, in their order.
    columns: Vec<String>,
    /// Those that the plan knows.
    names: Names,
}

impl PlannedRows {
    /// Whether the plan knows all columns, in their order.
    fn is_exact(&self) -> bool {
        self.columns.iter().eq(self.names.iter().map(|(_, name)| name))
    }

    /// A stream whose columns all have names in the plan.
    fn of(id: String, names: Names) -> PlannedRows {
        PlannedRows { id, columns: names.iter().map(|(_, name)| name.clone()).collect(), names }
    }
}

/// Whether a column stands for an expression that is one.
#[derive(Clone, Copy)]
enum Reuse {
    Always,
    /// For one expression; others are copies.
    Once,
    Never,
}

struct Lowering<'a> {
    document: Document,
    facts_of: &'a dyn Fn(&Document) -> Result<TableFacts>,
    tables: &'a [QueryTable],
    /// Names of columns anywhere in the flow, in small letters.
    taken: HashSet<String>,
    /// The names under which aggregates are selected.
    wanted: HashMap<Column, String>,
    /// The rows of the recursive queries whose step this is, the innermost last.
    work: Vec<WorkTable>,
    /// The modules that have the rows of tables, with the names of these; for a step.
    read: Option<Vec<(String, String)>>,
    /// The parts of the plan that occur several times, with their rows once these are lowered.
    shared: HashMap<LogicalPlan, Option<PlannedRows>>,
}

/// The rows that a step of a recursive query begins with.
#[derive(Clone)]
struct WorkTable {
    name: String,
    columns: Vec<String>,
    /// A flow with rows of the same columns and types.
    rows: Document,
}

impl WorkTable {
    fn is(&self, name: &str) -> bool {
        self.name.to_lowercase() == name.to_lowercase()
    }
}

impl Lowering<'_> {
    fn unshared(&mut self, plan: &LogicalPlan) -> Result<PlannedRows> {
        match plan {
            LogicalPlan::TableScan(scan) => self.table(scan),
            LogicalPlan::SubqueryAlias(alias) => {
                let stream = self.stream(&alias.input)?;
                let columns = alias.schema.columns().into_iter();
                let inner = alias.input.schema().columns();
                let names = columns.zip(inner).map(|(column, inner)| {
                    Ok((column, name_of(&inner, &stream.names)?.to_string()))
                });
                Ok(PlannedRows { names: names.collect::<Result<_>>()?, ..stream })
            }
            LogicalPlan::Filter(filter) => {
                let stream = self.stream(&filter.input)?;
                self.filtered(stream, std::slice::from_ref(&filter.predicate))
            }
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::EmptyRelation(empty) => self.empty(empty),
            LogicalPlan::Subquery(subquery) => self.stream(&subquery.subquery),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::RecursiveQuery(query) => self.recursive(query),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            other => Err(unsupported(&other.display().to_string())),
        }
    }

    fn table(&mut self, scan: &TableScan) -> Result<PlannedRows> {
        let name = catalog_name(&scan.table_name);
        if let Some(work) = self.work.iter().rev().find(|work| work.is(&name)).cloned() {
            let id = self.embed(&work.rows);
            self.note_read(&id, &work.name);
            let columns = scan.projected_schema.columns().into_iter();
            let names = match &scan.projection {
                Some(chosen) => chosen.iter().map(|at| work.columns[*at].clone()).collect(),
                None => work.columns.clone(),
            };
            let names = columns.zip(names).collect();
            return self.filtered(PlannedRows { id, columns: work.columns, names }, &scan.filters);
        }
        let table = named_item(self.tables, |table| &table.name, &name);
        let table = table.ok_or_else(|| Error::failed(format!("no table named `{name}`")))?;
        let id = self.embed(&table.rows);
        self.note_read(&id, &table.name);
        let columns = scan.projected_schema.columns().into_iter();
        let names = match &scan.projection {
            Some(chosen) => chosen.iter().map(|at| table.columns[*at].clone()).collect(),
            None => table.columns.clone(),
        };
        let names = columns.zip(names).collect();
        let stream = PlannedRows { id, columns: table.columns.clone(), names };
        self.filtered(stream, &scan.filters)
    }

    fn note_read(&mut self, id: &str, table: &str) {
        if let Some(read) = &mut self.read {
            read.push((id.to_string(), table.to_string()));
        }
    }

    /// Places all modules of a flow, and returns the id of its last one.
    fn embed(&mut self, rows: &Document) -> String {
        let mut ids = HashMap::new();
        for node in &rows.modules {
            let id = self.document.next_id(&node.module);
            ids.insert(node.id.clone(), id.clone());
            self.document.modules.push(euphrates_flow::document::Node { id, ..node.clone() });
        }
        for edge in &rows.queues {
            let (from, to) = (ids[&edge.from].clone(), ids[&edge.to].clone());
            let edge = euphrates_flow::document::Edge { from, to, ..edge.clone() };
            self.document.queues.push(edge);
        }
        for (name, variable) in &rows.variables {
            self.document.variables.insert(name.clone(), variable.clone());
        }
        self.document.modules.last().map(|node| node.id.clone()).unwrap_or_default()
    }

    fn filtered(&mut self, stream: PlannedRows, conditions: &[Expr]) -> Result<PlannedRows> {
        if conditions.is_empty() {
            return Ok(stream);
        }
        let (stream, conditions) = self.with_scalars(stream, conditions)?;
        let texts = conditions.iter().map(|condition| text_of(condition, &stream.names));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let condition = match &texts[..] {
            [one] => one.clone(),
            several => several.iter().map(|it| format!("({it})")).collect::<Vec<_>>().join(" and "),
        };
        let id = self.behind(&stream.id, "filter", json!({"where": condition}));
        Ok(PlannedRows { id, ..stream })
    }

    fn projection(&mut self, projection: &Projection) -> Result<PlannedRows> {
        for (expression, column) in projection.expr.iter().zip(projection.schema.columns()) {
            if let Some(inner) = plain_column(expression) {
                let wanted = self.wanted.get(&column).cloned().unwrap_or(column.name);
                self.wanted.insert(inner.clone(), wanted);
            }
        }
        let stream = self.stream(&projection.input)?;
        let (stream, expressions) = self.with_scalars(stream, &projection.expr)?;
        let columns = projection.schema.columns();
        // Columns of other names in the plan alone are no module.
        let plain = expressions.iter().map(|expression| plain_column(expression));
        if let Some(plain) = plain.collect::<Option<Vec<_>>>() {
            let names = plain.iter().zip(&columns).map(|(inner, column)| {
                Ok((column.clone(), name_of(inner, &stream.names)?.to_string()))
            });
            return Ok(PlannedRows { names: names.collect::<Result<_>>()?, ..stream });
        }
        let mut used = HashSet::new();
        let (mut texts, mut names) = (vec![], vec![]);
        for (expression, column) in expressions.iter().zip(columns) {
            let name = unique(&internal(&column.name), &mut used);
            self.taken.insert(name.to_lowercase());
            texts.push(named(&text_of(expression, &stream.names)?, &name));
            names.push((column, name));
        }
        let id = self.behind(&stream.id, "project", json!({"columns": texts}));
        Ok(PlannedRows::of(id, names))
    }

    /// The columns of the result, in their order and with their names; the id of the last module.
    fn with_result_names(&mut self, stream: PlannedRows, plan: &LogicalPlan) -> Result<String> {
        let columns = plan.schema().columns();
        let shown = columns
            .iter()
            .enumerate()
            .map(|(at, column)| Self::field_at(plan, at).unwrap_or_else(|| column.name.clone()));
        let shown: Vec<String> = shown.collect();
        let is_named = shown.iter().zip(&stream.names);
        if stream.is_exact() && is_named.clone().all(|(shown, (_, name))| shown == name) {
            return Ok(stream.id);
        }
        let mut used = HashSet::new();
        let texts = columns.iter().zip(&shown).map(|(column, shown)| {
            let text = quoted(name_of(column, &stream.names)?);
            Ok(named(&text, &unique(shown, &mut used)))
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        Ok(self.behind(&stream.id, "project", json!({"columns": texts})))
    }

    /// The rows with a column for each expression, and the names of these: new ones where an
    /// expression is not a column that may be used.
    fn with_columns(
        &mut self,
        mut stream: PlannedRows,
        expressions: &[Expr],
        stem: &str,
        reuse: Reuse,
    ) -> Result<(PlannedRows, Vec<String>)> {
        let (mut columns, mut computed): (Vec<String>, _) = (vec![], vec!["*".to_string()]);
        for expression in expressions {
            let column = plain_column(expression).map(|column| name_of(column, &stream.names));
            let column = column.transpose()?.filter(|name| match reuse {
                Reuse::Always => true,
                Reuse::Once => !columns.iter().any(|other| other == name),
                Reuse::Never => false,
            });
            columns.push(match column {
                Some(name) => name.to_string(),
                None => {
                    let name = self.fresh(stem);
                    computed.push(named(&text_of(expression, &stream.names)?, &name));
                    stream.columns.push(name.clone());
                    name
                }
            });
        }
        if computed.len() > 1 {
            stream.id = self.behind(&stream.id, "project", json!({"columns": computed}));
        }
        Ok((stream, columns))
    }

    /// The types of the columns that a module puts out.
    fn types_of(&self, id: &str) -> Result<HashMap<String, DataType>> {
        let schema = (self.facts_of)(&self.part_of(id))?.schema;
        let fields = schema.fields().iter();
        Ok(fields.map(|field| (field.name().clone(), field.data_type().clone())).collect())
    }

    /// A module with all that it gets rows from.
    fn part_of(&self, id: &str) -> Document {
        let mut needed = vec![id.to_string()];
        let mut rows = Document::new("part");
        while let Some(id) = needed.pop() {
            if rows.node(&id).is_some() {
                continue;
            }
            rows.modules.extend(self.document.node(&id).cloned());
            let queues = self.document.queues.iter().filter(|queue| queue.to == id).cloned();
            rows.queues.extend(queues.inspect(|queue| needed.push(queue.from.clone())));
        }
        // The last module has the rows.
        rows.modules.reverse();
        rows.variables = self.document.variables.clone();
        rows
    }

    /// A name that no column of the flow has: the stem, or the stem and a number.
    fn fresh(&mut self, stem: &str) -> String {
        unique(stem, &mut self.taken)
    }

    /// Places a module behind another one.
    fn behind(&mut self, from: &str, module: &str, config: Value) -> String {
        let id = self.document.place(module, config, None);
        self.attach(from, &id, None);
        id
    }

    fn attach(&mut self, from: &str, to: &str, input: Option<&str>) {
        self.document.attach(from, to).input = input.map(|name| Port::Name(name.into()));
    }
}

/// A column to sort by, as `sort` takes it.
fn order_key(column: &str, key: &datafusion_expr::expr::Sort) -> Value {
    let direction = if key.asc { "" } else { " desc" };
    let nulls = if key.nulls_first { " nulls first" } else { "" };
    let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '_';
    match !column.is_empty() && column.chars().all(is_plain) {
        true => format!("{column}{direction}{nulls}").into(),
        false => json!({
            "column": column, "descending": !key.asc, "nulls_first": key.nulls_first,
        }),
    }
}

/// The column that an expression is, whatever it is called.
fn plain_column(expression: &Expr) -> Option<&Column> {
    match expression {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => plain_column(&alias.expr),
        _ => None,
    }
}
