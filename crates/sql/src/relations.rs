//! Tables in a query that the planner does not know, written as subqueries that it does: `pivot`,
//! `unpivot`, `range(…)`, and `with` under a name that is taken already.

pub(crate) mod asof_tokens;
pub(crate) mod comprehension_tokens;
pub(crate) mod exclusion_tokens;
pub(crate) mod from_tokens;
pub(crate) mod glob_tokens;
mod inner_names;
pub(crate) mod lambda_tokens;
pub(crate) mod lateral_values;
pub(crate) mod limit_tokens;
mod main_schema;
pub(crate) mod membership_tokens;
pub(crate) mod number_tokens;
pub(crate) mod pivots;
pub(crate) mod plain_tokens;
pub(crate) mod power_tokens;
pub(crate) mod sampled;
mod series;
pub(crate) mod star_tokens;
pub(crate) mod struct_tokens;
mod texts;

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, VisitMut, VisitorMut};
use euphrates_flow::{Error, Result};

pub(crate) use series::rows_of_name;
pub(crate) use texts::{parsed_expression, parsed_query};

/// Rewrites all such tables of a query.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    main_schema::drop_from_names(query);
    inner_names::rename(query);
    series::column_names::replace(query);
    let counts_from_zero = lateral_values::counts_from_zero(query);
    match query.visit(&mut Relations { counts_from_zero }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Relations {
    /// Whether columns of `values` are `col0` and so on.
    counts_from_zero: bool,
}

impl VisitorMut for Relations {
    type Break = Error;

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        let sample = sampled::take(table);
        let rewritten = match table {
            TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => pivots::as_query(table),
            TableFactor::Table { args: Some(_), .. } => series::as_query(table),
            TableFactor::UNNEST { .. } => series::items(table),
            TableFactor::Derived { subquery, alias, .. } => {
                if self.counts_from_zero {
                    lateral_values::count_from_zero(subquery, alias);
                }
                lateral_values::of_columns(subquery).map(|()| None)
            }
            _ => Ok(None),
        };
        match rewritten {
            Ok(Some(other)) => *table = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        match sample.map(|sample| sampled::as_query(table, &sample)) {
            Some(Ok(other)) => *table = other,
            None => {}
            Some(Err(error)) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    /// `in (values …)`: the planner selects from a query with a `select`.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(test) = membership_tokens::unmarked(expr) {
            *expr = test;
        }
        if let Expr::Function(call) = expr
            && let Some(lambda) = lambda_tokens::unmarked(call)
        {
            *expr = lambda;
        }
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
