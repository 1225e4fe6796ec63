//! Evaluates the terms of a condition one after the other: as long as many rows are left for all
//! rows, which vectorizes, and then for the rows that are left. A term of one column that comes
//! with a dictionary is evaluated for the values of the dictionary.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder,
    DictionaryArray, Int32Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, filter_record_batch, take};
use arrow::datatypes::{DataType, Int32Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use euphrates_flow::Result;

use crate::expression::compile::{physical, translate_error};

/// The inverse of the largest part of rows for which the next term is evaluated for these alone:
/// copying them costs more than comparing all.
const SPARSE_INVERSE: usize = 8;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// The terms of a condition, which holds where all are true.
pub(crate) struct Conjunction {
    terms: Vec<Term>,
}

struct Term {
    expr: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, with the types that it takes them for.
    columns: Vec<(usize, DataType)>,
    /// The term over a batch of its column alone, if it reads one.
    of_one: Option<(Arc<dyn PhysicalExpr>, SchemaRef)>,
}

/// What is known of each row by the terms so far.
struct Outcome {
    /// No term is false.
    possible: BooleanBuffer,
    /// All terms are true.
    sure: BooleanBuffer,
}

impl fmt::Debug for Conjunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.terms.iter().map(|term| &term.expr)).finish()
    }
}

impl Conjunction {
    /// The terms of a condition on the columns of a schema.
    pub(crate) fn new(expr: &Expr, schema: &DFSchema) -> Result<Conjunction> {
        let mut terms = vec![];
        conjuncts(expr, &mut terms);
        let terms = terms.into_iter().map(|term| Term::new(term, schema)).collect::<Result<_>>()?;
        Ok(Conjunction { terms })
    }

    /// The rows for which all terms are true. A term may be evaluated, and fail, for rows for which
    /// an earlier one is false, and for values that no row has; it is evaluated for all others.
    pub(crate) fn matches(&self, seen: &RecordBatch) -> Computed<BooleanArray> {
        let mut left = Outcome::of_all(seen.num_rows());
        for (done, term) in self.terms.iter().enumerate() {
            if left.possible.count_set_bits() * SPARSE_INVERSE < seen.num_rows() {
                return Ok(BooleanArray::new(sparse(&self.terms[done..], seen, left)?, None));
            }
            left = left.and(term.outcome(seen)?);
        }
        Ok(BooleanArray::new(left.sure, None))
    }
}

impl Term {
    fn new(expr: &Expr, schema: &DFSchema) -> Result<Term> {
        let expr = physical(expr, schema)?;
        let mut columns: Vec<usize> =
            collect_columns(&expr).into_iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        let of_one = match &columns[..] {
            [one] => {
                let alone = Arc::new(schema.as_arrow().project(&[*one])?);
                Some((over_first(expr.clone())?, alone))
            }
            _ => None,
        };
        let type_of = |at: usize| schema.field(at).data_type().clone();
        let columns = columns.into_iter().map(|at| (at, type_of(at))).collect();
        Ok(Term { expr, columns, of_one })
    }

    fn outcome(&self, rows: &RecordBatch) -> Computed<Outcome> {
        if let (Some((expr, alone)), [(column, _)]) = (&self.of_one, &self.columns[..])
            && let Some(coded) = rows.column(*column).as_dictionary_opt::<Int32Type>()
            && coded.values().len() <= coded.len()
        {
            return of_coded(expr, alone, coded);
        }
        Outcome::of(&self.expr, &without_codes(rows, &self.columns)?)
    }
}

/// An expression over a batch that has its only column first.
fn over_first(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let first = |node: Arc<dyn PhysicalExpr>| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as _),
            None => Transformed::no(node),
        })
    };
    let moved = expr.transform_up(first).data();
    moved.map_err(|error| translate_error(&error, euphrates_flow::Kind::Usage))
}

/// The outcome of a term by the values of its column's dictionary.
fn of_coded(
    term: &Arc<dyn PhysicalExpr>,
    alone: &SchemaRef,
    coded: &DictionaryArray<Int32Type>,
) -> Computed<Outcome> {
    let (codes, mut values) = (coded.keys(), coded.values().clone());
    let null = values.len() as i32;
    if codes.null_count() > 0 {
        values = concat(&[values.as_ref(), new_null_array(values.data_type(), 1).as_ref()])?;
    }
    if let DataType::Dictionary(..) = alone.field(0).data_type() {
        let codes = Int32Array::from_iter_values(0..values.len() as i32);
        values = Arc::new(DictionaryArray::try_new(codes, values)?);
    }
    let field = alone.field(0).clone().with_nullable(true);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values])?;
    let Outcome { possible, sure } = Outcome::of(term, &rows)?;
    let of_rows = |of_values: &BooleanBuffer| match codes.nulls() {
        None => BooleanBuffer::collect_bool(codes.len(), |row| {
            of_values.value(codes.values()[row] as usize)
        }),
        Some(nulls) => BooleanBuffer::collect_bool(codes.len(), |row| {
            let code = if nulls.is_valid(row) { codes.values()[row] } else { null };
            of_values.value(code as usize)
        }),
    };
    let (is_known, sure) = (possible == sure, of_rows(&sure));
    Ok(Outcome { possible: if is_known { sure.clone() } else { of_rows(&possible) }, sure })
}

/// The rows with the values of codes, in columns that are to have these types.
fn without_codes(rows: &RecordBatch, columns: &[(usize, DataType)]) -> Computed<RecordBatch> {
    let coded = |(at, data_type): &&(usize, DataType)| {
        rows.column(*at).data_type() != data_type
            && rows.column(*at).as_any_dictionary_opt().is_some()
    };
    let coded: Vec<usize> = columns.iter().filter(coded).map(|(at, _)| *at).collect();
    plain(rows, &coded)
}

/// The rows with the values of codes in these columns.
fn plain(rows: &RecordBatch, coded: &[usize]) -> Computed<RecordBatch> {
    if coded.is_empty() {
        return Ok(rows.clone());
    }
    let (mut fields, mut columns) = (rows.schema().fields().to_vec(), rows.columns().to_vec());
    for at in coded {
        let Some(of) = rows.column(*at).as_any_dictionary_opt() else { continue };
        columns[*at] = decoded(of)?;
        let data_type = columns[*at].data_type().clone();
        fields[*at] = Arc::new(fields[*at].as_ref().clone().with_data_type(data_type));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn decoded(of: &dyn AnyDictionaryArray) -> Computed<ArrayRef> {
    Ok(take(of.values(), of.keys(), None)?)
}

/// The rows in the types of a schema: with the values of codes where it has no dictionary.
pub(crate) fn as_typed(rows: &RecordBatch, schema: &Schema) -> Computed<RecordBatch> {
    let types = schema.fields().iter().map(|field| field.data_type().clone());
    without_codes(rows, &types.enumerate().collect::<Vec<_>>())
}

impl Outcome {
    fn of_all(rows: usize) -> Outcome {
        let all = BooleanBuffer::new_set(rows);
        Outcome { possible: all.clone(), sure: all }
    }

    fn of(term: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Computed<Outcome> {
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
fn sparse(terms: &[Term], seen: &RecordBatch, left: Outcome) -> Computed<BooleanBuffer> {
    let mut positions: Vec<usize> = left.possible.set_indices().collect();
    let possible = BooleanArray::new(left.possible, None);
    let mut rows = filter_record_batch(seen, &possible)?;
    // Of these rows, those for which all terms so far are true.
    let mut sure = filtered(&left.sure, &possible)?;
    for term in terms {
        if rows.num_rows() == 0 {
            break;
        }
        let outcome = term.outcome(&rows)?;
        let possible = BooleanArray::new(outcome.possible, None);
        sure = filtered(&(&sure & &outcome.sure), &possible)?;
        positions = possible.values().set_indices().map(|at| positions[at]).collect();
        rows = filter_record_batch(&rows, &possible)?;
    }
    let mut found = BooleanBufferBuilder::new(seen.num_rows());
    found.append_n(seen.num_rows(), false);
    sure.set_indices().for_each(|at| found.set_bit(positions[at], true));
    Ok(found.finish())
}

/// The bits at which `by` is set.
fn filtered(bits: &BooleanBuffer, by: &BooleanArray) -> Computed<BooleanBuffer> {
    let kept = filter(&BooleanArray::new(bits.clone(), None), by)?;
    Ok(kept.as_boolean().values().clone())
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
    use arrow::compute::cast;
    use arrow::datatypes::Field;
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
            let found = Conjunction::new(&expr, &schema).unwrap().matches(&batch).unwrap();
            let holds = |(a, b): &(Option<i64>, Option<i64>)| {
                a.is_some_and(|a| a < bounds.0)
                    && b.is_some_and(|b| b < bounds.1 && b >= bounds.2)
            };
            let expected: Vec<bool> = values.iter().map(holds).collect();
            prop_assert_eq!(found.values().iter().collect::<Vec<_>>(), expected.clone());
            let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int64));
            let columns = batch.columns().iter().map(|it| cast(it, &coded).unwrap());
            let fields = ["a", "b"].map(|name| Field::new(name, coded.clone(), true));
            let coded = Arc::new(Schema::new(fields.to_vec()));
            let batch = RecordBatch::try_new(coded, columns.collect()).unwrap();
            let found = Conjunction::new(&expr, &schema).unwrap().matches(&batch).unwrap();
            prop_assert_eq!(found.values().iter().collect::<Vec<_>>(), expected);
        }
    }
}
