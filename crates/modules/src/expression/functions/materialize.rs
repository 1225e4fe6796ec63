//! Internal functions that copy text into each row: a constant that becomes a column, the values of
//! a dictionary, and `||`. They reserve memory first.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, sum, take};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::delegate::named;
use super::result_size::{all_text, is_long, scalar_bytes};
use crate::expression::budget;
use crate::expression::common_type::plain;
use crate::expression::typed::Typed;

/// Shorter constants are not metered.
const SHORT_BYTES: usize = 64;

/// Meters a long constant that is an alternative of a result, since it may be copied into each row.
pub(crate) fn constant(of: Typed) -> Typed {
    match of.value().is_some_and(|value| scalar_bytes(value) > SHORT_BYTES) {
        // Must not be folded to the constant again.
        true => Typed { expr: call(CopyKind::Constant, vec![of.expr]), ..of },
        false => of,
    }
}

/// Unpacks text or bytes from a dictionary, metered.
pub(crate) fn unpacked(of: Typed) -> Typed {
    let values = plain(&of.data_type).clone();
    match values != of.data_type && is_long(&values) && !values.is_nested() {
        true => Typed::new(call(CopyKind::Unpacked, vec![of.expr]), values, of.text),
        false => of,
    }
}

/// The argument of a call of `unpacked`.
pub(crate) fn unpacked_of(call: &ScalarFunction) -> Option<&Expr> {
    let called = call.func.inner().downcast_ref::<MaterializingFunction>()?;
    call.args.first().filter(|_| called.copy == CopyKind::Unpacked)
}

/// `left || right`, both of this type.
pub(crate) fn concatenated(left: Typed, right: Typed, data_type: DataType, text: String) -> Typed {
    Typed::new(call(CopyKind::Concatenated, vec![left.expr, right.expr]), data_type, text)
}

fn call(copy: CopyKind, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(FUNCTIONS[copy as usize].clone(), args))
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
    [CopyKind::Constant, CopyKind::Unpacked, CopyKind::Concatenated].map(|copy| {
        let any = Signature::any(
            if copy == CopyKind::Concatenated { 2 } else { 1 },
            Volatility::Immutable,
        );
        Arc::new(ScalarUDF::new_from_impl(MaterializingFunction { copy, any }))
    })
});

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CopyKind {
    Constant,
    Unpacked,
    Concatenated,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MaterializingFunction {
    copy: CopyKind,
    any: Signature,
}

impl ScalarUDFImpl for MaterializingFunction {
    named!(self => match self.copy {
        CopyKind::Constant => "constant",
        CopyKind::Unpacked => "unpacked",
        CopyKind::Concatenated => "joined",
    });

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(match self.copy {
            CopyKind::Unpacked => plain(&arg_types[0]).clone(),
            CopyKind::Constant | CopyKind::Concatenated => arg_types[0].clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let rows = args.number_rows;
        match (self.copy, args.args.as_slice()) {
            (CopyKind::Concatenated, [left, right]) => {
                budget::take(all_text(&args.args, rows, 1))?;
                let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
                Ok(ColumnarValue::Array(concat_elements_dyn(&left, &right)?))
            }
            (CopyKind::Unpacked, [ColumnarValue::Array(array)]) => {
                budget::take(unpacked_bytes(array)?)?;
                Ok(ColumnarValue::Array(cast(array, plain(array.data_type()))?))
            }
            (CopyKind::Unpacked, [ColumnarValue::Scalar(scalar)]) => {
                Ok(ColumnarValue::Scalar(scalar.cast_to(plain(&scalar.data_type()))?))
            }
            (_, args) => {
                budget::take(all_text(args, rows, 1))?;
                Ok(args[0].clone())
            }
        }
    }
}

/// The total length of all rows.
fn unpacked_bytes(array: &ArrayRef) -> Result<usize, DataFusionError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(0) };
    let lengths = cast(&length(dictionary.values())?, &DataType::Int64)?;
    let lengths = take(&lengths, dictionary.keys(), None)?;
    let bytes = sum(lengths.as_primitive::<Int64Type>()).unwrap_or(0);
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}
