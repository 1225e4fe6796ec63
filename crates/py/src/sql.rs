//! SQL queries as flows.

use std::collections::BTreeMap;

use euphrates_cli::apply_storage;
use euphrates_engine::run::check::open_end;
use euphrates_flow::{Document, Result};
use euphrates_sql::{Explained, TableFacts};
use pyo3::prelude::*;

use crate::data::classes::Schema;
use crate::errors::{OrRaise, to_exception};
use crate::registry::registry;
use crate::running::run_options::RunOptions;
use crate::user_code::{CHECKING, take_cause};

/// The flow of a query, as JSON, whose last module has the rows. `tables` are the flows of its
/// tables by name; the last module of each has the rows. `storage` are options of the stores of
/// paths, as the command line takes them.
#[pyfunction]
#[pyo3(signature = (query, tables, options, storage = vec![]))]
pub fn sql(
    py: Python<'_>,
    query: &str,
    tables: BTreeMap<String, String>,
    options: &str,
    storage: Vec<String>,
) -> PyResult<String> {
    let flow = py.detach(|| {
        let tables =
            tables.iter().map(|(name, json)| Ok((name.clone(), Document::from_json(json)?)));
        let tables = tables.collect::<Result<BTreeMap<_, _>>>()?;
        let options = RunOptions::parse(options)?;
        let facts_of = |rows: &Document| {
            let rows = with_storage(rows.clone(), &storage)?;
            let (schema, bytes) = open_end(&rows, &registry(), &options)?;
            Ok(TableFacts { schema, bytes })
        };
        let flow = euphrates_sql::flow(query, &tables, &facts_of)?;
        Ok(with_storage(flow, &storage)?.to_json())
    });
    flow.map_err(|error| to_exception(py, &error, take_cause(CHECKING)))
}

/// The names of all functions that a query may call, by their kind.
#[pyfunction]
pub fn sql_functions() -> BTreeMap<&'static str, Vec<String>> {
    euphrates_sql::function_names()
}

/// The names of the tables that a query reads.
#[pyfunction]
pub fn sql_tables(py: Python<'_>, query: &str) -> PyResult<Vec<String>> {
    euphrates_sql::tables(query).or_raise(py)
}

/// What a text asks for (`rows`, `plan`, `run`, `columns` or `summary`), and its query.
#[pyfunction]
pub fn sql_explained(py: Python<'_>, query: &str) -> PyResult<(&'static str, String)> {
    let (explained, query) = euphrates_sql::explained(query).or_raise(py)?;
    let explained = match explained {
        Explained::Rows => "rows",
        Explained::Plan => "plan",
        Explained::Run => "run",
        Explained::Columns => "columns",
        Explained::Facts => "summary",
    };
    Ok((explained, query))
}

/// The query that computes the facts of `summarize` of a table `self` with these columns.
#[pyfunction]
pub fn sql_summary(columns: PyRef<'_, Schema>) -> String {
    euphrates_sql::summary(&columns.schema)
}

/// The columns of the rows of a flow: of its last module's first output.
#[pyfunction]
#[pyo3(signature = (document, options, storage = vec![]))]
pub fn columns(
    py: Python<'_>,
    document: &str,
    options: &str,
    storage: Vec<String>,
) -> PyResult<Schema> {
    let schema = py.detach(|| {
        let rows = with_storage(Document::from_json(document)?, &storage)?;
        open_end(&rows, &registry(), &RunOptions::parse(options)?)
    });
    let (schema, _) = schema.map_err(|error| to_exception(py, &error, take_cause(CHECKING)))?;
    Ok(Schema { schema })
}

fn with_storage(mut rows: Document, storage: &[String]) -> Result<Document> {
    if !storage.is_empty() {
        apply_storage(&mut rows, storage)?;
    }
    Ok(rows)
}
