//! Tables in a query that the planner does not know, written as subqueries that it does: `pivot`,
//! `unpivot`, `range(…)`, and `with` under a name that is taken already.

pub(crate) mod asof_tokens;
mod inner_names;
pub(crate) mod pivots;
mod series;

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, VisitMut, VisitorMut};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::parser::Parser;
use euphrates_flow::{Error, Result};

pub(crate) use series::rows_of_name;

/// Rewrites all such tables of a query.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    inner_names::rename(query);
    match query.visit(&mut Relations) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Relations;

impl VisitorMut for Relations {
    type Break = Error;

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        let rewritten = match table {
            TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => pivots::as_query(table),
            TableFactor::Table { args: Some(_), .. } => series::as_query(table),
            _ => Ok(None),
        };
        match rewritten {
            Ok(Some(other)) => *table = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    /// `in (values …)`: the planner selects from a query with a `select`.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::InSubquery { subquery, .. } | Expr::Subquery(subquery) = expr
            && matches!(subquery.body.as_ref(), SetExpr::Values(_))
        {
            match parsed_query(&format!("select * from ({subquery}) as inner_values")) {
                Ok(query) => **subquery = query,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The query of a text that was written here.
pub(crate) fn parsed_query(text: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(text);
    let parsed = parsed.and_then(|mut parser| parser.parse_query());
    parsed
        .map(|query| *query)
        .map_err(|error| Error::usage(format!("the query cannot be parsed: {error}")))
}

/// The expression of a text that was written here.
pub(crate) fn parsed_expression(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}

/// A subquery in the place of a table.
pub(crate) fn derived(
    text: &str,
    alias: Option<datafusion_sql::sqlparser::ast::TableAlias>,
) -> Result<TableFactor> {
    Ok(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(parsed_query(text)?),
        alias,
        sample: None,
    })
}

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
