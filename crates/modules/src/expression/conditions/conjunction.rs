//! Evaluates the terms of a condition one after the other: as long as many rows are left for all
//! rows, which vectorizes, and then for the rows that are left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use datafusion_physical_expr::PhysicalExpr;
use euphrates_flow::Result;

use crate::expression::compile::physical;

/// The inverse of the largest part of rows for which the next term is evaluated for these alone:
/// copying them costs more than comparing all.
const SPARSE_INVERSE: usize = 8;

/// The terms of a condition, which holds where all are true.
pub(crate) struct Conjunction {
    terms: Vec<Arc<dyn PhysicalExpr>>,
}

impl std::fmt::Debug for Conjunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Conjunction of {}", self.terms.len())
    }
}

impl Conjunction {
    /// The terms of an expression; `None` if it is no tree of `AND`.
    pub(crate) fn new(expr: &Expr, schema: &DFSchema) -> Result<Option<Conjunction>> {
        let mut terms = vec![];
        conjuncts(expr, &mut terms);
        if terms.len() < 2 {
            return Ok(None);
        }
        let terms = terms.into_iter().map(|term| physical(term, schema)).collect::<Result<_>>()?;
        Ok(Some(Conjunction { terms }))
    }

    /// The rows for which all terms are true. A term may be evaluated, and fail, for rows for which
    /// an earlier one is false; it is for all others.
    pub(crate) fn matches(&self, seen: &RecordBatch) -> Result<BooleanArray, DataFusionError> {
        let mut left = Outcome::of_all(seen.num_rows());
        for (done, term) in self.terms.iter().enumerate() {
            if left.possible.count_set_bits() * SPARSE_INVERSE < seen.num_rows() {
                return Ok(BooleanArray::new(sparse(&self.terms[done..], seen, left)?, None));
            }
            left = left.and(Outcome::of(term, seen)?);
        }
        Ok(BooleanArray::new(left.sure, None))
    }
}

/// What is known of each row by the terms so far.
struct Outcome {
    /// No term is false.
    possible: BooleanBuffer,
    /// All terms are true.
    sure: BooleanBuffer,
}

impl Outcome {
    fn of_all(rows: usize) -> Outcome {
        let all = BooleanBuffer::new_set(rows);
        Outcome { possible: all.clone(), sure: all }
    }

    fn of(term: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<Outcome, DataFusionError> {
        let value: ArrayRef = term.evaluate(rows)?.into_array(rows.num_rows())?;
        let value = value.as_boolean();
        let values = value.values();
        Ok(match value.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => Outcome { possible: values.clone(), sure: values.clone() },
            Some(nulls) => {
                let sure = values & nulls.inner();
                Outcome { possible: &sure | &!nulls.inner(), sure }
            }
        })
    }

    fn and(self, other: Outcome) -> Outcome {
        Outcome { possible: &self.possible & &other.possible, sure: &self.sure & &other.sure }
    }
}

/// The rows for which these terms are true, too, evaluated for the possible rows alone.
fn sparse(
    terms: &[Arc<dyn PhysicalExpr>],
    seen: &RecordBatch,
    left: Outcome,
) -> Result<BooleanBuffer, DataFusionError> {
    let mut sure: Vec<usize> = left.sure.set_indices().collect();
    let mut possible: Vec<usize> = left.possible.set_indices().collect();
    let mut rows = filter_record_batch(seen, &BooleanArray::new(left.possible, None))?;
    for term in terms {
        if sure.is_empty() && possible.is_empty() {
            break;
        }
        let outcome = Outcome::of(term, &rows)?;
        let are_true: Vec<usize> = outcome.sure.set_indices().map(|at| possible[at]).collect();
        sure.retain(|row| are_true.binary_search(row).is_ok());
        possible = outcome.possible.set_indices().map(|at| possible[at]).collect();
        rows = filter_record_batch(&rows, &BooleanArray::new(outcome.possible, None))?;
    }
    let mut found = BooleanBufferBuilder::new(seen.num_rows());
    found.append_n(seen.num_rows(), false);
    sure.into_iter().for_each(|row| found.set_bit(row, true));
    Ok(found.finish())
}

/// The terms of a tree of `AND`, from left to right.
pub(super) fn conjuncts<'a>(expr: &'a Expr, terms: &mut Vec<&'a Expr>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conjuncts(left, terms);
            conjuncts(right, terms);
        }
        term => terms.push(term),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use datafusion_common::Column;
    use datafusion_expr::lit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_those_of_all_terms_however_few_are_left(
            values in prop::collection::vec(
                (prop::option::of(0_i64..100), prop::option::of(0_i64..100)), 0..200,
            ),
            bounds in (0_i64..101, 0_i64..101, 0_i64..101),
        ) {
            let (a, b): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
            let columns: [(&str, ArrayRef); 2] =
                [("a", Arc::new(Int64Array::from(a))), ("b", Arc::new(Int64Array::from(b)))];
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            ).unwrap();
            let of = |name: &str| Expr::Column(Column::from_name(name));
            let expr = of("a").lt(lit(bounds.0)).and(of("b").lt(lit(bounds.1)))
                .and(of("b").gt_eq(lit(bounds.2)));
            let schema = DFSchema::try_from(batch.schema()).unwrap();
            let found = Conjunction::new(&expr, &schema).unwrap().unwrap().matches(&batch).unwrap();
            let holds = |(a, b): &(Option<i64>, Option<i64>)| {
                a.is_some_and(|a| a < bounds.0)
                    && b.is_some_and(|b| b < bounds.1 && b >= bounds.2)
            };
            let expected: Vec<bool> = values.iter().map(holds).collect();
            prop_assert_eq!(found.values().iter().collect::<Vec<_>>(), expected);
        }
    }
}
