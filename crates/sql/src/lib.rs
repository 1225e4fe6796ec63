//! SQL queries become flows: DataFusion parses a query, resolves its names and removes its
//! subqueries; what remains is lowered to modules, which the engine runs like any others.
//!
//! Expressions keep their text: the modules compile it in their own dialect, so that `filter` and a
//! `where` clause mean the same.

mod cardinality;
mod catalog;
mod checked_syntax;
mod copy_options;
mod errors;
mod explained;
mod expressions;
mod functions;
mod join_order;
mod lowering;
mod output_names;
mod planned_types;
mod planner;
mod relations;
mod rewrites;
mod spelling;
mod statement;
mod syntax_forms;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use euphrates_flow::{Document, Error, Result};

pub use crate::catalog::{TableFacts, function_names};
pub use crate::explained::{Explained, explained, statements, summary};

use crate::catalog::QueryTable;
use crate::statement::Statement;

/// The stack of a planner. Pages that it does not reach are not used.
const STACK_BYTES: usize = 512 << 20;

/// The flow of a statement, whose last module has the rows on its first output, or is a sink.
///
/// `tables` are the flows of the tables with names; the rows of each are on the first output of its
/// last module. Any other name in the statement is the path of files, or `@` and the name of a
/// collection. `facts_of` tells what is known of the rows of such a flow.
///
/// # Errors
///
/// Usage errors name what is unknown or not supported.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::Document;
/// use euphrates_sql::TableFacts;
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// let columns = Schema::new(vec![Field::new("price", DataType::Int64, true)]);
/// let facts_of = |_: &Document| Ok(TableFacts { schema: Arc::new(columns.clone()), bytes: None });
/// let query = "select sum(price) as total from 'sales.parquet'";
/// let flow = euphrates_sql::flow(query, &BTreeMap::new(), &facts_of)?;
/// let modules: Vec<_> = flow.modules.iter().map(|node| node.module.as_str()).collect();
/// assert_eq!(modules, ["scan", "aggregate"]);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn flow(
    text: &str,
    tables: &BTreeMap<String, Document>,
    facts_of: &dyn Fn(&Document) -> Result<TableFacts>,
) -> Result<Document> {
    stacker::grow(STACK_BYTES, || {
        let planned = catch_unwind(AssertUnwindSafe(|| planned(text, tables, facts_of)));
        planned
            .unwrap_or_else(|_| {
                let error = Error::failed("the planner cannot plan this query");
                Err(error.remedy("write it in another way, or in several queries"))
            })
            .map_err(|error| errors::named_text(error, text))
            .map_err(|error| errors::named_function(error, function_names))
    })
}

fn planned(
    text: &str,
    tables: &BTreeMap<String, Document>,
    facts_of: &dyn Fn(&Document) -> Result<TableFacts>,
) -> Result<Document> {
    let mut tokens = statement::tokens(text)?;
    let names = Statement::parse(text, tokens.clone())?.tables()?;
    let tables = names.iter().map(|name| QueryTable::named(name, tables, facts_of));
    let mut tables = tables.collect::<Result<Vec<_>>>()?;
    spelling::one_spelling(&mut tokens, &mut tables);
    let statement = Statement::parse(text, tokens)?;
    let plan = planner::plan(statement.query, &tables)?;
    lowering::lower(&plan, &tables, statement.sink.as_ref(), facts_of)
}

/// The names of the tables that a statement reads, each once, as they are written.
///
/// ```
/// let query = "select * from sales join 'cities.parquet' using (city)";
/// assert_eq!(euphrates_sql::tables(query)?, ["cities.parquet", "sales"]);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn tables(text: &str) -> Result<Vec<String>> {
    stacker::grow(STACK_BYTES, || Statement::parse(text, statement::tokens(text)?)?.tables())
}

#[cfg(test)]
mod tests;
