//! Sums, differences and products of decimals in 64 bits, for aggregates that take such values.
//!
//! Most decimals have 64 bits, and so have most results. The bits of the largest value of a batch
//! bound those of a result, so that no operation checks for overflow, and each moves half the bytes
//! of 128 bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Decimal128Type};
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;

use super::DecimalArithmetic;
use crate::batches::integer_bits::{excess_bits, magnitude_bits};
use crate::expression::functions::exact;

/// The most bits of an operand of a sum, and of both operands of a product together: results have
/// one more, and the sign.
const BITS_MAX: u32 = 62;

/// The values of expressions for the rows of one batch, in case another contains them.
#[derive(Default)]
pub(crate) struct NarrowMemo(Vec<(Arc<dyn PhysicalExpr>, NarrowDecimals)>);

/// Unscaled values of 64 bits.
#[derive(Clone)]
struct NarrowDecimals {
    values: NarrowValues,
    /// No value is larger than this many bits and the sign represent.
    bits: u32,
    nulls: Option<NullBuffer>,
}

#[derive(Clone)]
enum NarrowValues {
    Rows(ScalarBuffer<i64>),
    One(i64),
}

/// Whether an expression is arithmetic that may be evaluated in 64 bits.
pub(crate) fn is_arithmetic(expression: &Arc<dyn PhysicalExpr>) -> bool {
    unchecked(expression).is::<DecimalArithmetic>()
}

impl NarrowMemo {
    /// The values of a decimal expression as an array of 64 bits, of the same scale; `None` if some
    /// have more, or fail. All batches of a memo have the same rows, and columns of one name are
    /// the same.
    pub(crate) fn evaluate(
        &mut self,
        expression: &Arc<dyn PhysicalExpr>,
        batch: &RecordBatch,
        scale: i8,
    ) -> Option<ArrayRef> {
        let found = self.values(expression, batch)?;
        self.0.push((unchecked(expression).clone(), found.clone()));
        let values = match found.values {
            NarrowValues::Rows(values) => values,
            NarrowValues::One(value) => vec![value; batch.num_rows()].into(),
        };
        let data_type = DataType::Decimal64(DECIMAL64_MAX_PRECISION, scale);
        Some(Arc::new(Decimal64Array::new(values, found.nulls).with_data_type(data_type)))
    }

    fn values(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        batch: &RecordBatch,
    ) -> Option<NarrowDecimals> {
        let expression = unchecked(expression);
        let known = self.0.iter().find(|(known, _)| known == expression);
        if let Some((_, values)) = known {
            return Some(values.clone());
        }
        let Some(arithmetic) = expression.downcast_ref::<DecimalArithmetic>() else {
            return NarrowDecimals::of(&expression.evaluate(batch).ok()?);
        };
        let [left, right] = arithmetic.sides();
        let (left, right) = (self.values(left, batch)?, self.values(right, batch)?);
        match arithmetic.operator() {
            Operator::Multiply => left.joined(right, [1, 1], 0, i64::wrapping_mul),
            Operator::Plus => left.joined(right, arithmetic.factors(), 1, i64::wrapping_add),
            _ => left.joined(right, arithmetic.factors(), 1, i64::wrapping_sub),
        }
    }
}

/// An expression without the check that its values have the digits of their type: 64 bits have less
/// than 38 digits.
fn unchecked(expression: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    exact::checked_argument(expression).map_or(expression, unchecked)
}

impl NarrowDecimals {
    fn of(value: &ColumnarValue) -> Option<NarrowDecimals> {
        match value {
            ColumnarValue::Array(array) => Self::of_array(array),
            ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), ..)) => {
                let value = i64::try_from(*value).ok()?;
                let values = NarrowValues::One(value);
                Some(NarrowDecimals { values, bits: bits(magnitude_bits(value)), nulls: None })
            }
            ColumnarValue::Scalar(_) => None,
        }
    }

    fn of_array(array: &ArrayRef) -> Option<NarrowDecimals> {
        let wide = array.as_primitive_opt::<Decimal128Type>()?;
        let (mut magnitude, mut excess) = (0, 0);
        let narrow = |value: &i128| {
            excess |= excess_bits(*value);
            magnitude |= magnitude_bits(*value as i64);
            *value as i64
        };
        let values: Vec<i64> = wide.values().iter().map(narrow).collect();
        let (bits, nulls) = (bits(magnitude), array.nulls().cloned());
        let values = NarrowValues::Rows(values.into());
        (excess == 0).then_some(NarrowDecimals { values, bits, nulls })
    }

    /// Applies an operation to both, each multiplied by a factor. The operation of values of some
    /// bits has results of the bits of the larger and `more`; that of a product, of both.
    fn joined(
        self,
        other: NarrowDecimals,
        factors: [i64; 2],
        more: u32,
        apply: impl Fn(i64, i64) -> i64,
    ) -> Option<NarrowDecimals> {
        let (left, right) = (self.scaled(factors[0])?, other.scaled(factors[1])?);
        let bits = match more {
            0 => left.bits + right.bits,
            more => left.bits.max(right.bits) + more,
        };
        (bits <= BITS_MAX).then_some(())?;
        let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        use NarrowValues::{One, Rows};
        let values = match (left.values, right.values) {
            (Rows(left), Rows(right)) => {
                let mut left = Vec::from(left);
                left.iter_mut().zip(&right).for_each(|(x, y)| *x = apply(*x, *y));
                Rows(left.into())
            }
            (Rows(left), One(y)) => Rows(changed(left, |x| apply(x, y))),
            (One(x), Rows(right)) => Rows(changed(right, |y| apply(x, y))),
            (One(x), One(y)) => One(apply(x, y)),
        };
        Some(NarrowDecimals { values, bits, nulls })
    }

    /// The values multiplied by a factor that is not negative.
    fn scaled(mut self, factor: i64) -> Option<NarrowDecimals> {
        if factor == 1 {
            return Some(self);
        }
        self.bits += bits(factor);
        (self.bits <= BITS_MAX).then_some(())?;
        self.values = match self.values {
            NarrowValues::Rows(values) => NarrowValues::Rows(changed(values, |it| it * factor)),
            NarrowValues::One(value) => NarrowValues::One(value * factor),
        };
        Some(self)
    }
}

/// Applies an operation to each value, in place unless they are shared.
fn changed(values: ScalarBuffer<i64>, apply: impl Fn(i64) -> i64) -> ScalarBuffer<i64> {
    let mut values = Vec::from(values);
    values.iter_mut().for_each(|value| *value = apply(*value));
    values.into()
}

/// The number of bits of a value that is not negative.
fn bits(value: i64) -> u32 {
    i64::BITS - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
    use arrow::datatypes::{Decimal64Type, Decimal128Type};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;

    use super::NarrowMemo;
    use crate::expression::Expression;

    const EXPRESSIONS: [&str; 6] = [
        "a * (1 - b)",
        "a * (1 - b) * (1 + c)",
        "(1 + c) * (a * (1 - b))",
        "a - b * c",
        "a + b - c + 0.5",
        "a * a - a * a",
    ];

    fn batch(columns: [Vec<Option<i64>>; 3]) -> RecordBatch {
        let column = |(values, scale): (Vec<Option<i64>>, i8)| -> ArrayRef {
            let values: Decimal128Array = values.iter().map(|it| it.map(i128::from)).collect();
            Arc::new(values.with_precision_and_scale(18, scale).unwrap())
        };
        let [a, b, c] = columns;
        let columns = [("a", (a, 2)), ("b", (b, 2)), ("c", (c, 4))];
        let columns = columns.map(|(name, values)| (name, column(values), true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    proptest! {
        #[test]
        fn values_are_those_of_128_bits(
            rows in prop::collection::vec(
                [prop::option::of(any::<i64>()), prop::option::of(any::<i64>()),
                 prop::option::of(any::<i64>())], 1..30),
            shift in 5_u32..60,
        ) {
            let column = |at: usize| rows.iter().map(|row| row[at].map(|it| it >> shift)).collect();
            let batch = batch([column(0), column(1), column(2)]);
            let mut memo = NarrowMemo::default();
            for text in EXPRESSIONS {
                let expression = Expression::parse(text, &batch.schema()).unwrap();
                prop_assert!(expression.may_be_narrow(), "{text}");
                let all = 0..batch.num_rows();
                let narrow = expression.evaluate_narrow(&batch, all.clone(), &mut memo);
                // Operands of at most 15 bits have results of at most 62 together.
                prop_assert!(narrow.is_some() || shift < 64 - 15, "{text}");
                let Some(narrow) = narrow else { continue };
                let wide = expression.evaluate_rows(&batch, all).unwrap();
                let narrow = narrow.as_primitive::<Decimal64Type>();
                let wide = wide.as_primitive::<Decimal128Type>();
                prop_assert_eq!(narrow.scale(), wide.scale());
                prop_assert_eq!(narrow.len(), wide.len());
                for row in 0..wide.len() {
                    prop_assert_eq!(narrow.is_null(row), wide.is_null(row), "{}", text);
                    if wide.is_valid(row) {
                        prop_assert_eq!(i128::from(narrow.value(row)), wide.value(row), "{}", text);
                    }
                }
            }
        }
    }

    #[test]
    fn values_beyond_64_bits_have_none() {
        let large = vec![Some(1 << 62), Some(1)];
        let small = vec![Some(3), Some(4)];
        let batch = batch([large, small.clone(), small]);
        for text in ["a * b", "a + b", "a * (1 - b)"] {
            let expression = Expression::parse(text, &batch.schema()).unwrap();
            let mut memo = NarrowMemo::default();
            assert!(expression.evaluate_narrow(&batch, 0..2, &mut memo).is_none(), "{text}");
        }
    }
}
