//! Predicate pushdown: the part of a condition that a source can decide, for many rows at once by
//! statistics, or for each row.
//!
//! The condition is translated as in the filter, so both compare in the same types. Terms of an
//! `AND` are pushed from left to right, up to the first that may fail: the filter evaluates that
//! term wherever no earlier one is false, so only rows for which an earlier term is false may be
//! left out without hiding the failure.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Like, Operator};
use euphrates_flow::Result;
use euphrates_flow::module::RowCondition;
use euphrates_formats::predicate::{ComparedColumn, ComparedValue, RowPredicate, compared_values};
use euphrates_policy::predicate::{Comparison, Predicate};
use sqlparser::ast;

use super::conjunction::{by_column, conjuncts};
use crate::expression::Expression;
use crate::expression::common_type::plain;
use crate::expression::functions::{exact, materialize};
use crate::expression::parse::parse_expression;
use crate::expression::translate::Translator;
use crate::expression::typed::Typed;

/// The part of a condition that a source can decide. Both forms hold wherever the condition does,
/// and wherever evaluating the condition fails.
pub(crate) struct PushedCondition {
    /// For many rows at once, by what is known of their values.
    pub(crate) predicate: RowPredicate,
    /// For each row: expressions that are all true where the condition is. None if it is true for
    /// all rows.
    pub(crate) terms: Vec<Expression>,
    /// Whether evaluating the condition cannot fail.
    pub(crate) is_infallible: bool,
}

impl PushedCondition {
    /// The part of a condition on the rows of this schema.
    pub(crate) fn new(condition: &RowCondition, schema: &Schema) -> PushedCondition {
        let Pushed { predicate, expr, is_infallible } = Pushed::of(condition, schema);
        let text = condition.to_string();
        let mut terms = vec![];
        conjuncts(&expr, &mut terms);
        let term = |expr: Expr| {
            let typed = Typed::new(expr, DataType::Boolean, text.as_str());
            Expression::new(typed, &text, schema)
        };
        let terms = by_column(terms).into_iter().map(term).collect::<Result<Vec<_>>>();
        // If it cannot be compiled, the filter says so.
        let mut terms = terms.unwrap_or_default();
        terms.retain(|term| !term.columns().is_empty());
        PushedCondition { predicate, terms, is_infallible }
    }
}

/// Whether a condition compares columns and literals alone, so that it fails on no row, whatever
/// the types of the columns are.
pub(crate) fn compares_alone(text: &str) -> bool {
    parse_expression(text).is_ok_and(|condition| is_comparison(&condition))
}

fn is_comparison(expr: &ast::Expr) -> bool {
    use ast::{BinaryOperator as Op, Expr::*, UnaryOperator};
    match expr {
        Identifier(_) | Value(_) | TypedString(_) => true,
        Nested(inner) | IsNull(inner) | IsNotNull(inner) => is_comparison(inner),
        UnaryOp { op: UnaryOperator::Not, expr } => is_comparison(expr),
        BinaryOp { left, op, right } => {
            let compares = matches!(
                op,
                Op::And | Op::Or | Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq
            );
            compares && is_comparison(left) && is_comparison(right)
        }
        Between { expr, low, high, .. } => {
            [expr, low, high].into_iter().all(|it| is_comparison(it))
        }
        InList { expr, list, .. } => is_comparison(expr) && list.iter().all(is_comparison),
        Like { expr, pattern, .. } => is_comparison(expr) && is_comparison(pattern),
        _ => false,
    }
}

/// A predicate for a condition, or for the terms in front of one that may fail.
struct Pushed {
    predicate: RowPredicate,
    /// The same as an expression, which decides more: the predicate knows nothing of some terms.
    expr: Expr,
    /// Whether evaluating the condition cannot fail.
    is_infallible: bool,
}

impl Pushed {
    fn of(condition: &RowCondition, schema: &Schema) -> Pushed {
        match condition {
            RowCondition::Sql(text) => {
                Pushed::of_text(text, schema).unwrap_or_else(|_| Pushed::nothing())
            }
            RowCondition::All(conditions) => {
                let (mut terms, mut exprs, mut is_sure) = (vec![], vec![], true);
                for part in conditions.iter().map(|condition| Pushed::of(condition, schema)) {
                    terms.push(part.predicate);
                    exprs.push(part.expr);
                    is_sure = part.is_infallible;
                    if !is_sure {
                        break;
                    }
                }
                Pushed {
                    predicate: Predicate::All(terms),
                    expr: all_of(exprs),
                    is_infallible: is_sure,
                }
            }
            RowCondition::Any(conditions) => {
                let parts: Vec<Pushed> =
                    conditions.iter().map(|condition| Pushed::of(condition, schema)).collect();
                let is_sure = parts.iter().all(|part| part.is_infallible);
                let parts = parts.into_iter().map(|part| (part.predicate, part.expr));
                let (terms, exprs): (Vec<_>, Vec<_>) = parts.unzip();
                let expr = exprs.into_iter().reduce(Expr::or).unwrap_or_else(truth);
                Pushed { predicate: Predicate::Any(terms), expr, is_infallible: is_sure }
            }
        }
    }

    /// Nothing is known of a condition that may fail.
    fn nothing() -> Pushed {
        Pushed { predicate: Predicate::Unknown, expr: truth(), is_infallible: false }
    }

    fn of_text(text: &str, schema: &Schema) -> Result<Pushed> {
        let typed = Translator::new(text, schema)?.translate(&parse_expression(text)?)?;
        let typed = typed.boolean("a condition")?;
        let mut all = vec![];
        conjuncts(&typed.expr, &mut all);
        let terms: Vec<RowPredicate> =
            all.iter().map_while(|term| predicate(term, schema)).collect();
        let is_sure = terms.len() == all.len();
        let exprs = all[..terms.len()].iter().map(|term| (*term).clone());
        let predicate = Predicate::All(terms);
        Ok(match is_sure {
            true => Pushed { predicate, expr: all_of(exprs.collect()), is_infallible: is_sure },
            // Where the terms are null, the filter evaluates the next one.
            false => Pushed {
                predicate: Predicate::IsNotFalse(Box::new(predicate)),
                expr: all_of(exprs.map(|term| Expr::IsNotFalse(Box::new(term))).collect()),
                is_infallible: is_sure,
            },
        })
    }
}

/// A tree of `AND`.
fn all_of(exprs: Vec<Expr>) -> Expr {
    exprs.into_iter().reduce(Expr::and).unwrap_or_else(truth)
}

fn truth() -> Expr {
    Expr::Literal(ScalarValue::Boolean(Some(true)), None)
}

/// The predicate of a boolean expression; `None` if evaluating it may fail.
fn predicate(expr: &Expr, schema: &Schema) -> Option<RowPredicate> {
    let both =
        |left: &Expr, right: &Expr| Some(vec![predicate(left, schema)?, predicate(right, schema)?]);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => both(left, right).map(Predicate::All),
            Operator::Or => both(left, right).map(Predicate::Any),
            op => {
                (is_sure(left, schema) && is_sure(right, schema)).then_some(())?;
                let comparison = comparison(*op)?;
                let straight = compared(left, comparison, right, schema);
                let flipped = || compared(right, comparison.flipped(), left, schema);
                Some(straight.or_else(flipped).unwrap_or(Predicate::Unknown))
            }
        },
        Expr::Not(inner) => Some(Predicate::Not(Box::new(predicate(inner, schema)?))),
        Expr::IsNull(of) => is_null(of, schema),
        Expr::IsNotNull(of) => Some(Predicate::Not(Box::new(is_null(of, schema)?))),
        Expr::InList(among) => {
            let mut all = among.list.iter().chain([among.expr.as_ref()]);
            all.all(|item| is_sure(item, schema)).then_some(())?;
            let equal = |item| compared(&among.expr, Comparison::Equal, item, schema);
            let terms: Option<Vec<RowPredicate>> = among.list.iter().map(equal).collect();
            let any = terms.map_or(Predicate::Unknown, Predicate::Any);
            Some(if among.negated { Predicate::Not(Box::new(any)) } else { any })
        }
        Expr::Like(like) => {
            (is_sure(&like.expr, schema) && is_sure(&like.pattern, schema)).then_some(())?;
            Some(with_prefix(like, schema).unwrap_or(Predicate::Unknown))
        }
        Expr::Column(_) => compared(expr, Comparison::Equal, &truth(), schema),
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => Some(Predicate::All(vec![])),
        Expr::Literal(ScalarValue::Boolean(Some(false)), _) => Some(Predicate::Any(vec![])),
        Expr::Literal(..) => Some(Predicate::Unknown),
        _ => None,
    }
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// A comparison of a column with a literal of the same type; `None` for others.
fn compared(
    column: &Expr,
    comparison: Comparison,
    literal: &Expr,
    schema: &Schema,
) -> Option<RowPredicate> {
    let column = column_of(column, schema)?;
    let value = value_of(literal, &column.data_type)?;
    Some(Predicate::Compare(column, comparison, value))
}

fn is_null(of: &Expr, schema: &Schema) -> Option<RowPredicate> {
    is_sure(of, schema).then_some(())?;
    // A cast that cannot fail makes no nulls.
    Some(column_of(of, schema).map_or(Predicate::Unknown, Predicate::IsNull))
}

/// `LIKE 'prefix%'` implies that the text lies between two bounds.
fn with_prefix(like: &Like, schema: &Schema) -> Option<RowPredicate> {
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else { return None };
    let pattern = pattern.try_as_str()??;
    let prefix = pattern.split(['%', '_', '\\']).next()?.as_bytes().to_vec();
    if like.negated || like.case_insensitive || prefix.is_empty() {
        return None;
    }
    let column = column_of(&like.expr, schema)?;
    let from = |value| ComparedValue::Bytes(value);
    let mut terms = vec![Predicate::Unknown];
    // The least text that is greater than all with the prefix; bytes 0xff are in no text.
    if let Some((last, front)) = prefix.split_last()
        && let Some(next) = last.checked_add(1)
    {
        let end = from([front, &[next]].concat());
        terms.push(Predicate::Compare(column.clone(), Comparison::Less, end));
    }
    terms.push(Predicate::Compare(column, Comparison::GreaterOrEqual, from(prefix)));
    Some(Predicate::All(terms))
}

/// The column that an expression is, in the type of the expression; `None` for other expressions,
/// and for a cast that may change the order of values.
fn column_of(expr: &Expr, schema: &Schema) -> Option<ComparedColumn> {
    match expr {
        Expr::Column(column) => {
            let data_type = plain(schema.field_with_name(&column.name).ok()?.data_type()).clone();
            Some(ComparedColumn { name: column.name.clone(), data_type })
        }
        Expr::Cast(cast) => {
            let column = column_of(&cast.expr, schema)?;
            let data_type = cast.field.data_type().clone();
            keeps_order(&column.data_type, &data_type).then_some(())?;
            Some(ComparedColumn { data_type, ..column })
        }
        Expr::ScalarFunction(call) => {
            let inner = exact::canonical_of(call).or_else(|| materialize::unpacked_of(call))?;
            column_of(inner, schema)
        }
        _ => None,
    }
}

/// Whether a cast never fails, and no value becomes less than one that it was greater than.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let width = |of: &DataType| of.primitive_width().unwrap_or(0);
    match (from, to) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Float32, Float64) => true,
        (one, Float64) if one.is_integer() => true,
        (one, other) if one.is_integer() && other.is_integer() => {
            let widens = width(other) > width(one);
            widens && (other.is_signed_integer() || one.is_unsigned_integer())
        }
        (Decimal128(digits, scale), Decimal128(more, longer)) => {
            longer >= scale
                && i16::from(*more) - i16::from(*longer) >= i16::from(*digits) - i16::from(*scale)
        }
        _ => from == to,
    }
}

/// The value of a literal that has this type.
fn value_of(expr: &Expr, data_type: &DataType) -> Option<ComparedValue> {
    let Expr::Literal(mut value, _) = expr.clone() else { return None };
    while let ScalarValue::Dictionary(_, inner) = value {
        value = *inner;
    }
    let is_text = |one: &DataType| one.is_string();
    let own = value.data_type();
    (own == *data_type || is_text(&own) && is_text(data_type)).then_some(())?;
    let array: ArrayRef = value.to_array().ok()?;
    compared_values(&array).pop()?
}

/// Whether evaluating the expression cannot fail.
fn is_sure(expr: &Expr, schema: &Schema) -> bool {
    matches!(expr, Expr::Literal(..)) || column_of(expr, schema).is_some()
}
