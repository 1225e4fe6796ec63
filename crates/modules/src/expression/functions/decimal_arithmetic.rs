//! Sums, differences and products of decimals whose unscaled values have 64 bits.
//!
//! Arrow checks each value in 128 bits for overflow, one by one. Results of values that have 64
//! bits cannot overflow, and whether all of a batch have is one test at its end. Where some have
//! not, Arrow computes the batch.

pub(crate) mod narrow_decimals;

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::BinaryExpr;

use crate::batches::integer_bits::excess_bits;

type Computed<T> = std::result::Result<T, DataFusionError>;

/// The most digits by which a side is lengthened: with them, products of 64 bits have less than 126
/// bits, so that sums of two do not overflow.
const LENGTHENED_MAX: u32 = 18;

/// Arithmetic on decimals, in place of `checked`; `None` if that computes nothing of the kind.
pub(crate) fn fast(checked: &BinaryExpr, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    if !matches!(checked.op(), Operator::Plus | Operator::Minus | Operator::Multiply) {
        return None;
    }
    let scale_of = |side: &Arc<dyn PhysicalExpr>| match side.data_type(schema).ok()? {
        DataType::Decimal128(_, scale) => Some(scale),
        _ => None,
    };
    let (left, right) = (scale_of(checked.left())?, scale_of(checked.right())?);
    let DataType::Decimal128(digits, scale) = checked.data_type(schema).ok()? else { return None };
    let factor = |own: i8| {
        let longer = u32::try_from(scale - own).ok().filter(|digits| *digits <= LENGTHENED_MAX);
        longer.map(|digits| 10_i64.pow(digits))
    };
    let factors = match checked.op() {
        Operator::Multiply => (left.checked_add(right)? == scale).then_some([1, 1])?,
        _ => [factor(left)?, factor(right)?],
    };
    let checked = checked.clone().with_fail_on_overflow(true);
    Some(Arc::new(DecimalArithmetic { checked: Arc::new(checked), factors, digits, scale }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalArithmetic {
    /// What Arrow computes.
    checked: Arc<BinaryExpr>,
    /// What the unscaled values of either side are multiplied by, to have the scale of a sum.
    factors: [i64; 2],
    digits: u8,
    scale: i8,
}

/// The values of one side for all rows of a batch; all have 64 bits.
enum Side<'a> {
    Rows(&'a [i128]),
    One(i64),
}

impl DecimalArithmetic {
    fn sides(&self) -> [&Arc<dyn PhysicalExpr>; 2] {
        [self.checked.left(), self.checked.right()]
    }

    fn operator(&self) -> &Operator {
        self.checked.op()
    }

    /// What the unscaled values of either side are multiplied by; a product has no factors.
    fn factors(&self) -> [i64; 2] {
        self.factors
    }

    fn results(&self, left: &Side, right: &Side, rows: usize) -> Vec<i128> {
        match self.checked.op() {
            Operator::Multiply => products(left, right, rows),
            Operator::Plus => sums(self.scaled(left, right), |x, y| x + y, rows),
            _ => sums(self.scaled(left, right), |x, y| x - y, rows),
        }
    }

    /// The sides with what their values are multiplied by.
    fn scaled<'a>(&self, left: &'a Side<'a>, right: &'a Side<'a>) -> [(&'a Side<'a>, i64); 2] {
        [(left, self.factors[0]), (right, self.factors[1])]
    }
}

/// The product of two values of 64 bits, which is one instruction.
fn product(x: i128, y: i64) -> i128 {
    i128::from(x as i64) * i128::from(y)
}

fn products(left: &Side, right: &Side, rows: usize) -> Vec<i128> {
    match (left, right) {
        (Side::Rows(left), Side::Rows(right)) => {
            left.iter().zip(*right).map(|(x, y)| product(*x, *y as i64)).collect()
        }
        (Side::Rows(all), Side::One(one)) | (Side::One(one), Side::Rows(all)) => {
            all.iter().map(|x| product(*x, *one)).collect()
        }
        (Side::One(x), Side::One(y)) => vec![product((*x).into(), *y); rows],
    }
}

/// Sums or differences of sides that are multiplied first. Most sides need no factor, and one is a
/// constant.
#[inline(always)]
fn sums(
    [(left, a), (right, b)]: [(&Side, i64); 2],
    join: impl Fn(i128, i128) -> i128 + Copy,
    rows: usize,
) -> Vec<i128> {
    match (left, right) {
        (Side::Rows(left), Side::Rows(right)) => {
            let sides = left.iter().zip(*right);
            match (a, b) {
                (1, 1) => sides.map(|(x, y)| join(*x, *y)).collect(),
                _ => sides.map(|(x, y)| join(product(*x, a), product(*y, b))).collect(),
            }
        }
        (Side::Rows(left), Side::One(y)) => {
            let y = product((*y).into(), b);
            match a {
                1 => left.iter().map(|x| join(*x, y)).collect(),
                _ => left.iter().map(|x| join(product(*x, a), y)).collect(),
            }
        }
        (Side::One(x), Side::Rows(right)) => {
            let x = product((*x).into(), a);
            match b {
                1 => right.iter().map(|y| join(x, *y)).collect(),
                _ => right.iter().map(|y| join(x, product(*y, b))).collect(),
            }
        }
        (Side::One(x), Side::One(y)) => {
            vec![join(product((*x).into(), a), product((*y).into(), b)); rows]
        }
    }
}

/// The values of a side; `None` if they are null, or have more than 64 bits.
fn side(value: &ColumnarValue) -> Option<Side<'_>> {
    match value {
        ColumnarValue::Array(array) => {
            let values: &[i128] = array.as_primitive_opt::<Decimal128Type>()?.values();
            let excess = values.iter().fold(0, |all, &value| all | excess_bits(value));
            (excess == 0).then_some(Side::Rows(values))
        }
        ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), ..)) => {
            i64::try_from(*value).ok().map(Side::One)
        }
        ColumnarValue::Scalar(_) => None,
    }
}

impl fmt::Display for DecimalArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.checked, f)
    }
}

impl PhysicalExpr for DecimalArithmetic {
    fn data_type(&self, _: &Schema) -> Computed<DataType> {
        Ok(DataType::Decimal128(self.digits, self.scale))
    }

    fn nullable(&self, schema: &Schema) -> Computed<bool> {
        self.checked.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Computed<ColumnarValue> {
        let values = [self.checked.left().evaluate(batch)?, self.checked.right().evaluate(batch)?];
        let nulls = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => array.nulls().cloned(),
            ColumnarValue::Scalar(_) => None,
        };
        let results = match (side(&values[0]), side(&values[1])) {
            (Some(left), Some(right)) => Some(self.results(&left, &right, batch.num_rows())),
            _ => None,
        };
        let Some(results) = results else { return self.checked.evaluate(batch) };
        let nulls = NullBuffer::union(nulls(&values[0]).as_ref(), nulls(&values[1]).as_ref());
        let results = Decimal128Array::new(results.into(), nulls);
        let results = results.with_precision_and_scale(self.digits, self.scale)?;
        Ok(ColumnarValue::Array(Arc::new(results) as ArrayRef))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![self.checked.left(), self.checked.right()]
    }

    fn with_new_children(
        self: Arc<Self>,
        sides: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Computed<Arc<dyn PhysicalExpr>> {
        let [left, right] = &sides[..] else { return exec_err!("arithmetic has two sides") };
        let checked = BinaryExpr::new(left.clone(), *self.checked.op(), right.clone());
        let checked = Arc::new(checked.with_fail_on_overflow(true));
        let Self { factors, digits, scale, .. } = *self;
        Ok(Arc::new(DecimalArithmetic { checked, factors, digits, scale }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checked.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion_physical_expr::expressions::Column;
    use proptest::prelude::*;

    fn column(values: &[Option<i128>], digits: u8, scale: i8) -> ArrayRef {
        let values = Decimal128Array::from(values.to_vec());
        Arc::new(values.with_precision_and_scale(digits, scale).unwrap())
    }

    /// What the fast form and Arrow compute.
    fn both(op: Operator, left: ArrayRef, right: ArrayRef) -> [Computed<ArrayRef>; 2] {
        let rows = left.len();
        let fields = [("a", &left), ("b", &right)];
        let fields = fields.map(|(name, it)| Field::new(name, it.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let batch = RecordBatch::try_new(schema.clone(), vec![left, right]).unwrap();
        let of = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let checked = BinaryExpr::new(of("a", 0), op, of("b", 1)).with_fail_on_overflow(true);
        let fast = fast(&checked, &schema).unwrap();
        [fast.evaluate(&batch), checked.evaluate(&batch)]
            .map(|value| value.and_then(|value| value.into_array(rows)))
    }

    proptest! {
        #[test]
        fn results_and_types_are_arrows(
            values in prop::collection::vec(
                (prop::option::of(-1_i128 << 80..1 << 80), prop::option::of(any::<i64>())), 0..20,
            ),
            is_narrow in any::<bool>(), scales in (0_i8..12, 0_i8..12),
        ) {
            let (left, right): (Vec<_>, Vec<_>) = values.into_iter().unzip();
            let shift = if is_narrow { 20 } else { 0 };
            let left: Vec<Option<i128>> =
                left.into_iter().map(|it: Option<i128>| it.map(|it| it >> shift)).collect();
            let right: Vec<Option<i128>> = right.into_iter().map(|it| it.map(i128::from)).collect();
            for op in [Operator::Plus, Operator::Minus, Operator::Multiply] {
                let sides = (column(&left, 30, scales.0), column(&right, 19, scales.1));
                match both(op, sides.0, sides.1) {
                    [Ok(own), Ok(arrows)] => {
                        prop_assert_eq!(own.data_type(), arrows.data_type());
                        prop_assert_eq!(&own, &arrows);
                    }
                    [own, arrows] => prop_assert_eq!(own.is_err(), arrows.is_err()),
                }
            }
        }
    }

    #[test]
    fn overflow_is_an_error() {
        let most = 10_i128.pow(38) - 1;
        let sides = || (column(&[Some(most)], 38, 0), column(&[Some(most)], 38, 0));
        for op in [Operator::Plus, Operator::Multiply] {
            let [own, arrows] = both(op, sides().0, sides().1);
            // Arrow has 128 bits, of which the sum of two such values takes all but the sign.
            assert_eq!(own.is_err(), arrows.is_err());
        }
        assert!(both(Operator::Multiply, sides().0, sides().1)[0].is_err());
    }
}
