//! Subqueries that name columns of the query around them in ways that the planner's rules do not
//! know: beside comparisons with `=`, from two levels below, in windows and limits. They become
//! joins with the rows that [`OuterRows`] has for them.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, ExprSchema, JoinType, Result, ScalarValue, plan_err};
use datafusion_expr::expr::InSubquery;
use datafusion_expr::logical_plan::{Aggregate, Distinct, Filter, Join, Projection, Subquery};
use datafusion_expr::logical_plan::{SubqueryAlias, Unnest};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Case, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion_expr::{Operator, lit};
use datafusion_functions_aggregate::expr_fn::count;
use datafusion_optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::rewrites::dependent_joins::{OuterRows, joined, named, renamed};
use crate::rewrites::outer_references::{free, has_column, is_lateral, subquery};
use crate::rewrites::subquery_places::{below, has_subquery};

/// The plan without such subqueries.
pub(crate) fn joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    // The planner does not tell a lateral side of a join whose subqueries alone name the other.
    let is_open = !free(&plan)?.is_empty();
    let mut number = 0;
    let mut fresh = |stem: &str| {
        number += 1;
        format!("{stem}_{number}")
    };
    let joins = plan.transform_down_with_subqueries(|node| {
        let node = below(node, &mut fresh)?;
        let is_new = node.transformed;
        let rewritten = match node.data {
            LogicalPlan::Filter(filter) => filtered(filter, &mut fresh)?,
            LogicalPlan::Projection(projection) => projected(projection, &mut fresh)?,
            LogicalPlan::Join(join) if is_open || is_lateral(&join.right) => {
                lateral(join, &mut fresh)?
            }
            other => Transformed::no(other),
        };
        Ok(Transformed::new(
            rewritten.data,
            is_new || rewritten.transformed,
            TreeNodeRecursion::Continue,
        ))
    });
    joins.map(|joins| joins.data)
}

fn projected(
    projection: Projection,
    fresh: &mut dyn FnMut(&str) -> String,
) -> Result<Transformed<LogicalPlan>> {
    let mut joins = Joins::new(&projection.input, fresh);
    let values = projection.expr.iter().map(|value| joins.value(value.clone()));
    let values = values.collect::<Result<Vec<_>>>()?;
    if !joins.is_changed {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let named = values.into_iter().zip(projection.schema.iter());
    let named = named.map(|(value, (relation, field))| {
        value.unalias().alias_qualified(relation.cloned(), field.name())
    });
    let rows = Projection::try_new(named.collect(), joins.rows)?;
    Ok(Transformed::yes(LogicalPlan::Projection(rows)))
}

fn filtered(
    filter: Filter,
    fresh: &mut dyn FnMut(&str) -> String,
) -> Result<Transformed<LogicalPlan>> {
    let mut joins = Joins::new(&filter.input, fresh);
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let conditions = conditions.into_iter().map(|condition| joins.condition(condition));
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    if !joins.is_changed {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let condition = conjunction(conditions).expect("a filter has a condition");
    let rows = LogicalPlan::Filter(Filter::try_new(condition, joins.rows)?);
    let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
    let rows = LogicalPlanBuilder::from(rows).project(columns)?.build()?;
    Ok(Transformed::yes(rows))
}

/// The rows with the values of the subqueries so far.
struct Joins<'a> {
    /// The rows without these values, which are as many.
    base: Arc<LogicalPlan>,
    rows: Arc<LogicalPlan>,
    fresh: &'a mut dyn FnMut(&str) -> String,
    is_changed: bool,
}

impl<'a> Joins<'a> {
    fn new(rows: &Arc<LogicalPlan>, fresh: &'a mut dyn FnMut(&str) -> String) -> Joins<'a> {
        Joins { base: rows.clone(), rows: rows.clone(), fresh, is_changed: false }
    }

    /// A condition of a filter, for which null is as good as false.
    fn condition(&mut self, condition: Expr) -> Result<Expr> {
        let (test, negated) = match &condition {
            Expr::Not(inner) => match inner.as_ref() {
                Expr::InSubquery(test) => (test, !test.negated),
                _ => return self.value(condition),
            },
            Expr::InSubquery(test) => (test, test.negated),
            _ => return self.value(condition),
        };
        if has_subquery(&test.expr) || self.is_planned(&condition)? {
            return self.value(condition);
        }
        let (value, item) = self.sides(test)?;
        let is_equal = value.eq(item);
        let test = test.subquery.subquery.clone();
        let found = |condition| Filter::try_new(condition, test).map(LogicalPlan::Filter);
        match negated {
            false => Ok(self.exists(&found(is_equal)?)?.is_not_null()),
            // A row that may be equal is as good as one that is.
            true => Ok(self.exists(&found(Expr::IsNotFalse(Box::new(is_equal)))?)?.is_null()),
        }
    }

    /// The expression with columns in the place of subqueries.
    fn value(&mut self, expression: Expr) -> Result<Expr> {
        if !has_subquery(&expression) {
            return Ok(expression);
        }
        let replaced = expression.transform_up(|one| {
            if subquery(&one).is_none() || self.is_planned(&one)? {
                return Ok(Transformed::no(one));
            }
            let negated = |is_negated: bool, test: Expr| match is_negated {
                true => Expr::Not(Box::new(test)),
                false => test,
            };
            Ok(Transformed::yes(match &one {
                Expr::ScalarSubquery(query) => self.scalar(&query.subquery)?,
                Expr::Exists(test) => {
                    let mark = self.exists(&test.subquery.subquery)?;
                    if test.negated { mark.is_null() } else { mark.is_not_null() }
                }
                Expr::InSubquery(test) => negated(test.negated, self.is_in(test)?),
                _ => return Ok(Transformed::no(one)),
            }))
        });
        Ok(replaced?.data)
    }

    /// Whether the planner's rules know what to do with a subquery, or its columns are not here.
    fn is_planned(&self, expression: &Expr) -> Result<bool> {
        let Some(query) = subquery(match expression {
            Expr::Not(inner) => inner,
            other => other,
        }) else {
            return Ok(true);
        };
        let names = free(&query.subquery)?;
        if !names.iter().any(|name| self.rows.schema().has_column(name)) {
            return Ok(true);
        }
        if !names.iter().all(|name| self.rows.schema().has_column(name)) {
            return Ok(false);
        }
        is_simple(expression, query)
    }

    /// The columns of the rows that a plan names.
    fn names(&self, plan: &LogicalPlan) -> Result<Vec<Column>> {
        let names = free(plan)?.into_iter();
        Ok(names.filter(|name| self.rows.schema().has_column(name)).collect())
    }

    /// The column of a subquery's value.
    fn scalar(&mut self, query: &LogicalPlan) -> Result<Expr> {
        let value = Column::new(Some((self.fresh)("subquery")), "value");
        let [of] = &query.schema().columns()[..] else {
            return plan_err!("a subquery that is a value has several columns");
        };
        let of = Expr::Column(of.clone());
        self.join(query, |rows, own| {
            let selected = own.chain([named(of, &value)]);
            LogicalPlanBuilder::from(rows).project(selected)?.build()
        })?;
        Ok(Expr::Column(value))
    }

    /// A column that is null if a subquery has no rows.
    fn exists(&mut self, query: &LogicalPlan) -> Result<Expr> {
        let mark = Column::new(Some((self.fresh)("subquery")), "is_there");
        self.join(query, |rows, own| {
            let rows = LogicalPlanBuilder::from(rows).project(own)?.distinct()?;
            let columns = rows.schema().columns().into_iter().map(Expr::Column);
            let selected: Vec<Expr> = columns.chain([named(lit(true), &mark)]).collect();
            rows.project(selected)?.build()
        })?;
        Ok(Expr::Column(mark))
    }

    /// Joins what a plan has for each row, of which there is one at most.
    fn join(
        &mut self,
        query: &LogicalPlan,
        selected: impl FnOnce(LogicalPlan, Box<dyn Iterator<Item = Expr>>) -> Result<LogicalPlan>,
    ) -> Result<()> {
        let names = self.names(query)?;
        // Each join has its rows twice, so joins of joins would double with each subquery.
        let is_base = names.iter().all(|name| self.base.schema().has_column(name));
        let rows = if is_base { &self.base } else { &self.rows };
        let mut outer = OuterRows::distinct(rows, &names, self.fresh)?;
        let rows = outer.beside(query)?;
        let own: Vec<Column> = outer.columns.iter().map(|(_, own)| own.clone()).collect();
        let right = selected(rows, Box::new(own.clone().into_iter().map(Expr::Column)))?;
        let rows = self.rows.as_ref().clone();
        self.rows = Arc::new(joined(rows, right, &names, &own, None, JoinType::Left)?);
        self.is_changed = true;
        Ok(())
    }

    /// `value in (select item …)`: true if an item is equal, else null if one may be.
    fn is_in(&mut self, test: &InSubquery) -> Result<Expr> {
        let (value, item) = self.sides(test)?;
        let is_equal = value.eq(item);
        let (equal, known, all) = ("equal", "known", "all");
        let calls = vec![
            count(lit(1_i64)).filter(is_equal.clone()).build()?.alias(equal),
            count(is_equal).alias(known),
            count(lit(1_i64)).alias(all),
        ];
        let rows = Aggregate::try_new(test.subquery.subquery.clone(), vec![], calls)?;
        let column = |name: &str| Expr::Column(Column::from_name(name));
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let whens = vec![
            (Box::new(column(equal).gt(lit(0_i64))), Box::new(lit(true))),
            (Box::new(column(all).gt(column(known))), Box::new(null)),
        ];
        let is_in = Expr::Case(Case::new(None, whens, Some(Box::new(lit(false)))));
        let rows = Arc::new(LogicalPlan::Aggregate(rows));
        let rows = Projection::try_new(vec![is_in.alias("is_in")], rows)?;
        self.scalar(&LogicalPlan::Projection(rows))
    }

    /// The value of `in`, as it is named within the subquery, and the item.
    fn sides(&self, test: &InSubquery) -> Result<(Expr, Expr)> {
        let [item] = &test.subquery.subquery.schema().columns()[..] else {
            return plan_err!("the subquery of `in` has several columns");
        };
        let value = test.expr.as_ref().clone().transform_up(|one| match &one {
            Expr::Column(column) => {
                let field = self.rows.schema().field_from_column(column)?;
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), column.clone())))
            }
            _ => Ok(Transformed::no(one)),
        })?;
        Ok((value.data, Expr::Column(item.clone())))
    }
}

/// Whether a subquery is one that the planner's rules make a join of.
fn is_simple(expression: &Expr, query: &Subquery) -> Result<bool> {
    let (expression, is_not) = match expression {
        Expr::Not(inner) => (inner.as_ref(), true),
        other => (other, false),
    };
    // Rows that may be equal, since a value is null, count as well.
    if matches!(expression, Expr::InSubquery(test) if test.negated != is_not) {
        return Ok(false);
    }
    let is_value = matches!(expression, Expr::ScalarSubquery(_));
    let is_exists = matches!(expression, Expr::Exists(_));
    if !has_simple_references(&query.subquery, is_value, is_exists, true)? {
        return Ok(false);
    }
    let test = match expression {
        Expr::InSubquery(test) => {
            let item = query.subquery.head_output_expr()?;
            item.map(|item| test.expr.as_ref().clone().eq(item))
        }
        _ => None,
    };
    let mut pulled = PullUpCorrelatedExpr::new()
        .with_need_handle_count_bug(is_value)
        .with_in_predicate_opt(test)
        .with_exists_sub_query(is_exists);
    let _ = query.subquery.as_ref().clone().rewrite(&mut pulled)?;
    Ok(pulled.can_pull_up)
}

/// Whether the references of a plan are in filters below which nothing depends on them.
fn has_simple_references(
    plan: &LogicalPlan,
    is_value: bool,
    is_exists: bool,
    may_aggregate: bool,
) -> Result<bool> {
    if free(plan)?.is_empty() {
        return Ok(true);
    }
    // From two levels below.
    let mut is_deep = false;
    plan.apply_expressions(|expression| {
        expression.apply(|one| {
            if let Some(query) = subquery(one) {
                let names = free(&query.subquery)?;
                is_deep |= names.iter().any(|name| !has_column(plan, name));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if is_deep {
        return Ok(false);
    }
    let is_own = plan.contains_outer_reference();
    let below = |input: &LogicalPlan, may_aggregate: bool| {
        has_simple_references(input, is_value, is_exists, may_aggregate)
    };
    match plan {
        LogicalPlan::Filter(filter) => below(&filter.input, may_aggregate),
        _ if is_own => Ok(false),
        // Of no rows, other functions than these may have a value.
        LogicalPlan::Projection(projection)
            if is_value && !projection.expr.iter().all(is_null_of_nulls) =>
        {
            Ok(false)
        }
        LogicalPlan::Projection(projection) => below(&projection.input, may_aggregate),
        LogicalPlan::Aggregate(aggregate) => {
            // Of rows that no outer row has, there may be several.
            let is_only = aggregate.aggr_expr.iter().any(
                |call| matches!(call, Expr::AggregateFunction(call) if call.func.name() == "only"),
            );
            let is_total = aggregate.group_expr.is_empty();
            let may = may_aggregate && !is_only && is_total == is_value;
            Ok(may && below(&aggregate.input, false)?)
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            Ok(below(&join.left, may_aggregate)? && below(&join.right, may_aggregate)?)
        }
        LogicalPlan::Distinct(Distinct::All(input)) if !is_value => below(input, may_aggregate),
        LogicalPlan::Limit(limit) if is_exists => below(&limit.input, may_aggregate),
        LogicalPlan::Sort(sort) if is_exists => below(&sort.input, may_aggregate),
        _ => Ok(false),
    }
}

/// Whether an expression is null if its columns are, for all that is looked at here.
fn is_null_of_nulls(expression: &Expr) -> bool {
    let is_strict = |one: &Expr| match one {
        Expr::BinaryExpr(both) => !matches!(both.op, Operator::And | Operator::Or),
        Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::Negative(_) => true,
        Expr::Cast(_) => true,
        _ => false,
    };
    !expression.exists(|one| Ok(!is_strict(one))).unwrap_or(true)
}

/// A join whose right side names columns of its left.
fn lateral(join: Join, fresh: &mut dyn FnMut(&str) -> String) -> Result<Transformed<LogicalPlan>> {
    let mut names = free(&join.right)?;
    names.retain(|name| join.left.schema().has_column(name));
    if names.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let is_inner = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left => false,
        other => return plan_err!("a {other} join cannot be lateral: write it as a left join"),
    };
    let columns = join.schema.columns();
    let is_true = |condition: &Expr| *condition == lit(true);
    let condition = join.filter.clone().filter(|condition| !is_true(condition));
    let kept = if is_inner { None } else { items_or_null(&join.right) };
    if condition.is_none() && kept.is_some() || is_inner && keeps_rows(&join.right) {
        let all = join.left.schema().columns();
        let mut outer = OuterRows::selected(&join.left, &all, fresh)?;
        let mut rows = outer.beside(kept.as_ref().unwrap_or(&join.right))?;
        let replaced: Vec<(Column, Column)> = outer.columns.clone();
        let of_left = columns.iter().take(all.len()).map(|column| {
            let own = replaced.iter().find(|(old, _)| old == column);
            renamed(own.map_or(column, |(_, own)| own), column)
        });
        let of_right = columns.iter().skip(all.len()).cloned().map(Expr::Column);
        let selected: Vec<Expr> = of_left.chain(of_right).collect();
        rows = LogicalPlan::Projection(Projection::try_new(selected, rows.into())?);
        if let Some(condition) = condition {
            rows = LogicalPlan::Filter(Filter::try_new(condition, rows.into())?);
        }
        return Ok(Transformed::yes(rows));
    }
    let mut outer = OuterRows::distinct(&join.left, &names, fresh)?;
    let rows = outer.beside(&join.right)?;
    let own: Vec<Column> = outer.columns.iter().map(|(_, own)| own.clone()).collect();
    let left = Arc::unwrap_or_clone(join.left);
    let rows = joined(left, rows, &names, &own, condition, join.join_type)?;
    let selected: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    let rows = Projection::try_new(selected, rows.into())?;
    Ok(Transformed::yes(LogicalPlan::Projection(rows)))
}

/// Whether each row of a plan is one of the outer row beside it, whatever other outer rows there
/// are.
fn keeps_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(query) => keeps_rows(&query.subquery),
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Unnest(Unnest { input, .. }) => keeps_rows(input),
        LogicalPlan::EmptyRelation(_) | LogicalPlan::TableScan(_) | LogicalPlan::Values(_) => true,
        other => free(other).is_ok_and(|names| names.is_empty()),
    }
}

/// The items of a list of the row, or a null of none.
fn items_or_null(plan: &LogicalPlan) -> Option<LogicalPlan> {
    let mut plan = plan.clone();
    let mut lists = 0;
    let kept = plan.clone().transform_down(|node| match node {
        LogicalPlan::Unnest(mut unnest) => {
            lists += 1;
            unnest.options = unnest.options.with_preserve_nulls(true);
            Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
        }
        other => Ok(Transformed::no(other)),
    });
    plan = kept.ok()?.data;
    let is_plain = |node: &LogicalPlan| {
        matches!(
            node,
            LogicalPlan::Unnest(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Subquery(_)
                | LogicalPlan::EmptyRelation(_)
        )
    };
    let is_other = plan.exists(|node| Ok(!is_plain(node))).unwrap_or(true);
    (lists == 1 && !is_other).then_some(plan)
}
