//! Estimates the number of rows of parts of a plan, from the sizes of tables.
//!
//! The rules are those of System R (Selinger et al., 1979): a fixed share of rows passes a
//! condition of each kind, and a join by a key has the product of its inputs' rows, divided by the
//! number of values of the key.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Column, JoinType};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::catalog::{QueryTable, named};
use crate::statement::catalog_name;

/// Rows of a table of unknown size.
const UNKNOWN_ROWS: f64 = 1e6;
/// Bytes of a text in a file.
const TEXT_BYTES: f64 = 12.0;
/// Share of the bytes of a number that compression leaves.
const COMPRESSED_SHARE: f64 = 0.5;

/// The share of rows that pass conditions of unknown selectivity.
const EQUAL_SHARE: f64 = 0.05;
const RANGE_SHARE: f64 = 0.3;
const LIKE_SHARE: f64 = 0.1;
const OTHER_SHARE: f64 = 0.5;

/// Estimates over the tables of a query.
pub(crate) struct Cardinality<'a> {
    tables: &'a [QueryTable],
}

impl<'a> Cardinality<'a> {
    pub(crate) fn new(tables: &'a [QueryTable]) -> Cardinality<'a> {
        Cardinality { tables }
    }

    /// The rows that a plan has, at least 1.
    pub(crate) fn rows(&self, plan: &LogicalPlan) -> f64 {
        let rows = match plan {
            LogicalPlan::TableScan(scan) => {
                self.table_rows(&catalog_name(&scan.table_name)) * share_of_all(&scan.filters)
            }
            LogicalPlan::Filter(filter) => self.rows(&filter.input) * share(&filter.predicate),
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
            // More groups the more rows, but each has some.
            LogicalPlan::Aggregate(aggregate) => self.rows(&aggregate.input).powf(0.85),
            LogicalPlan::Join(join) => self.join_rows(join),
            LogicalPlan::Union(union) => union.inputs.iter().map(|input| self.rows(input)).sum(),
            LogicalPlan::Values(values) => values.values.len() as f64,
            LogicalPlan::EmptyRelation(_) => 1.0,
            other => other.inputs().first().map_or(UNKNOWN_ROWS, |input| self.rows(input)),
        };
        rows.max(1.0)
    }

    /// The rows of a plan's largest table, whatever the conditions: the bound of the number of
    /// values of a key.
    pub(crate) fn base_rows(&self, plan: &LogicalPlan) -> f64 {
        match plan {
            LogicalPlan::TableScan(scan) => self.table_rows(&catalog_name(&scan.table_name)),
            LogicalPlan::Aggregate(_) => self.rows(plan),
            other => {
                let inputs = other.inputs().into_iter().map(|input| self.base_rows(input));
                inputs.fold(1.0, f64::max)
            }
        }
    }

    fn table_rows(&self, name: &str) -> f64 {
        let table = named(self.tables, |table| &table.name, name);
        let bytes = table.and_then(|table| Some((table.bytes? as f64, row_bytes(&table.schema))));
        bytes.map_or(UNKNOWN_ROWS, |(bytes, row)| (bytes / row).max(1.0))
    }

    fn join_rows(&self, join: &Join) -> f64 {
        let (left, right) = (self.rows(&join.left), self.rows(&join.right));
        let (base_left, base_right) = (self.base_rows(&join.left), self.base_rows(&join.right));
        let values = if join.on.is_empty() { 1.0 } else { base_left.min(base_right) };
        let filter = join.filter.as_ref().map_or(1.0, share);
        let pairs = left * right / values.max(1.0) * filter;
        match join.join_type {
            JoinType::Left => pairs.max(left),
            JoinType::Right => pairs.max(right),
            JoinType::Full => pairs.max(left).max(right),
            JoinType::LeftSemi | JoinType::LeftAnti => left * OTHER_SHARE,
            JoinType::LeftMark => left,
            _ => pairs,
        }
    }
}

/// The approximate bytes of a row in a file.
fn row_bytes(schema: &Schema) -> f64 {
    let bytes = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Boolean => 0.125,
        other => match other.primitive_width() {
            Some(width) => width as f64 * COMPRESSED_SHARE,
            None => TEXT_BYTES,
        },
    });
    bytes.sum::<f64>().max(1.0)
}

fn share_of_all(conditions: &[Expr]) -> f64 {
    conditions.iter().map(share).product()
}

/// The share of rows that pass a condition.
pub(crate) fn share(condition: &Expr) -> f64 {
    let found = match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => share(left) * share(right),
            Operator::Or => share(left) + share(right),
            Operator::Eq => EQUAL_SHARE,
            Operator::NotEq => 1.0 - EQUAL_SHARE,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => RANGE_SHARE,
            _ => OTHER_SHARE,
        },
        Expr::Not(inner) => 1.0 - share(inner),
        Expr::Between(between) if between.negated => 1.0 - RANGE_SHARE * RANGE_SHARE,
        Expr::Between(_) => RANGE_SHARE * RANGE_SHARE,
        Expr::InList(list) => {
            let share = EQUAL_SHARE * list.list.len() as f64;
            if list.negated { 1.0 - share } else { share }
        }
        Expr::Like(like) if like.negated => 1.0 - LIKE_SHARE,
        Expr::Like(_) => LIKE_SHARE,
        Expr::IsNotNull(_) => 1.0 - EQUAL_SHARE,
        Expr::IsNull(_) => EQUAL_SHARE,
        _ => OTHER_SHARE,
    };
    found.clamp(1e-4, 1.0)
}

/// Columns that conditions make equal have the same values.
#[derive(Default)]
pub(crate) struct EqualColumns {
    class_of: HashMap<Column, usize>,
}

impl EqualColumns {
    /// Notes that two columns are equal.
    pub(crate) fn unite(&mut self, left: &Column, right: &Column) {
        let next = self.class_of.len();
        let into = *self.class_of.entry(left.clone()).or_insert(next);
        let next = self.class_of.len();
        let from = *self.class_of.entry(right.clone()).or_insert(next);
        self.class_of.values_mut().filter(|class| **class == from).for_each(|class| *class = into);
    }

    /// The class of a column.
    pub(crate) fn class(&self, column: &Column) -> Option<usize> {
        self.class_of.get(column).copied()
    }
}
