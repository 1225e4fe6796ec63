//! Evaluates the terms of a condition one after the other: as long as many rows are left for all
//! rows, which vectorizes, and then for the rows that are left. A term of one column that comes
//! with a dictionary is evaluated for the values of the dictionary.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder,
    DictionaryArray, Int32Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Column, DFSchema, DataFusionError};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as PhysicalColumn;
use datafusion_physical_expr::utils::collect_columns;
use euphrates_flow::Result;
use parking_lot::Mutex;

use crate::expression::compile::{physical, translate_error};

/// The inverse of the largest part of rows for which the next term is evaluated for these alone:
/// copying them costs more than comparing all.
const SPARSE_INVERSE: usize = 8;

/// The most values of a dictionary for each of a batch's rows for which a term is evaluated for the
/// values: further batches come with the same dictionary.
const VALUES_PER_ROW: usize = 4;
/// The most dictionaries whose outcomes are kept.
const KNOWN_MAX: usize = 16;
/// The most values, a power of two, whose outcomes are looked up in a table of fixed size.
const TABLE_VALUES_MAX: usize = 1 << 13;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// The terms of a condition, which holds where all are true.
pub(crate) struct Conjunction {
    terms: Vec<Term>,
}

struct Term {
    expr: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, with the types that it takes them for.
    columns: Vec<(usize, DataType)>,
    /// The term over its column alone, if it reads one.
    of_one: Option<TermOfOne>,
}

/// The values of a dictionary, and what a term is of each.
type KnownOutcome = (Weak<dyn Array>, Arc<TermOutcome>);

/// A term of one column.
struct TermOfOne {
    /// The term over a batch that has its column first.
    expr: Arc<dyn PhysicalExpr>,
    field: Field,
    /// Dictionaries, and the outcomes of their values: one comes with many batches.
    known: Mutex<VecDeque<KnownOutcome>>,
}

/// What is known of each row by the terms so far.
struct TermOutcome {
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
        let terms = by_column(terms);
        let terms = terms.iter().map(|term| Term::new(term, schema)).collect::<Result<_>>()?;
        Ok(Conjunction { terms })
    }

    /// The rows for which all terms are true. A term may be evaluated, and fail, for rows for which
    /// an earlier one is false, and for values that no row has; it is evaluated for all others.
    pub(crate) fn matches(&self, seen: &RecordBatch) -> Computed<BooleanArray> {
        let mut left = TermOutcome::of_all(seen.num_rows());
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
            [one] => Some(TermOfOne {
                expr: over_first(expr.clone())?,
                field: schema.field(*one).as_ref().clone().with_nullable(true),
                known: Mutex::default(),
            }),
            _ => None,
        };
        let type_of = |at: usize| schema.field(at).data_type().clone();
        let columns = columns.into_iter().map(|at| (at, type_of(at))).collect();
        Ok(Term { expr, columns, of_one })
    }

    fn outcome(&self, rows: &RecordBatch) -> Computed<TermOutcome> {
        if let (Some(term), [(column, _)]) = (&self.of_one, &self.columns[..])
            && let Some(coded) = rows.column(*column).as_dictionary_opt::<Int32Type>()
            && let Some(of_values) = term.of_values(coded)?
        {
            return Ok(of_values.at_codes(coded.keys()));
        }
        TermOutcome::of(&self.expr, &without_codes(rows, &self.columns)?)
    }
}

/// An expression over a batch that has its only column first.
fn over_first(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let first = |node: Arc<dyn PhysicalExpr>| {
        Ok(match node.downcast_ref::<PhysicalColumn>() {
            Some(column) => Transformed::yes(Arc::new(PhysicalColumn::new(column.name(), 0)) as _),
            None => Transformed::no(node),
        })
    };
    let moved = expr.transform_up(first).data();
    moved.map_err(|error| translate_error(&error, euphrates_flow::Kind::Usage))
}

impl TermOfOne {
    /// The outcomes of a dictionary's values, and of null behind them; `None` if evaluating the
    /// term for its rows is cheaper.
    fn of_values(&self, coded: &DictionaryArray<Int32Type>) -> Computed<Option<Arc<TermOutcome>>> {
        let values = coded.values();
        let known = |(other, outcome): &KnownOutcome| {
            std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(values)).then(|| outcome.clone())
        };
        if let Some(known) = self.known.lock().iter().find_map(known) {
            return Ok(Some(known));
        }
        if values.len() / VALUES_PER_ROW > coded.len() {
            return Ok(None);
        }
        let null = new_null_array(values.data_type(), 1);
        let mut column = concat(&[values.as_ref(), null.as_ref()])?;
        if let DataType::Dictionary(..) = self.field.data_type() {
            let codes = Int32Array::from_iter_values(0..column.len() as i32);
            column = Arc::new(DictionaryArray::try_new(codes, column)?);
        }
        let schema = Arc::new(Schema::new(vec![self.field.clone()]));
        let rows = RecordBatch::try_new(schema, vec![column])?;
        let outcome = Arc::new(TermOutcome::of(&self.expr, &rows)?);
        let mut known = self.known.lock();
        known.push_back((Arc::downgrade(values), outcome.clone()));
        if known.len() > KNOWN_MAX {
            known.pop_front();
        }
        Ok(Some(outcome))
    }
}

impl TermOutcome {
    /// The outcome of each row, given those of the values that codes stand for, and of null.
    fn at_codes(&self, codes: &Int32Array) -> TermOutcome {
        let null = self.sure.len() as u32 - 1;
        let with_nulls: Vec<u32>;
        let codes: &[u32] = match codes.nulls() {
            None => codes.values().inner().typed_data(),
            Some(nulls) => {
                let code = |row| if nulls.is_valid(row) { codes.value(row) as u32 } else { null };
                with_nulls = (0..codes.len()).map(code).collect();
                &with_nulls
            }
        };
        let sure = of_rows(&self.sure, codes);
        let possible = match self.possible == self.sure {
            true => sure.clone(),
            false => of_rows(&self.possible, codes),
        };
        TermOutcome { possible, sure }
    }
}

/// The bit of each code, each of which has one.
fn of_rows(of_values: &BooleanBuffer, codes: &[u32]) -> BooleanBuffer {
    let values = of_values.len();
    if values <= u64::BITS as usize {
        let word = of_values.set_indices().fold(0_u64, |word, value| word | 1 << value);
        return BooleanBuffer::collect_bool(codes.len(), |row| word >> (codes[row] % 64) & 1 == 1);
    }
    if values > TABLE_VALUES_MAX {
        let is_set = |row: usize| of_values.value(codes[row] as usize);
        return BooleanBuffer::collect_bool(codes.len(), is_set);
    }
    let mut table = [false; TABLE_VALUES_MAX];
    of_values.set_indices().for_each(|value| table[value] = true);
    // Without a check of bounds.
    BooleanBuffer::collect_bool(codes.len(), |row| table[codes[row] as usize % TABLE_VALUES_MAX])
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

impl TermOutcome {
    fn of_all(rows: usize) -> TermOutcome {
        let all = BooleanBuffer::new_set(rows);
        TermOutcome { possible: all.clone(), sure: all }
    }

    fn of(term: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Computed<TermOutcome> {
        let value: ArrayRef = term.evaluate(rows)?.into_array(rows.num_rows())?;
        let value = value.as_boolean();
        let values = value.values();
        Ok(match value.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => TermOutcome { possible: values.clone(), sure: values.clone() },
            Some(nulls) => {
                let sure = values & nulls.inner();
                TermOutcome { possible: &sure | &!nulls.inner(), sure }
            }
        })
    }

    fn and(self, other: TermOutcome) -> TermOutcome {
        TermOutcome { possible: &self.possible & &other.possible, sure: &self.sure & &other.sure }
    }
}

/// The rows for which these terms are true, too, evaluated for the possible rows alone.
fn sparse(terms: &[Term], seen: &RecordBatch, left: TermOutcome) -> Computed<BooleanBuffer> {
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

/// The terms, of which those that read one column alone, and the same, are one.
pub(super) fn by_column(terms: Vec<&Expr>) -> Vec<Expr> {
    let mut united: Vec<(Option<Column>, Expr)> = vec![];
    for term in terms {
        let columns = term.column_refs();
        let only = columns.iter().next().filter(|_| columns.len() == 1).map(|it| (*it).clone());
        let same = only
            .as_ref()
            .and_then(|only| united.iter_mut().find(|(column, _)| column.as_ref() == Some(only)));
        match same {
            Some((_, before)) => *before = before.clone().and(term.clone()),
            None => united.push((only, term.clone())),
        }
    }
    united.into_iter().map(|(_, term)| term).collect()
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
