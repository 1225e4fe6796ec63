//! Functions that evaluate a lambda for the items of lists. The items of all lists of a batch are
//! one batch of the body; `list_reduce` has one batch for each position.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, filter, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DFSchema, DataFusionError, ScalarValue, exec_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_physical_expr::PhysicalExpr;
use euphrates_flow::{Kind, Result, new_batch};

use super::lambda_kinds::LambdaKind;
use super::short_circuit_rewrite::with_guards;
use crate::expression::budget;
use crate::expression::compile::{physical, translate_error};

type Computed<T> = std::result::Result<T, DataFusionError>;

/// Bytes for each item beside its values: its row, its place and its position.
const ITEM_BYTES: usize = 16;

/// The body of a lambda, compiled over the columns and the parameters that it reads.
#[derive(Debug)]
pub(crate) struct LambdaBody {
    physical: Arc<dyn PhysicalExpr>,
    /// The short-circuiting form, for items on which `physical` fails.
    guarded: Option<Arc<dyn PhysicalExpr>>,
    seen: SchemaRef,
    columns: Vec<usize>,
    data_type: DataType,
    text: String,
}

impl LambdaBody {
    /// Compiles an expression over these columns, of which the parameters are the last.
    pub(crate) fn new(expr: &Expr, text: String, schema: &Schema) -> Result<LambdaBody> {
        let wrong = |error: DataFusionError| translate_error(&error, Kind::Usage);
        let used = expr.column_refs();
        let columns = used.iter().map(|column| Ok(schema.index_of(&column.name)?));
        let mut columns = columns.collect::<Result<Vec<usize>>>()?;
        columns.sort_unstable();
        let seen = Arc::new(schema.project(&columns)?);
        let named = DFSchema::try_from(seen.clone()).map_err(wrong)?;
        let guarded = with_guards(expr).map(|expr| physical(&expr, &named)).transpose()?;
        let physical = physical(expr, &named)?;
        let data_type = physical.data_type(&seen).map_err(wrong)?;
        Ok(LambdaBody { physical, guarded, seen, columns, data_type, text })
    }

    /// The positions of the columns that it reads, in ascending order.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn values(&self, seen: &RecordBatch) -> Computed<ArrayRef> {
        let value = match (self.physical.evaluate(seen), &self.guarded) {
            (Err(_), Some(guarded)) if !budget::is_exceeded() => guarded.evaluate(seen),
            (value, _) => value,
        };
        value?.into_array(seen.num_rows())
    }
}

/// A function with its lambda. Its arguments are the list, the initial value if there is one, and
/// the columns that the body reads.
#[derive(Debug)]
pub(crate) struct ListLambda {
    kind: LambdaKind,
    body: LambdaBody,
    /// The parameters that the body reads, behind its columns.
    used: Vec<usize>,
    returns: DataType,
    has_initial: bool,
    signature: Signature,
}

impl ListLambda {
    /// The function of a lambda with this body.
    pub(crate) fn function(
        kind: LambdaKind,
        body: LambdaBody,
        used: Vec<usize>,
        returns: DataType,
        has_initial: bool,
    ) -> Arc<ScalarUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        let lambda = ListLambda { kind, body, used, returns, has_initial, signature };
        Arc::new(ScalarUDF::new_from_impl(lambda))
    }

    /// The values of the body for items of `rows`. Parameters are computed if the body reads them.
    fn values(
        &self,
        columns: &[ArrayRef],
        rows: &UInt32Array,
        parameter: impl Fn(usize) -> Computed<ArrayRef>,
    ) -> Computed<ArrayRef> {
        let columns = columns.iter().map(|column| Ok(take(column, rows, None)?));
        let parameters = self.used.iter().map(|at| parameter(*at));
        let columns = columns.chain(parameters).collect::<Computed<Vec<_>>>()?;
        self.body.values(&new_batch(self.body.seen.clone(), columns, rows.len())?)
    }

    /// Evaluates the body for all items at once.
    fn of_items(&self, list: &ListArray, columns: &[ArrayRef]) -> Computed<ArrayRef> {
        let lengths: Vec<usize> = (0..list.len()).map(|row| length(list, row)).collect();
        let count: usize = lengths.iter().sum();
        budget::take(count.saturating_mul(ITEM_BYTES))?;
        let each = || lengths.iter().enumerate().filter(|(_, length)| **length > 0);
        let rows: UInt32Array = each()
            .flat_map(|(row, length)| std::iter::repeat_n(row as u32, *length))
            .map(Some)
            .collect();
        let offsets = list.offsets();
        let places: UInt32Array = each()
            .flat_map(|(row, length)| {
                let start = offsets[row] as u32;
                start..start + *length as u32
            })
            .map(Some)
            .collect();
        let items = take(list.values(), &places, None)?;
        let values = self.values(columns, &rows, |at| match at {
            0 => Ok(items.clone()),
            _ => {
                let positions = each().flat_map(|(_, length)| 1..=*length as i64);
                Ok(Arc::new(Int64Array::from_iter_values(positions)))
            }
        })?;
        let (items, lengths) = match self.kind {
            LambdaKind::Filter => {
                let values = values.as_boolean();
                let kept = match values.null_count() {
                    0 => values.clone(),
                    _ => prep_null_mask_filter(values),
                };
                let mut lengths = vec![0; list.len()];
                for item in kept.values().set_indices() {
                    lengths[rows.value(item) as usize] += 1;
                }
                (filter(&items, &kept)?, lengths)
            }
            _ => (values, lengths),
        };
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(field, offsets, items, list.nulls().cloned())?))
    }

    /// Evaluates the body for the items of one position after the other.
    fn reduced(
        &self,
        list: &ListArray,
        initial: Option<&ArrayRef>,
        columns: &[ArrayRef],
    ) -> Computed<ArrayRef> {
        let first = usize::from(initial.is_none());
        let is_list = |row: &u32| list.is_valid(*row as usize);
        let mut rows: Vec<u32> = (0..list.len() as u32).filter(is_list).collect();
        if first == 1 && rows.iter().any(|row| length(list, *row as usize) == 0) {
            return exec_err!("list_reduce has no initial value for a list without items");
        }
        let item_at = |rows: &[u32], at: usize| -> Computed<ArrayRef> {
            let places = rows.iter().map(|row| list.offsets()[*row as usize] as u32 + at as u32);
            Ok(take(list.values(), &UInt32Array::from_iter_values(places), None)?)
        };
        let mut state = match initial {
            Some(initial) => take(initial, &UInt32Array::from(rows.clone()), None)?,
            None => item_at(&rows, 0)?,
        };
        // The rows whose lists have ended, and their values.
        let (mut ended, mut parts): (Vec<u32>, Vec<ArrayRef>) = (vec![], vec![]);
        for at in first.. {
            let has_item = |row: u32| length(list, row as usize) > at;
            let (left, done): (Vec<u32>, Vec<u32>) =
                (0..rows.len() as u32).partition(|place| has_item(rows[*place as usize]));
            if !done.is_empty() {
                ended.extend(done.iter().map(|place| rows[*place as usize]));
                parts.push(take(&state, &UInt32Array::from(done), None)?);
                rows = left.iter().map(|place| rows[*place as usize]).collect();
                state = take(&state, &UInt32Array::from(left), None)?;
            }
            if rows.is_empty() {
                break;
            }
            let of = UInt32Array::from(rows.clone());
            let items = item_at(&rows, at)?;
            state = self.values(columns, &of, |parameter| {
                Ok(match parameter {
                    0 => state.clone(),
                    1 => items.clone(),
                    _ => Arc::new(Int64Array::from_value((at + 1) as i64, rows.len())),
                })
            })?;
        }
        let mut places = vec![None; list.len()];
        for (place, row) in ended.iter().enumerate() {
            places[*row as usize] = Some(place as u32);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = match &parts[..] {
            [] => arrow::array::new_empty_array(&self.returns),
            parts => concat(parts)?,
        };
        Ok(take(&values, &UInt32Array::from(places), None)?)
    }
}

/// The items of a row's list.
fn length(list: &ListArray, row: usize) -> usize {
    match list.is_valid(row) {
        true => list.value_length(row) as usize,
        false => 0,
    }
}

impl PartialEq for ListLambda {
    fn eq(&self, other: &ListLambda) -> bool {
        self.kind == other.kind
            && self.body.text == other.body.text
            && self.body.seen == other.body.seen
            && self.used == other.used
            && self.has_initial == other.has_initial
    }
}

impl Eq for ListLambda {}

impl Hash for ListLambda {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind, &self.body.text).hash(state);
    }
}

impl ScalarUDFImpl for ListLambda {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Computed<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Computed<Vec<_>>>();
        let arrays = arrays?;
        let (initial, columns) = arrays[1..].split_at(usize::from(self.has_initial));
        let list = arrays[0].as_list::<i32>();
        let found = match self.kind {
            LambdaKind::Reduce => self.reduced(list, initial.first(), columns)?,
            _ => self.of_items(list, columns)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
