//! Asof joins: each row of the left beside the last row of the right at its time, or before it.
//!
//! The rows of both sides are one stream. A window counts the rows of the right so far, of the same
//! keys, and rows with the same count have the same row of the right: the first among them.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, JoinType, Result, ScalarValue, plan_err};
use datafusion_expr::expr::{Cast, Sort, WindowFunction};
use datafusion_expr::logical_plan::{Filter, Join, Projection, SubqueryAlias, Union};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{
    Case, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Operator, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, lit,
};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_window::nth_value::first_value_udwf;

use crate::relations::asof_tokens::MARK;

/// The plan without asof joins.
pub(crate) fn lowered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let lowered = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_asof(&join) => {
            let matched = Match::of(&join)?;
            Ok(Transformed::yes(windows(&join, matched)?))
        }
        LogicalPlan::Join(mut join) if !join.on.is_empty() => match unmarked(&join.right)? {
            Some(right) => {
                join.right = Arc::new(right);
                let matched = Match::of_keys(&join)?;
                Ok(Transformed::yes(windows(&join, matched)?))
            }
            None => Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        other => Ok(Transformed::no(other)),
    });
    lowered.map(|lowered| lowered.data)
}

fn is_asof(join: &Join) -> bool {
    join.filter
        .as_ref()
        .is_some_and(|filter| filter.exists(|one| Ok(is_mark(one))).unwrap_or(false))
}

fn is_mark(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(call) if call.func.name() == MARK)
}

/// The right side of an asof join with `using` without its mark; nothing for another join.
fn unmarked(right: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match right {
        LogicalPlan::SubqueryAlias(alias) => match unmarked(&alias.input)? {
            Some(input) => {
                let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                Some(LogicalPlan::SubqueryAlias(alias))
            }
            None => None,
        },
        LogicalPlan::Projection(projection) => match unmarked(&projection.input)? {
            Some(input) => {
                let projection = Projection::try_new(projection.expr.clone(), Arc::new(input))?;
                Some(LogicalPlan::Projection(projection))
            }
            None => None,
        },
        LogicalPlan::Filter(filter) if is_mark(&filter.predicate) => {
            Some(filter.input.as_ref().clone())
        }
        _ => None,
    })
}

/// The condition of an asof join.
struct Match {
    /// Equal expressions of the left and of the right.
    keys: Vec<(Expr, Expr)>,
    /// The times of the left and of the right.
    times: (Expr, Expr),
    /// How the time of the left compares with that of the right.
    operator: Operator,
    /// Conditions of the left alone, without which a row finds none, and of the right alone.
    alone: (Vec<Expr>, Vec<Expr>),
}

impl Match {
    /// That of `using`, whose last column is the time.
    fn of_keys(join: &Join) -> Result<Match> {
        let mut keys = join.on.clone();
        let Some(times) = keys.pop() else { return plan_err!("an asof join needs a time") };
        Ok(Match { keys, times, operator: Operator::GtEq, alone: (vec![], vec![]) })
    }

    fn of(join: &Join) -> Result<Match> {
        let is_of = |side: &LogicalPlan, expression: &Expr| {
            let columns = expression.column_refs();
            !columns.is_empty() && columns.iter().all(|column| side.schema().has_column(column))
        };
        let (mut keys, mut times, mut alone) = (vec![], None, (vec![], vec![]));
        let filter = join.filter.iter().flat_map(split_conjunction);
        for conjunct in filter.filter(|conjunct| !is_mark(conjunct)) {
            let sides = match conjunct {
                Expr::BinaryExpr(both) => {
                    let (left, right) = (both.left.as_ref(), both.right.as_ref());
                    if is_of(&join.left, left) && is_of(&join.right, right) {
                        Some((left.clone(), both.op, right.clone()))
                    } else if is_of(&join.right, left) && is_of(&join.left, right) {
                        both.op.swap().map(|op| (right.clone(), op, left.clone()))
                    } else {
                        None
                    }
                }
                _ => None,
            };
            use Operator::{Eq, Gt, GtEq, Lt, LtEq};
            match sides {
                Some((left, Eq, right)) => keys.push((left, right)),
                Some((left, operator @ (Gt | GtEq | Lt | LtEq), right)) if times.is_none() => {
                    times = Some(((left, right), operator));
                }
                None if conjunct.column_refs().is_empty() || is_of(&join.left, conjunct) => {
                    alone.0.push(conjunct.clone());
                }
                None if is_of(&join.right, conjunct) => alone.1.push(conjunct.clone()),
                _ => {
                    return plan_err!(
                        "`{conjunct}` is no condition of an asof join: write equalities and one \
                         comparison with >=, >, <= or < between its sides, and conditions of one"
                    );
                }
            }
        }
        match times {
            Some((times, operator)) => Ok(Match { keys, times, operator, alone }),
            None => plan_err!("an asof join compares times with >=, >, <= or <"),
        }
    }
}

fn windows(join: &Join, matched: Match) -> Result<LogicalPlan> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return plan_err!("an asof join is an inner or a left one, not a {} one", join.join_type);
    }
    let Match { keys, mut times, operator, alone } = matched;
    if let Some(condition) = conjunction(alone.0) {
        let whens = vec![(Box::new(condition), Box::new(times.0))];
        times.0 = Expr::Case(Case::new(None, whens, None));
    }
    let (of_left, of_right): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
    let all = join.left.schema().fields().len() + join.right.schema().fields().len();
    let widths = join.left.schema().fields().len();
    let names = StreamNames { keys: of_left.len(), left: widths, columns: all };
    let left = side(&join.left, &of_left, &times.0, &join.right, false)?;
    // What cannot be equal is no row to find.
    let known = of_right.iter().chain([&times.1]).map(|one| one.clone().is_not_null());
    let known = conjunction(known.chain(alone.1)).expect("there is a time");
    let rows = Arc::new(LogicalPlan::Filter(Filter::try_new(known, join.right.clone())?));
    let right = side(&rows, &of_right, &times.1, &join.left, true)?;
    let schema = right.schema().clone();
    let rows = LogicalPlan::Union(Union { inputs: vec![left.into(), right.into()], schema });
    let found = found(rows, operator, &names)?;
    let is_left = names.is_right().eq(lit(0_i64));
    let condition = match join.join_type {
        JoinType::Inner => is_left.and(names.count().gt(lit(0_i64))),
        _ => is_left,
    };
    let rows = Arc::new(LogicalPlan::Filter(Filter::try_new(condition, found)?));
    let selected = join.schema.iter().enumerate().map(|(at, (relation, field))| {
        let value = if at < widths { names.column(at) } else { names.found(at) };
        value.alias_qualified(relation.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(selected.collect(), rows)?))
}

/// The rows of both sides with the values of the right that they have found.
fn found(rows: LogicalPlan, operator: Operator, names: &StreamNames) -> Result<Arc<LogicalPlan>> {
    let is_forward = matches!(operator, Operator::Lt | Operator::LtEq);
    // Of equal times, those of the right come first if they are found.
    let is_equal_found = matches!(operator, Operator::GtEq | Operator::LtEq);
    let order = vec![
        Sort::new(names.time(), !is_forward, false),
        Sort::new(names.is_right(), !is_equal_found, false),
    ];
    let frame = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow,
    );
    let sum = WindowFunctionDefinition::AggregateUDF(sum_udaf());
    let counted = Expr::from(WindowFunction::new(sum, vec![names.is_right()]))
        .partition_by(names.keys())
        .order_by(order)
        .window_frame(frame)
        .build()?
        .alias("asof_count");
    let rows = LogicalPlanBuilder::from(rows).window([counted])?.build()?;
    // Rows without a time are the last ones, and find none.
    let whens = vec![(Box::new(names.time().is_not_null()), Box::new(names.count()))];
    let count = Expr::Case(Case::new(None, whens, Some(Box::new(lit(0_i64)))));
    let columns = rows.schema().columns();
    let (_, columns) = columns.split_last().expect("it has the count");
    let selected = columns.iter().cloned().map(Expr::Column).chain([count.alias("asof_count")]);
    let rows = LogicalPlanBuilder::from(rows).project(selected)?.build()?;
    let values = names.of_right().map(|at| {
        let first = WindowFunction::new(first_value_udwf(), vec![names.column(at)]);
        let parts = names.keys().into_iter().chain([names.count()]).collect();
        let first = Expr::from(first).partition_by(parts);
        let first = first.order_by(vec![Sort::new(names.is_right(), false, false)]).build()?;
        Ok(first.alias(format!("asof_found_{at}")))
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlanBuilder::from(rows).window(values)?.build()?))
}

/// The rows of a side, with nulls for the columns of the other.
fn side(
    rows: &Arc<LogicalPlan>,
    keys: &[Expr],
    time: &Expr,
    other: &LogicalPlan,
    is_right: bool,
) -> Result<LogicalPlan> {
    let own = rows.schema().columns().into_iter().map(Expr::Column);
    let nulls = other.schema().fields().iter().map(|field| {
        let null = Box::new(Expr::Literal(ScalarValue::Null, None));
        Expr::Cast(Cast::new(null, field.data_type().clone()))
    });
    let columns: Vec<Expr> =
        if is_right { nulls.chain(own).collect() } else { own.chain(nulls).collect() };
    let columns = columns.into_iter().enumerate();
    let columns = columns.map(|(at, value)| value.alias(format!("asof_column_{at}")));
    let keys = keys.iter().cloned().enumerate();
    let keys = keys.map(|(at, key)| key.alias(format!("asof_key_{at}")));
    let others = [time.clone().alias("asof_time"), lit(i64::from(is_right)).alias("asof_is_right")];
    let selected = columns.chain(keys).chain(others).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(selected, rows.clone())?))
}

/// The columns of the stream.
struct StreamNames {
    keys: usize,
    /// How many columns the left side has, and both have.
    left: usize,
    columns: usize,
}

impl StreamNames {
    fn named(name: String) -> Expr {
        Expr::Column(Column::from_name(name))
    }

    /// The places of the right side's columns.
    fn of_right(&self) -> std::ops::Range<usize> {
        self.left..self.columns
    }

    fn keys(&self) -> Vec<Expr> {
        (0..self.keys).map(|at| StreamNames::named(format!("asof_key_{at}"))).collect()
    }

    fn time(&self) -> Expr {
        StreamNames::named("asof_time".into())
    }

    fn is_right(&self) -> Expr {
        StreamNames::named("asof_is_right".into())
    }

    fn count(&self) -> Expr {
        StreamNames::named("asof_count".into())
    }

    fn column(&self, at: usize) -> Expr {
        StreamNames::named(format!("asof_column_{at}"))
    }

    fn found(&self, at: usize) -> Expr {
        StreamNames::named(format!("asof_found_{at}"))
    }
}
