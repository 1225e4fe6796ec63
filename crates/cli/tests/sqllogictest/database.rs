//! A database of one file of tests: collections in a temporary home, by the names of their tables.

use std::collections::BTreeMap;

use euphrates_engine::run::check::open_end;
use euphrates_engine::{Options, go};
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_sql::TableFacts;
use serde_json::json;
use sqllogictest::{DB, DBOutput};
use tempfile::TempDir;

use crate::definitions::Definition;
use crate::values::{self, ColumnType};

/// The name of the engine in conditions.
pub const ENGINE: &str = "euphrates";

/// The memory of a flow: the tables are small, and several files are run at a time.
const MEMORY_BYTES: usize = 256 << 20;

/// The tables that the statements of a file have made.
pub struct Database {
    home: TempDir,
    registry: Registry,
    /// The flows that read the tables; those of views are their queries.
    tables: BTreeMap<String, Document>,
}

impl Database {
    /// A database without tables; its folder is removed when it is dropped.
    pub fn open() -> Result<Database> {
        let home = tempfile::tempdir()
            .map_err(|error| Error::failed(format!("no temporary folder: {error}")))?;
        Ok(Database { home, registry: euphrates_modules::registry(), tables: BTreeMap::new() })
    }

    fn options(&self) -> Options {
        let home = Some(self.home.path().to_path_buf());
        Options { home, memory_bytes: Some(MEMORY_BYTES), cores: Some(2), ..Options::default() }
    }

    fn facts_of(&self, rows: &Document) -> Result<TableFacts> {
        let (schema, bytes) = open_end(rows, &self.registry, &self.options())?;
        Ok(TableFacts { schema, bytes })
    }

    fn flow(&self, text: &str) -> Result<Document> {
        euphrates_sql::flow(text, &self.tables, &|rows| self.facts_of(rows))
    }

    /// Runs a statement as the command `sql` does.
    fn run_statement(&mut self, text: &str) -> Result<DBOutput<ColumnType>> {
        let mut flow = self.flow(text)?;
        let last = flow.modules.last().ok_or_else(|| Error::failed("the query has no modules"))?;
        let (id, module, config) = (last.id.clone(), last.module.clone(), last.config.clone());
        if matches!(module.as_str(), "save" | "write") {
            go(&flow, &self.registry, &self.options())?;
            if let Some(name) = config.get("collection").and_then(|name| name.as_str()) {
                let mut rows = Document::new(name);
                rows.place("read", json!({"collection": name}), None);
                self.tables.insert(name.into(), rows);
            }
            return Ok(DBOutput::StatementComplete(0));
        }
        let sink = flow.place("collect", json!({}), None);
        flow.attach(&id, &sink);
        let report = go(&flow, &self.registry, &self.options())?;
        let collected = report.collected.get(&sink);
        let collected = collected.ok_or_else(|| Error::failed("no rows were collected"))?;
        let fields = collected.schema.fields().iter();
        Ok(DBOutput::Rows {
            types: fields.map(|field| ColumnType::of(field.data_type())).collect(),
            rows: values::rows(&collected.batches)?,
        })
    }

    /// Runs a statement that other engines have.
    fn define(&mut self, definition: Definition) -> Result<DBOutput<ColumnType>> {
        match definition {
            Definition::EmptyTable { name, query } => {
                self.run_statement(&format!("create table \"{name}\" as {query}"))?;
            }
            Definition::View { name, query } => {
                let flow = self.flow(&query)?;
                self.tables.insert(name, flow);
            }
            Definition::Insert(insert) => {
                let rows = self.tables.get(&insert.table);
                let rows = rows.ok_or_else(|| {
                    let known = self.tables.keys().map(String::as_str);
                    euphrates_flow::error::unknown("table", &insert.table, known)
                })?;
                let query = insert.query(&self.facts_of(rows)?.schema)?;
                let name = &insert.table;
                self.run_statement(&format!("create or replace table \"{name}\" as {query}"))?;
            }
            Definition::Drop { names, if_exists } => {
                for name in names {
                    self.drop_table(&name, if_exists)?;
                }
            }
        }
        Ok(DBOutput::StatementComplete(0))
    }

    fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let Some(rows) = self.tables.remove(name) else {
            let known = self.tables.keys().map(String::as_str);
            let error = euphrates_flow::error::unknown("table", name, known);
            return if if_exists { Ok(()) } else { Err(error) };
        };
        let is_table = matches!(&rows.modules[..], [one] if one.module == "read");
        match is_table {
            true => euphrates_store::collection::remove(self.home.path(), name, "drop"),
            false => Ok(()),
        }
    }
}

impl DB for Database {
    type Error = Error;
    type ColumnType = ColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnType>> {
        match Definition::of(sql) {
            Some(definition) => self.define(definition),
            None => self.run_statement(sql),
        }
    }

    fn engine_name(&self) -> &str {
        ENGINE
    }
}
