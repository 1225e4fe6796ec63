//! Numbers with a fraction that are cast to a decimal. The planner makes a floating point number of
//! them, which has fewer digits, so they are written as text.

use datafusion_sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value};

/// The cast of such a number.
pub(super) fn of_cast(expr: &Expr) -> Option<Expr> {
    let mut cast = expr.clone();
    let Expr::Cast { expr: of, .. } = &mut cast else { return None };
    **of = exact_number(of)?;
    Some(cast)
}

pub(super) fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
}

fn exact_number(of: &Expr) -> Option<Expr> {
    let (value, sign) = match of {
        Expr::Nested(inner) => return exact_number(inner),
        Expr::Value(value) => (value, ""),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => (value, "-"),
            _ => return None,
        },
        _ => return None,
    };
    match &value.value {
        Value::Number(digits, _) if digits.contains('.') => {
            Some(Expr::value(Value::SingleQuotedString(format!("{sign}{digits}"))))
        }
        _ => None,
    }
}
