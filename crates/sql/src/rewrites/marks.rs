//! `in (select …)` and `exists (select …)` among selected columns, and where a condition asks for
//! the contrary of such a test: joins that mark each row.
//!
//! The planner makes marks of subqueries in the conditions of a filter, so each predicate becomes
//! one of a filter that keeps all rows. A mark does not know nulls: `a in (select b …)` is null if
//! no `b` is equal and `a`, or some `b`, is null, which two more marks tell.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, ScalarValue, internal_err};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::logical_plan::{Filter, Projection, Subquery};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Case, Expr, LogicalPlan, Operator, lit};
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrites::node_rule::NodeRule;

/// The rule of the optimizer, which comes before that which makes joins of subqueries.
pub(crate) const SELECTED_PREDICATES: NodeRule = NodeRule { name: "selected_predicates", rewrite };

fn rewrite(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let projection = match plan {
        LogicalPlan::Projection(projection) => projection,
        LogicalPlan::Filter(filter) => return filtered(filter, config),
        other => return Ok(Transformed::no(other)),
    };
    if !projection.expr.iter().any(has_predicate) {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let Projection { expr, input, schema, .. } = projection;
    let mut marks = Marks { rows: Arc::unwrap_or_clone(input), config };
    let selected = expr.into_iter().zip(schema.iter()).map(|(expression, (relation, field))| {
        let of = |predicate: Expr| marks.replaced(predicate);
        let replaced = expression.unalias().transform_down(of)?.data;
        Ok(replaced.alias_qualified(relation.cloned(), field.name()))
    });
    let selected = selected.collect::<Result<Vec<_>>>()?;
    let rows = Projection::try_new(selected, Arc::new(marks.rows))?;
    Ok(Transformed::yes(LogicalPlan::Projection(rows)))
}

/// A filter whose conditions depend on whether a predicate is false or null.
fn filtered(filter: Filter, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let conjuncts = split_conjunction_owned(filter.predicate.clone());
    if !conjuncts.iter().any(|conjunct| !is_predicate(conjunct) && asks_for_contrary(conjunct)) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
    let mut marks = Marks { rows: Arc::unwrap_or_clone(filter.input.clone()), config };
    let replaced = conjuncts.into_iter().map(|conjunct| match is_predicate(&conjunct) {
        true => Ok(conjunct),
        false => Ok(conjunct.transform_down(|one| marks.replaced(one))?.data),
    });
    let replaced = replaced.collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(replaced).expect("there are some");
    let rows = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(marks.rows))?);
    let selected = Projection::try_new(columns.collect(), Arc::new(rows))?;
    Ok(Transformed::yes(LogicalPlan::Projection(selected)))
}

/// Whether an expression is a test of a subquery, which the planner makes a join of.
fn is_predicate(expression: &Expr) -> bool {
    match expression {
        Expr::Not(inner) => is_predicate(inner),
        other => matches!(other, Expr::InSubquery(_) | Expr::Exists(_)),
    }
}

/// Whether a null of `in` is not as good as false.
fn asks_for_contrary(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => {
            asks_for_contrary(&both.left) || asks_for_contrary(&both.right)
        }
        Expr::InSubquery(test) => test.negated,
        other => has_predicate(other),
    }
}

fn has_predicate(expression: &Expr) -> bool {
    let is_one = |one: &Expr| Ok(matches!(one, Expr::InSubquery(_) | Expr::Exists(_)));
    expression.exists(is_one).unwrap_or(false)
}

/// The rows with the marks made so far.
struct Marks<'a> {
    rows: LogicalPlan,
    config: &'a dyn OptimizerConfig,
}

impl Marks<'_> {
    /// The expression in place of a predicate.
    fn replaced(&mut self, expression: Expr) -> Result<Transformed<Expr>> {
        // The new expression has no subqueries below it.
        let done = |it: Expr| Transformed::new(it, true, TreeNodeRecursion::Jump);
        match expression {
            Expr::Exists(_) => Ok(done(self.mark(expression)?)),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let is_in = self.is_in(*expr, subquery)?;
                Ok(done(if negated { Expr::Not(Box::new(is_in)) } else { is_in }))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn is_in(&mut self, value: Expr, query: Subquery) -> Result<Expr> {
        let [of] = &query.subquery.schema().columns()[..] else {
            return internal_err!("the subquery of `in` has several columns");
        };
        let nulls = Filter::try_new(Expr::Column(of.clone()).is_null(), query.subquery.clone())?;
        let nulls = Subquery { subquery: Arc::new(LogicalPlan::Filter(nulls)), ..query.clone() };
        let exists = |subquery| Expr::Exists(Exists { subquery, negated: false });
        let is_found = self.mark(Expr::InSubquery(InSubquery {
            expr: Box::new(value.clone()),
            subquery: query.clone(),
            negated: false,
        }))?;
        let (is_some, has_null) = (self.mark(exists(query))?, self.mark(exists(nulls))?);
        let null = || Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
        let whens = vec![
            (Box::new(is_found), Box::new(lit(true))),
            (Box::new(value.is_null().and(is_some)), null()),
            (Box::new(has_null), null()),
        ];
        Ok(Expr::Case(Case::new(None, whens, Some(Box::new(lit(false))))))
    }

    /// The column that marks the rows for which a predicate holds.
    fn mark(&mut self, predicate: Expr) -> Result<Expr> {
        let columns: Vec<Column> = self.rows.schema().columns();
        let condition = predicate.or(lit(true));
        let filter = Filter::try_new(condition, Arc::new(self.rows.clone()))?;
        let rule = DecorrelatePredicateSubquery::new();
        let mut plan = rule.rewrite(LogicalPlan::Filter(filter), self.config)?.data;
        // The columns without marks are selected.
        if let LogicalPlan::Projection(projection) = &plan
            && projection.schema.fields().len() == columns.len()
        {
            plan = projection.input.as_ref().clone();
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate: Expr::BinaryExpr(either), input, .. })
                if either.op == Operator::Or =>
            {
                self.rows = Arc::unwrap_or_clone(input);
                Ok(*either.left)
            }
            other => internal_err!("no mark in {}", other.display()),
        }
    }
}
