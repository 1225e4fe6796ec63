//! Plans a query: its logical plan, without subqueries and with equal keys of joins found.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::TableReference;
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion_optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion_optimizer::{Optimizer, OptimizerContext, OptimizerRule};
use datafusion_sql::planner::{NullOrdering, ParserOptions, SqlToRel};
use datafusion_sql::sqlparser::ast::{Query, Statement};
use euphrates_flow::Result;

use crate::cardinality::Cardinality;
use crate::catalog::{QueryCatalog, QueryTable};
use crate::errors::failed;
use crate::explained::summary;
use crate::join_order::connected_inputs::CONNECTED_INPUTS;
use crate::join_order::equal_keys::EQUAL_KEYS;
use crate::output_names::name_columns;
use crate::relations::lateral_values;
use crate::relations::pivots::described;
use crate::rewrites::distinct_on::DISTINCT_ON;
use crate::rewrites::distinct_sums::DISTINCT_SUMS;
use crate::rewrites::factor_conjuncts::FACTOR_CONJUNCTS;
use crate::rewrites::marks::SELECTED_PREDICATES;
use crate::rewrites::one_row_barriers::ONE_ROW_BARRIERS;
use crate::rewrites::redundant_keys::REDUNDANT_KEYS;
use crate::rewrites::{
    asof, bags, computed_limits, grouping_sets, outer_aggregates, outer_conditions, single_rows,
    unnested, using,
};
use crate::syntax_forms::star_columns;
use crate::syntax_forms::star_items::SelectedColumn;
use crate::syntax_forms::{lateral_aliases, outer_names};
use crate::{checked_syntax, join_order, syntax_forms};

/// What the planner says of a table with names for some of its columns.
const TOO_FEW_NAMES: &str = "names given as column alias";

/// How the error of an unknown column begins.
const NO_COLUMN: &str = "no column named ";

/// The logical plan of a query.
pub(crate) fn plan(mut query: Box<Query>, tables: &[QueryTable]) -> Result<LogicalPlan> {
    let schema_of = |rows| {
        let plan = planned(rows, tables)?;
        Ok(plan.schema().as_arrow().clone())
    };
    described::replace(&mut query, &schema_of, &summary)?;
    star_columns::expand(&mut query, &|rows| columns_of(rows, tables))?;
    let plan = match planned(query.clone(), tables) {
        Err(error) if error.to_string().contains(TOO_FEW_NAMES) => {
            star_columns::name_all(&mut query, &|rows| columns_of(rows, tables))?;
            planned(query, tables)?
        }
        // Without `lateral`, a subquery sees the tables before it where it would see nothing else.
        Err(error) if error.message().starts_with(NO_COLUMN) => {
            if !lateral_values::see_tables_before(&mut query) {
                return Err(error);
            }
            planned(query, tables).map_err(|_| error)?
        }
        other => other?,
    };
    let plan = outer_aggregates::refuse(plan)
        .and_then(asof::lowered)
        .and_then(computed_limits::numbered)
        .and_then(grouping_sets::expanded)
        .and_then(bags::counted)
        .and_then(outer_conditions::lifted)
        .and_then(single_rows::aggregated)
        .and_then(unnested::joins)
        .map_err(failed)?;
    let rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![
        Arc::new(DISTINCT_ON),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(SELECTED_PREDICATES),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(EQUAL_KEYS),
        Arc::new(CONNECTED_INPUTS),
        Arc::new(FACTOR_CONJUNCTS),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(REDUNDANT_KEYS),
        Arc::new(DISTINCT_SUMS),
        Arc::new(ONE_ROW_BARRIERS),
        Arc::new(PushDownFilter::new()),
    ];
    let context = OptimizerContext::new().with_max_passes(8);
    let plan = Optimizer::with_rules(rules).optimize(plan, &context, |_, _| {}).map_err(failed)?;
    join_order::ordered(plan, &Cardinality::new(tables)).map_err(failed)
}

/// The columns of a query's rows, with their tables.
fn columns_of(query: Box<Query>, tables: &[QueryTable]) -> Result<Vec<SelectedColumn>> {
    let plan = using::star_in_left_order(planned(query, tables)?).map_err(failed)?;
    let parts = |table: &TableReference| {
        let parts = [table.catalog(), table.schema(), Some(table.table())];
        parts.into_iter().flatten().map(str::to_string).collect()
    };
    let is_shared = |at: usize| match &plan {
        LogicalPlan::Projection(star) => matches!(star.expr[at], Expr::Alias(_)),
        _ => false,
    };
    let columns = plan.schema().iter().enumerate().map(|(at, (table, field))| SelectedColumn {
        table: table.map(parts).unwrap_or_default(),
        name: field.name().clone(),
        is_shared: is_shared(at),
        fields: match field.data_type() {
            DataType::Struct(fields) => fields.iter().map(|field| field.name().clone()).collect(),
            _ => vec![],
        },
    });
    Ok(columns.collect())
}

/// The plan of a query as the planner makes it.
fn planned(mut query: Box<Query>, tables: &[QueryTable]) -> Result<LogicalPlan> {
    checked_syntax::check(&mut query)?;
    name_columns(&mut query);
    let columns = || tables.iter().flat_map(|table| table.schema.fields());
    lateral_aliases::replace(&mut query, columns().map(|column| column.name().as_str()));
    outer_names::rename(&mut query, columns().map(|column| column.name().as_str()));
    syntax_forms::rewrite(&mut query);
    let catalog = QueryCatalog::new(tables);
    let options = ParserOptions {
        // Numbers keep their digits.
        parse_float_as_decimal: true,
        // Names have one spelling already.
        enable_ident_normalization: false,
        map_string_types_to_utf8view: false,
        default_null_ordering: NullOrdering::NullsLast,
        ..ParserOptions::new()
    };
    let planner = SqlToRel::new_with_options(&catalog, options);
    planner.sql_statement_to_plan(Statement::Query(query)).map_err(failed)
}
