//! The module `external_sql`: runs a query of DuckDB or Polars over its inputs.

use std::sync::Arc;

use euphrates_flow::spec::{self, PortNames};
use euphrates_flow::{MemoryDemand, ModuleSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::PythonClass;
use crate::interpreter::checking;
use crate::user_code::{CHECKING, call};
use pyo3::prelude::*;

/// The spec of the module.
pub const MODULE: ModuleSpec = ModuleSpec {
    name: "external_sql",
    summary: "Runs an SQL query over its input, with DuckDB or Polars.",
    detail: "The input is a table named `input`: \
             `eu.external_sql(\"select city, sum(price) from input group by city\")`. DuckDB reads \
             it as it flows in and keeps within this module's share of the memory. With \
             `per_batch`, the query is run on every batch by itself, by several instances at the \
             same time, and the order is kept: for queries that look at one row at a time. \
             Polars holds the whole input in memory.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
>>> query = "select city, max(price) as most from input group by city order by city"
>>> flow = eu.Flow()
>>> _ = flow.chain(orders, eu.external_sql(query), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk'], 'most': [5, 3]}"#,
    inputs: PortNames::Configured,
    memory: MemoryDemand::Fixed,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        let kwargs = serde_json::to_value(&config).unwrap_or_default();
        checking(|py| {
            let class = call(py, CHECKING, || {
                py.import("euphrates._user_code.external_sql")?.getattr("Sql").map(Bound::unbind)
            })?;
            let args = serde_json::Value::Array(vec![]);
            Ok(Arc::new(PythonClass::of_class(py, class, &args, &kwargs)?) as _)
        })
    },
    ..ModuleSpec::USUAL
};

/// The query, its inputs, and the engine that executes it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The query; it gives one table.
    pub query: String,
    /// Run it on every batch by itself, in parallel.
    #[serde(default)]
    pub per_batch: bool,
    /// `duckdb` or `polars`; the first of them that is installed if absent.
    #[serde(default)]
    pub engine: Option<String>,
    /// Names of the inputs, each a table of the query; `input` alone if absent. Several are copied
    /// into tables before the query runs.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
}
