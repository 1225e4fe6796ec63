//! A subquery beside each row of the query around it, without references to that row: the rows move
//! down into the subquery, to where they are named (Neumann & Kemper, Unnesting Arbitrary Queries,
//! BTW 2015).
//!
//! What moves down are the distinct values that the subquery names, so that its aggregates are
//! computed once for each; or, where nothing is aggregated, the rows themselves.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion_common::tree_node::TreeNode;
use datafusion_common::{
    Column, DFSchemaRef, ExprSchema, JoinType, NullEquality, Result, ScalarValue,
};
use datafusion_common::{TableReference, plan_err};
use datafusion_expr::expr::{AggregateFunction, WindowFunction};
use datafusion_expr::logical_plan::{Aggregate, Distinct, Filter, Join, JoinConstraint, Limit};
use datafusion_expr::logical_plan::{Projection, Sort, Subquery, Union, Unnest, Window};
use datafusion_expr::{Case, Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder};
use datafusion_expr::{SkipType, lit};
use datafusion_functions_window::row_number::row_number_udwf;
use datafusion_optimizer::OptimizerContext;

use crate::output_names::unique;
use crate::rewrites::distinct_on::DISTINCT_ON;
use crate::rewrites::outer_references::{Replacements, free, is_lateral, resolved, subquery};

/// Rows of the query around a subquery.
pub(crate) struct OuterRows<'a> {
    rows: LogicalPlan,
    /// The columns that the subquery may name, and those of `rows`.
    pub(crate) columns: Replacements,
    fresh: &'a mut dyn FnMut(&str) -> String,
}

impl<'a> OuterRows<'a> {
    /// The distinct values of some columns.
    pub(crate) fn distinct(
        rows: &LogicalPlan,
        columns: &[Column],
        fresh: &'a mut dyn FnMut(&str) -> String,
    ) -> Result<OuterRows<'a>> {
        let outer = OuterRows::selected(rows, columns, fresh)?;
        let rows = LogicalPlanBuilder::from(outer.rows).distinct()?.build()?;
        Ok(OuterRows { rows, ..outer })
    }

    /// All rows, with some columns.
    pub(crate) fn selected(
        rows: &LogicalPlan,
        columns: &[Column],
        fresh: &'a mut dyn FnMut(&str) -> String,
    ) -> Result<OuterRows<'a>> {
        let relation = TableReference::bare(fresh("outer"));
        let mut taken = HashSet::new();
        // Columns of the subquery may have the names of these.
        let new = |column: &Column| {
            let name = unique(&format!("{}_{}", relation.table(), column.name), &mut taken);
            Column::new(Some(relation.clone()), name)
        };
        let new: Vec<Column> = columns.iter().map(new).collect();
        let selected = columns.iter().zip(&new).map(|(old, new)| renamed(old, new));
        let rows = LogicalPlanBuilder::from(rows.clone()).project(selected)?.build()?;
        Ok(OuterRows { rows, columns: columns.iter().cloned().zip(new).collect(), fresh })
    }

    fn own(&self) -> Vec<Expr> {
        self.columns.iter().map(|(_, new)| Expr::Column(new.clone())).collect()
    }

    fn resolved(&self, expression: &Expr, inputs: &[DFSchemaRef]) -> Result<Expr> {
        resolved(expression.clone(), &self.columns, inputs)
    }

    /// Pairs of these rows and those that a plan has for them. The columns of these rows come
    /// beside those of the plan.
    pub(crate) fn beside(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let names = free(plan)?;
        if !self.columns.iter().any(|(old, _)| names.contains(old)) {
            return match plan {
                LogicalPlan::EmptyRelation(one) if one.produce_one_row => Ok(self.rows.clone()),
                other => {
                    LogicalPlanBuilder::from(self.rows.clone()).cross_join(other.clone())?.build()
                }
            };
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let inputs = [filter.input.schema().clone()];
                let condition = self.resolved(&filter.predicate, &inputs)?;
                let rows = Arc::new(self.beside(&filter.input)?);
                Ok(LogicalPlan::Filter(Filter::try_new(condition, rows)?))
            }
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => {
                let rows = self.beside(&alias.input)?;
                let inner = alias.input.schema().columns();
                let pairs = inner.iter().map(|it| Expr::Column(it.clone()));
                self.with_names(rows, pairs.collect(), &alias.schema)
            }
            LogicalPlan::Subquery(Subquery { subquery, .. }) => self.beside(subquery),
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                self.total(aggregate)
            }
            LogicalPlan::Aggregate(aggregate) => self.grouped(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.beside(input)?).distinct()?.build()
            }
            LogicalPlan::Distinct(Distinct::On(_)) => {
                let plan = (DISTINCT_ON.rewrite)(plan.clone(), &OptimizerContext::new())?.data;
                self.beside(&plan)
            }
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => self.beside(input),
            LogicalPlan::Limit(limit) => self.limited(limit),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Unnest(Unnest { input, exec_columns, options, .. }) => {
                LogicalPlanBuilder::from(self.beside(input)?)
                    .unnest_columns_with_options(exec_columns.clone(), options.clone())?
                    .build()
            }
            other => plan_err!(
                "a subquery with `{}` cannot name columns of the query around it",
                other.display()
            ),
        }
    }

    /// These columns, and values under the names of a schema.
    fn with_names(
        &self,
        rows: LogicalPlan,
        values: Vec<Expr>,
        schema: &DFSchemaRef,
    ) -> Result<LogicalPlan> {
        let named = values.into_iter().zip(schema.iter()).map(|(value, (relation, field))| {
            value.unalias().alias_qualified(relation.cloned(), field.name())
        });
        let selected = self.own().into_iter().chain(named).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(selected, Arc::new(rows))?))
    }

    fn projection(&mut self, projection: &Projection) -> Result<LogicalPlan> {
        let inputs = [projection.input.schema().clone()];
        let values = projection.expr.iter().map(|it| self.resolved(it, &inputs));
        let values = values.collect::<Result<Vec<_>>>()?;
        let rows = self.beside(&projection.input)?;
        self.with_names(rows, values, &projection.schema)
    }

    fn grouped(&mut self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let inputs = [aggregate.input.schema().clone()];
        let resolve = |it: &Expr| self.resolved(it, &inputs);
        let keys = aggregate.group_expr.iter().map(resolve).collect::<Result<Vec<_>>>()?;
        let calls = aggregate.aggr_expr.iter().map(resolve).collect::<Result<Vec<_>>>()?;
        let by: Vec<Expr> = self.own().into_iter().chain(keys).collect();
        let own = self.columns.len();
        let rows = Arc::new(self.beside(&aggregate.input)?);
        let rows = LogicalPlan::Aggregate(Aggregate::try_new(rows, by, calls)?);
        let values = rows.schema().columns().into_iter().skip(own).map(Expr::Column).collect();
        self.with_names(rows, values, &aggregate.schema)
    }

    /// An aggregate without keys, which has a row also for no rows: it does not count that of an
    /// outer row alone.
    fn total(&mut self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let inputs = [aggregate.input.schema().clone()];
        let calls = aggregate.aggr_expr.iter().map(|it| self.resolved(it, &inputs));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let (rows, mark) = self.with_marks(&aggregate.input)?;
        let inner = aggregate.input.schema();
        let calls = calls.into_iter().map(|call| of_marked(call, &mark, inner));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let own = self.columns.len();
        let rows = LogicalPlan::Aggregate(Aggregate::try_new(rows.into(), self.own(), calls)?);
        let values = rows.schema().columns().into_iter().skip(own).map(Expr::Column).collect();
        self.with_names(rows, values, &aggregate.schema)
    }

    /// The pairs with a column that is true, and the outer rows without pairs, where it is null.
    fn with_marks(&mut self, plan: &LogicalPlan) -> Result<(LogicalPlan, Column)> {
        let mark = Column::new(Some((self.fresh)("marked")), "is_there");
        let marked = |rows: LogicalPlan, columns: Vec<Expr>| {
            let all = columns.into_iter().chain([named(lit(true), &mark)]);
            LogicalPlanBuilder::from(rows).project(all)?.build()
        };
        let (rows, condition) = match plan {
            LogicalPlan::Filter(filter) => {
                let inputs = [filter.input.schema().clone()];
                (filter.input.as_ref(), self.resolved(&filter.predicate, &inputs)?)
            }
            other => (other, lit(true)),
        };
        let columns = |rows: &LogicalPlan| rows.schema().columns().into_iter().map(Expr::Column);
        let names = free(rows)?;
        let has_subquery = condition.exists(|one| Ok(subquery(one).is_some()))?;
        if !has_subquery && !self.columns.iter().any(|(old, _)| names.contains(old)) {
            let all = columns(rows).collect();
            let right = marked(rows.clone(), all)?;
            let rows = LogicalPlanBuilder::from(self.rows.clone());
            let rows = rows.join_on(right, JoinType::Left, [condition])?.build()?;
            return Ok((rows, mark));
        }
        let again = self.again()?;
        let pairs = self.beside(plan)?;
        let selected = self.columns.iter().zip(&again).map(|((_, own), new)| renamed(own, new));
        let inner = plan.schema().columns().into_iter().map(Expr::Column);
        let pairs = marked(pairs, selected.chain(inner).collect())?;
        let own = self.columns.iter().map(|(_, own)| own.clone()).collect::<Vec<_>>();
        let rows = joined(self.rows.clone(), pairs, &own, &again, None, JoinType::Left)?;
        Ok((rows, mark))
    }

    /// Other names for the columns of these rows.
    fn again(&mut self) -> Result<Vec<Column>> {
        let relation = TableReference::bare((self.fresh)("outer"));
        let other =
            |(_, own): &(Column, Column)| Column::new(Some(relation.clone()), own.name.clone());
        Ok(self.columns.iter().map(other).collect())
    }

    /// The first rows for each outer row, by their numbers.
    fn limited(&mut self, limit: &Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return plan_err!("a computed limit is not supported");
        };
        // Columns are computed behind the limit.
        if let LogicalPlan::Projection(projection) = limit.input.as_ref() {
            let input = Arc::new(LogicalPlan::Limit(Limit {
                input: projection.input.clone(),
                ..limit.clone()
            }));
            let (values, schema) = (projection.expr.clone(), projection.schema.clone());
            return self.projection(&Projection::try_new_with_schema(values, input, schema)?);
        }
        let (input, order) = match limit.input.as_ref() {
            LogicalPlan::Sort(Sort { expr, input, .. }) => (input, expr.clone()),
            _ => (&limit.input, vec![]),
        };
        let inputs = [input.schema().clone()];
        let order = order.into_iter().map(|mut key| {
            key.expr = self.resolved(&key.expr, &inputs)?;
            Ok(key)
        });
        let order = order.collect::<Result<Vec<_>>>()?;
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let rows = self.beside(input)?;
        let number = Expr::from(WindowFunction::new(row_number_udwf(), vec![]));
        let number = number.partition_by(self.own()).order_by(order).build()?;
        let rows = LogicalPlanBuilder::from(rows).window([number])?.build()?;
        let number = Expr::Column(rows.schema().columns().pop().expect("it has the number"));
        let whole = |count: usize| lit(i64::try_from(count).unwrap_or(i64::MAX));
        let mut condition = number.clone().gt(whole(skip));
        if let Some(fetch) = fetch {
            condition = condition.and(number.lt_eq(whole(skip.saturating_add(fetch))));
        }
        let rows = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows))?);
        let all = self.own().into_iter().chain(columns);
        LogicalPlanBuilder::from(rows).project(all)?.build()
    }

    fn window(&mut self, window: &Window) -> Result<LogicalPlan> {
        let inputs = [window.input.schema().clone()];
        let own = self.own();
        let calls = window.window_expr.iter().map(|call| {
            let mut call = self.resolved(call, &inputs)?.unalias();
            if let Expr::WindowFunction(call) = &mut call {
                call.params.partition_by.extend(own.iter().cloned());
            }
            Ok(call)
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let inner = window.input.schema().columns();
        let count = calls.len();
        let rows = self.beside(&window.input)?;
        let rows = LogicalPlanBuilder::from(rows).window(calls)?.build()?;
        let all = rows.schema().columns();
        let values = inner.into_iter().chain(all.into_iter().rev().take(count).rev());
        self.with_names(rows, values.map(Expr::Column).collect(), &window.schema)
    }

    fn union(&mut self, union: &Union) -> Result<LogicalPlan> {
        let mut inputs = vec![];
        for input in &union.inputs {
            let values = input.schema().columns().into_iter().map(Expr::Column).collect();
            let rows = self.beside(input)?;
            inputs.push(Arc::new(self.with_names(rows, values, &union.schema)?));
        }
        let schema = Arc::new(self.rows.schema().join(&union.schema)?);
        Ok(LogicalPlan::Union(Union { inputs, schema }))
    }

    fn join(&mut self, join: &Join) -> Result<LogicalPlan> {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right};
        let names_of = |side: &LogicalPlan| -> Result<bool> {
            let names = free(side)?;
            Ok(self.columns.iter().any(|(old, _)| names.contains(old)))
        };
        if is_lateral(&join.right) {
            return plan_err!("`lateral` in a subquery cannot name columns of the query around it");
        }
        let is_right = names_of(&join.right)?;
        let is_left = names_of(&join.left)? || !is_right;
        let inputs = [join.left.schema().clone(), join.right.schema().clone()];
        let on = join.on.iter().map(|(left, right)| {
            Ok((self.resolved(left, &inputs)?, self.resolved(right, &inputs)?))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let filter = join.filter.as_ref().map(|it| self.resolved(it, &inputs)).transpose()?;
        let of = |left: LogicalPlan, right: LogicalPlan, on, filter| {
            Join::try_new(
                left.into(),
                right.into(),
                on,
                filter,
                join.join_type,
                JoinConstraint::On,
                join.null_equality,
                join.null_aware,
            )
            .map(LogicalPlan::Join)
        };
        match join.join_type {
            Inner | Left | LeftSemi | LeftAnti | LeftMark if !is_right && !join.null_aware => {
                of(self.beside(&join.left)?, join.right.as_ref().clone(), on, filter)
            }
            Inner | Right if !is_left => {
                of(join.left.as_ref().clone(), self.beside(&join.right)?, on, filter)
            }
            Inner | Left | LeftSemi | LeftAnti | LeftMark if !join.null_aware => {
                let again = self.again()?;
                let (left, right) = (self.beside(&join.left)?, self.beside(&join.right)?);
                let selected =
                    self.columns.iter().zip(&again).map(|((_, own), new)| renamed(own, new));
                let inner = join.right.schema().columns().into_iter().map(Expr::Column);
                let right = LogicalPlanBuilder::from(right);
                let right = right.project(selected.chain(inner))?.build()?;
                let own: Vec<Column> = self.columns.iter().map(|(_, own)| own.clone()).collect();
                // One kind of equality holds for all keys of a join.
                if join.null_equality == NullEquality::NullEqualsNull {
                    let pairs = own.into_iter().map(Expr::Column);
                    let pairs = pairs.zip(again.into_iter().map(Expr::Column));
                    return of(left, right, pairs.chain(on).collect(), filter);
                }
                let pairs = equal(left.schema(), &own, &again)?;
                of(left, right, pairs.into_iter().chain(on).collect(), filter)
            }
            other => plan_err!(
                "a {other} join cannot name columns of the query around its subquery: select \
                 from one side of it first"
            ),
        }
    }
}

/// A join by columns of which nulls are equal, too.
pub(crate) fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    of_left: &[Column],
    of_right: &[Column],
    filter: Option<Expr>,
    kind: JoinType,
) -> Result<LogicalPlan> {
    let on = equal(left.schema(), of_left, of_right)?;
    Join::try_new(
        left.into(),
        right.into(),
        on,
        filter,
        kind,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )
    .map(LogicalPlan::Join)
}

/// Keys that are equal where columns are, or both are null: whether each is, and a value that is
/// not.
fn equal(schema: &DFSchemaRef, left: &[Column], right: &[Column]) -> Result<Vec<(Expr, Expr)>> {
    let mut pairs = vec![];
    for (left, right) in left.iter().zip(right) {
        let field = schema.field_from_column(left)?;
        let sides = (Expr::Column(left.clone()), Expr::Column(right.clone()));
        if !field.is_nullable() {
            pairs.push(sides);
            continue;
        }
        pairs.push((sides.0.clone().is_null(), sides.1.clone().is_null()));
        if field.data_type().is_null() {
            continue;
        }
        let zero = Expr::Literal(ScalarValue::new_default(field.data_type())?, None);
        let value = |side: Expr| {
            let is_null = vec![(Box::new(side.clone().is_null()), Box::new(zero.clone()))];
            Expr::Case(Case::new(None, is_null, Some(Box::new(side))))
        };
        pairs.push((value(sides.0), value(sides.1)));
    }
    Ok(pairs)
}

/// A call that counts the rows with a mark alone.
fn of_marked(call: Expr, mark: &Column, inner: &DFSchemaRef) -> Result<Expr> {
    let Expr::AggregateFunction(mut call) = call.unalias() else {
        return plan_err!("an aggregate is expected");
    };
    let is_count = call.func.name() == "count";
    let is_literal = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if !value.is_null());
    if is_count && !call.params.distinct && call.params.args.iter().all(is_literal) {
        let counted = AggregateFunction::new_udf(
            call.func,
            vec![Expr::Column(mark.clone())],
            false,
            call.params.filter,
            vec![],
            None,
        );
        return Ok(Expr::AggregateFunction(counted));
    }
    // A column of the inner rows is null where there are none, and these leave nulls out.
    let is_inner = |arg: &Expr| matches!(arg, Expr::Column(column) if inner.has_column(column));
    let skips_nulls = ["count", "sum", "min", "max", "avg", "median", "string_agg"];
    let is_skipped =
        skips_nulls.contains(&call.func.name()) && call.params.args.first().is_some_and(is_inner);
    if !is_skipped {
        let is_there = Expr::Column(mark.clone()).is_not_null();
        call.params.filter = Some(Box::new(match call.params.filter {
            Some(condition) => condition.and(is_there),
            None => is_there,
        }));
    }
    Ok(Expr::AggregateFunction(call))
}

/// A column under the name of another one.
pub(crate) fn renamed(from: &Column, to: &Column) -> Expr {
    named(Expr::Column(from.clone()), to)
}

/// A value under the name of a column.
pub(crate) fn named(value: Expr, to: &Column) -> Expr {
    value.alias_qualified(to.relation.clone(), to.name.clone())
}
