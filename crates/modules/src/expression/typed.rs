//! Expressions with the types of their values; constant expressions are folded as they are built.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{ColumnarValue, Expr};

use super::budget;
use super::compile::evaluate_constant;
use super::types::{Family, in_words};

/// An expression and the type of its values.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    /// The type of its values.
    pub(crate) data_type: DataType,
    /// The text as written, for messages.
    pub(crate) text: String,
}

impl Typed {
    /// An expression, folded if it has no operands but literals.
    pub(crate) fn new(expr: Expr, data_type: DataType, text: impl Into<String>) -> Typed {
        let expr = folded(&expr).unwrap_or(expr);
        Typed { expr, data_type, text: text.into() }
    }

    pub(crate) fn literal(value: ScalarValue, text: impl Into<String>) -> Typed {
        let data_type = value.data_type();
        Typed { expr: Expr::Literal(value, None), data_type, text: text.into() }
    }

    /// The value, if the expression is a literal.
    pub(crate) fn value(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(&self.data_type)
    }

    /// The text as written, with its type in words.
    pub(crate) fn described(&self) -> String {
        format!("`{}` ({})", self.text, in_words(&self.data_type))
    }
}

/// The literal that an expression over literals evaluates to; `None` for other expressions, or if
/// it fails.
fn folded(expr: &Expr) -> Option<Expr> {
    let mut children = 0;
    let mut literals = 0;
    let counted = expr.apply_children(|child| {
        children += 1;
        literals += usize::from(matches!(child, Expr::Literal(..)));
        Ok(TreeNodeRecursion::Continue)
    });
    let changes = match expr {
        Expr::ScalarFunction(call) => {
            call.func.signature().volatility != datafusion_expr::Volatility::Immutable
        }
        _ => false,
    };
    if counted.is_err() || children == 0 || children != literals || changes {
        return None;
    }
    let value = budget::constant(|| evaluate_constant(expr).ok())?;
    let value = match value {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    Some(Expr::Literal(value, None))
}
