//! `text = ''` and `text <> ''`: whether values have no bytes, by their lengths alone.
//!
//! Arrow compares the bytes behind equal lengths. An empty constant has no memory, so a processor
//! with AVX-512 loads nothing from an address that is not mapped, which takes a hundred times the
//! time of a comparison.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericByteArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ByteArrayType, DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal};

type Computed<T> = std::result::Result<T, DataFusionError>;

/// The test, in place of a comparison with an empty text; `None` of another comparison.
pub(crate) fn fast(comparison: &BinaryExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let is_negated = match comparison.op() {
        Operator::Eq => false,
        Operator::NotEq => true,
        _ => return None,
    };
    let is_left = match (is_empty(comparison.left()), is_empty(comparison.right())) {
        (false, true) => true,
        (true, false) => false,
        _ => return None,
    };
    Some(Arc::new(EmptyTest { compared: Arc::new(comparison.clone()), is_left, is_negated }))
}

fn is_empty(side: &Arc<dyn PhysicalExpr>) -> bool {
    use ScalarValue::*;
    side.downcast_ref::<Literal>().is_some_and(|literal| match literal.value() {
        Utf8(Some(text)) | LargeUtf8(Some(text)) => text.is_empty(),
        Binary(Some(bytes)) | LargeBinary(Some(bytes)) => bytes.is_empty(),
        _ => false,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EmptyTest {
    /// What Arrow computes of other arrays.
    compared: Arc<BinaryExpr>,
    /// Whether the left side is tested.
    is_left: bool,
    is_negated: bool,
}

impl EmptyTest {
    fn tested(&self) -> &Arc<dyn PhysicalExpr> {
        if self.is_left { self.compared.left() } else { self.compared.right() }
    }

    /// The result for values with offsets; `None` of another type.
    fn of_values(&self, values: &ArrayRef) -> Option<BooleanBuffer> {
        Some(match values.data_type() {
            DataType::Utf8 => self.of_offsets(values.as_string::<i32>()),
            DataType::LargeUtf8 => self.of_offsets(values.as_string::<i64>()),
            DataType::Binary => self.of_offsets(values.as_binary::<i32>()),
            DataType::LargeBinary => self.of_offsets(values.as_binary::<i64>()),
            _ => return None,
        })
    }

    fn of_offsets<T: ByteArrayType>(&self, values: &GenericByteArray<T>) -> BooleanBuffer {
        let ends = values.value_offsets();
        let is_negated = self.is_negated;
        BooleanBuffer::collect_bool(values.len(), |row| (ends[row] == ends[row + 1]) != is_negated)
    }

    fn of_array(&self, array: &ArrayRef) -> Option<BooleanArray> {
        let Some(coded) = array.as_any_dictionary_opt() else {
            return Some(BooleanArray::new(self.of_values(array)?, array.nulls().cloned()));
        };
        // A null among the values is not one among the codes.
        if coded.values().null_count() > 0 || coded.values().is_empty() {
            return None;
        }
        let of_values = self.of_values(coded.values())?;
        let codes = coded.normalized_keys();
        let found = BooleanBuffer::collect_bool(codes.len(), |row| of_values.value(codes[row]));
        Some(BooleanArray::new(found, array.nulls().cloned()))
    }
}

impl fmt::Display for EmptyTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.compared, f)
    }
}

impl PhysicalExpr for EmptyTest {
    fn data_type(&self, _: &Schema) -> Computed<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Computed<bool> {
        self.tested().nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Computed<ColumnarValue> {
        let found = match self.tested().evaluate(batch)? {
            ColumnarValue::Array(array) => self.of_array(&array),
            ColumnarValue::Scalar(_) => None,
        };
        match found {
            Some(found) => Ok(ColumnarValue::Array(Arc::new(found))),
            None => self.compared.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![self.compared.left(), self.compared.right()]
    }

    fn with_new_children(
        self: Arc<Self>,
        sides: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Computed<Arc<dyn PhysicalExpr>> {
        let [left, right] = &sides[..] else { return exec_err!("a comparison has two sides") };
        let compared = BinaryExpr::new(left.clone(), *self.compared.op(), right.clone());
        Ok(fast(&compared).unwrap_or_else(|| Arc::new(compared)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.compared.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::cast;
    use arrow::datatypes::Field;
    use datafusion_physical_expr::expressions::{Column, lit};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_are_those_of_a_comparison(
            texts in prop::collection::vec(prop::option::of("[ab]{0,2}"), 0..70),
            is_left in any::<bool>(), from in 0_usize..9,
        ) {
            let coded = |of| DataType::Dictionary(Box::new(DataType::Int32), Box::new(of));
            let types = [DataType::Utf8, DataType::LargeUtf8, coded(DataType::Utf8)];
            let texts = arrow::array::StringArray::from(texts);
            let texts: ArrayRef = Arc::new(texts.slice(from.min(texts.len()), texts.len() - from.min(texts.len())));
            for of in types {
                let column = cast(&texts, &of).unwrap();
                let schema = Arc::new(Schema::new(vec![Field::new("a", of, true)]));
                let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
                for op in [Operator::Eq, Operator::NotEq] {
                    let a: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
                    let empty = match batch.column(0).data_type() {
                        DataType::LargeUtf8 => lit(ScalarValue::LargeUtf8(Some(String::new()))),
                        _ => lit(""),
                    };
                    let compared = match is_left {
                        true => BinaryExpr::new(a, op, empty),
                        false => BinaryExpr::new(empty, op, a),
                    };
                    let of = |it: Computed<ColumnarValue>| it.unwrap().into_array(texts.len()).unwrap();
                    let own = of(fast(&compared).unwrap().evaluate(&batch));
                    prop_assert_eq!(&own, &of(compared.evaluate(&batch)));
                }
            }
        }
    }

    #[test]
    fn other_comparisons_remain() {
        let a: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        assert!(fast(&BinaryExpr::new(a.clone(), Operator::Lt, lit(""))).is_none());
        assert!(fast(&BinaryExpr::new(a, Operator::Eq, lit("a"))).is_none());
    }
}
