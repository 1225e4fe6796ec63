//! The tables and functions that a query may name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, TableReference, plan_err};
use datafusion_expr::logical_plan::builder::LogicalTableSource;
use datafusion_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion_functions::all_default_functions;
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion_functions_aggregate::all_default_aggregate_functions;
use datafusion_functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion_functions_nested::all_default_nested_functions;
use datafusion_functions_nested::planner::{FieldAccessPlanner, NestedFunctionPlanner};
use datafusion_functions_window::all_default_window_functions;
use datafusion_functions_window::planner::WindowFunctionPlanner;
use euphrates_flow::{Document, Error};
use serde_json::json;

use crate::functions::field_access::ItemPlanner;
use crate::functions::{aggregates, lambdas, planned_aggregates, scalars};
use crate::planned_types::{
    ComparedTypes, ItemsOfText, JoinedLists, TIME, TemporalOperators, TypeNames,
};
use crate::relations::rows_of_name;
use crate::statement::catalog_name;

/// What is known of a table before it is read.
#[derive(Clone, Debug)]
pub struct TableFacts {
    /// Its columns.
    pub schema: SchemaRef,
    /// The bytes of its files, if known.
    pub bytes: Option<u64>,
}

/// A table of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryTable {
    /// Its name in the query.
    pub(crate) name: String,
    /// The names of its columns.
    pub(crate) columns: Vec<String>,
    /// Its columns, with the names that they have in the query.
    pub(crate) schema: SchemaRef,
    /// The bytes of its files, if known.
    pub(crate) bytes: Option<u64>,
    /// The flow whose last module has its rows.
    pub(crate) rows: Document,
}

impl QueryTable {
    /// The table of a name: a given one, whatever its capitals, else files or a collection.
    pub(crate) fn named(
        name: &str,
        given: &BTreeMap<String, Document>,
        facts_of: &dyn Fn(&Document) -> euphrates_flow::Result<TableFacts>,
    ) -> euphrates_flow::Result<QueryTable> {
        let all: Vec<(&String, &Document)> = given.iter().collect();
        let rows = match named(&all, |(known, _)| known, name) {
            Some((_, rows)) => (*rows).clone(),
            None => match rows_of_name(name) {
                Some(rows) => rows,
                None => files(name, given)?,
            },
        };
        let facts = facts_of(&rows).map_err(|error| error.at(format!("table {name}")))?;
        let TableFacts { schema, bytes } = facts;
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(QueryTable { name: name.into(), columns, schema, bytes, rows })
    }
}

/// The item of a name: the one that is spelled like it, else one that differs in capitals.
pub(crate) fn named<'a, T>(
    items: impl IntoIterator<Item = &'a T> + Clone,
    name_of: impl Fn(&T) -> &str,
    name: &str,
) -> Option<&'a T> {
    let exact = items.clone().into_iter().find(|item| name_of(item) == name);
    exact.or_else(|| items.into_iter().find(|item| name_of(item).eq_ignore_ascii_case(name)))
}

/// The flow that reads files or a collection.
fn files(name: &str, given: &BTreeMap<String, Document>) -> euphrates_flow::Result<Document> {
    let mut rows = Document::new("table");
    if let Some(collection) = name.strip_prefix('@') {
        rows.place("read", json!({"collection": collection}), None);
    } else if name.contains(['.', '/', '*']) {
        rows.place("scan", json!({"path": name}), None);
    } else {
        let error = euphrates_flow::error::unknown("table", name, given.keys().map(String::as_str));
        return Err(match given.is_empty() {
            _ if Path::new(name).is_dir() => Error::usage(format!("no table named `{name}`"))
                .remedy(format!("for the folder, write a slash behind its name: from '{name}/'")),
            true => Error::usage(format!("no table named `{name}`")).remedy(format!(
                "give it, eu.sql(…, {name}=eu.scan(\"{name}.parquet\")); or write the path of a \
                 file in quotes, from '{name}.parquet', or the name of a collection, which `create \
                 table` makes, from \"@{name}\"",
            )),
            false => error,
        });
    }
    Ok(rows)
}

/// What the names of a query may mean.
pub(crate) struct QueryCatalog {
    options: ConfigOptions,
    tables: Vec<(String, Arc<dyn TableSource>)>,
}

/// The functions, and what plans operators: the same for all queries, and slow to list.
struct KnownFunctions {
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    windows: HashMap<String, Arc<WindowUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
}

static KNOWN: LazyLock<KnownFunctions> = LazyLock::new(|| KnownFunctions {
    scalars: by_name(
        all_default_functions()
            .into_iter()
            .chain(all_default_nested_functions())
            .chain(scalars::functions()),
        |it| (it.name(), it.aliases()),
    ),
    aggregates: by_name(
        all_default_aggregate_functions()
            .into_iter()
            .map(planned_aggregates::by_name)
            .chain(aggregates::functions()),
        |it| (it.name(), it.aliases()),
    ),
    windows: by_name(all_default_window_functions(), |it| (it.name(), it.aliases())),
    planners: vec![
        Arc::new(ComparedTypes),
        Arc::new(TemporalOperators),
        Arc::new(JoinedLists),
        Arc::new(ItemsOfText),
        Arc::new(NestedFunctionPlanner),
        Arc::new(ItemPlanner),
        Arc::new(FieldAccessPlanner),
        Arc::new(CoreFunctionPlanner::default()),
        Arc::new(AggregateFunctionPlanner {}),
        Arc::new(WindowFunctionPlanner {}),
        Arc::new(DatetimeFunctionPlanner),
        Arc::new(UnicodeFunctionPlanner),
    ],
});

impl QueryCatalog {
    pub(crate) fn new(tables: &[QueryTable]) -> QueryCatalog {
        let source = |table: &QueryTable| {
            let source = Arc::new(LogicalTableSource::new(plain(&table.schema)));
            (table.name.clone(), source as Arc<dyn TableSource>)
        };
        let tables = tables.iter().map(source).collect();
        QueryCatalog { options: ConfigOptions::default(), tables }
    }
}

/// The names of all functions that a query may call, by their kind: `scalar`, `aggregate`, `window`
/// and `lambda`.
///
/// ```
/// let names = euphrates_sql::function_names();
/// assert!(names["scalar"].contains(&"lower".to_string()));
/// assert!(names["window"].contains(&"row_number".to_string()));
/// ```
pub fn function_names() -> BTreeMap<&'static str, Vec<String>> {
    let lambdas: Vec<String> = lambdas::names().map(String::from).collect();
    let sorted = |names: Vec<&String>| {
        // Names that only the planner writes begin so.
        let names = names.into_iter().filter(|name| !name.starts_with('_')).cloned();
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    BTreeMap::from([
        ("scalar", sorted(KNOWN.scalars.keys().collect())),
        ("aggregate", sorted(KNOWN.aggregates.keys().collect())),
        ("window", sorted(KNOWN.windows.keys().collect())),
        ("lambda", sorted(lambdas.iter().collect())),
    ])
}

/// Functions by all their names.
fn by_name<F>(
    functions: impl IntoIterator<Item = Arc<F>>,
    names_of: impl Fn(&F) -> (&str, &[String]),
) -> HashMap<String, Arc<F>> {
    let mut named = HashMap::new();
    for function in functions {
        let (name, aliases) = names_of(&function);
        for name in aliases.iter().map(String::as_str).chain([name]) {
            named.insert(name.to_string(), function.clone());
        }
    }
    named
}

/// The columns with text and values as the planner's functions expect them: not in dictionaries,
/// and times of one unit.
fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let planned = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            DataType::Time32(_) | DataType::Time64(_) => TIME,
            _ => return field.clone(),
        };
        Arc::new(field.as_ref().clone().with_data_type(planned))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl ContextProvider for QueryCatalog {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = catalog_name(&name);
        match named(&self.tables, |(known, _)| known, &name) {
            Some((_, table)) => Ok(table.clone()),
            None => plan_err!("no table named `{name}`"),
        }
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(TypeNames))
    }

    fn create_cte_work_table(&self, _: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(Arc::new(LogicalTableSource::new(schema)))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        KNOWN.scalars.get(&name.to_lowercase()).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        lambdas::function(name)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let name = name.to_lowercase();
        let name = match name.as_str() {
            "variance" => "var",
            "mean" => "avg",
            other => other,
        };
        KNOWN.aggregates.get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        KNOWN.windows.get(&name.to_lowercase()).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &KNOWN.planners
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        KNOWN.scalars.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        vec![]
    }

    fn udaf_names(&self) -> Vec<String> {
        KNOWN.aggregates.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        KNOWN.windows.keys().cloned().collect()
    }
}
