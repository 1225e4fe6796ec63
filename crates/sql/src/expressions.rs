//! Expressions of a plan as text in the dialect of the modules.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DataFusionError, ScalarValue};
use datafusion_expr::expr::{Lambda, LambdaVariable};
use datafusion_expr::{Cast, Expr, lit};
use datafusion_functions::core::{arrow_cast, arrow_try_cast};
use datafusion_sql::sqlparser::ast::{self, VisitMut, VisitorMut};
use datafusion_sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
    RESERVED_FOR_TABLE_ALIAS,
};
use datafusion_sql::unparser::Unparser;
use datafusion_sql::unparser::dialect::Dialect;
use euphrates_flow::{Error, Result};

use crate::errors::failed;
use crate::functions::scalars::{FIELD_OF, MAP_OF, function};

/// The name in a stream of each column of a plan.
pub(crate) type Names = Vec<(Column, String)>;

/// The name of a column in the stream.
pub(crate) fn name_of<'a>(column: &Column, names: &'a Names) -> Result<&'a str> {
    let is_same = |(other, _): &&(Column, String)| {
        other.name == column.name
            && (column.relation.is_none() || other.relation == column.relation)
    };
    let found = names.iter().find(is_same).map(|(_, name)| name.as_str());
    found.ok_or_else(|| Error::failed(format!("no column of the plan is named `{column}`")))
}

/// The text of an expression over the columns of a stream.
pub(crate) fn text_of(expression: &Expr, names: &Names) -> Result<String> {
    // A column of nulls gets its type beside columns of values.
    if let Expr::Cast(cast) = expression.clone().unalias()
        && is_null(&cast.expr)
        && !has_name(cast.field.data_type())
    {
        return Ok("null".into());
    }
    let rename = |expression: Expr| match expression {
        Expr::Column(column) => match name_of(&column, names) {
            Ok(name) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name)))),
            Err(error) => Err(DataFusionError::Plan(error.to_string())),
        },
        Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
        // The unparser writes a list that is null as one without items.
        Expr::Literal(value, _) if value.is_null() && value.data_type().is_nested() => {
            let to = lit(value.data_type().to_string());
            Ok(Transformed::yes(arrow_cast().call(vec![lit(ScalarValue::Null), to])))
        }
        Expr::LambdaVariable(variable) => {
            let name = parameter_name(&variable.name, names);
            Ok(Transformed::yes(Expr::LambdaVariable(LambdaVariable { name, ..variable })))
        }
        Expr::Lambda(Lambda { params, body }) => {
            let params = params.iter().map(|name| parameter_name(name, names)).collect();
            Ok(Transformed::yes(Expr::Lambda(Lambda { params, body })))
        }
        // The unparser writes fields of columns and calls alone.
        Expr::ScalarFunction(call)
            if call.func.name() == "get_field"
                && !matches!(call.args[0], Expr::Column(_) | Expr::ScalarFunction(_)) =>
        {
            Ok(Transformed::yes(function(FIELD_OF).call(call.args)))
        }
        // The unparser writes maps of lists that are written alone.
        Expr::ScalarFunction(call)
            if call.func.name() == "map" && !call.args.iter().all(is_written_list) =>
        {
            Ok(Transformed::yes(function(MAP_OF).call(call.args)))
        }
        // The unparser does not write these types.
        Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Time64(_)) => {
            Ok(Transformed::yes(function("as_time").call(vec![*cast.expr])))
        }
        Expr::Cast(cast) if is_written_by_arrow(cast.field.data_type()) => {
            let to = lit(cast.field.data_type().to_string());
            Ok(Transformed::yes(arrow_cast().call(vec![*cast.expr, to])))
        }
        // A text can always be made bytes.
        Expr::TryCast(cast) if is_binary(cast.field.data_type()) => {
            let to = lit(cast.field.data_type().to_string());
            Ok(Transformed::yes(arrow_cast().call(vec![*cast.expr, to])))
        }
        Expr::TryCast(cast) if is_written_by_arrow(cast.field.data_type()) => {
            let to = lit(cast.field.data_type().to_string());
            Ok(Transformed::yes(arrow_try_cast().call(vec![*cast.expr, to])))
        }
        Expr::TryCast(cast) if matches!(cast.field.data_type(), DataType::Time64(_)) => {
            Ok(Transformed::yes(function("try_as_time").call(vec![*cast.expr])))
        }
        other => Ok(Transformed::no(other)),
    };
    let renamed = expression.clone().transform_up(rename).map_err(failed)?.data;
    let mut ast = Unparser::new(&ModuleDialect).expr_to_sql(&renamed).map_err(failed)?;
    let _: ControlFlow<()> = ast.visit(&mut Parentheses);
    Ok(match ast {
        ast::Expr::Nested(inner) => inner.to_string(),
        other => other.to_string(),
    })
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(value, _) if value.is_null())
}

fn is_written_list(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(..) => true,
        Expr::ScalarFunction(call) => call.func.name() == "make_array",
        _ => false,
    }
}

/// Whether the unparser has no name for a type, or the name of another one. The planner's own
/// timestamps have nanoseconds, those of the modules microseconds, and one name.
fn is_written_by_arrow(of: &DataType) -> bool {
    let is_other_unit =
        matches!(of, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, None));
    of.is_nested() || is_other_unit || is_binary(of)
}

fn is_binary(of: &DataType) -> bool {
    use DataType::*;
    matches!(of, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Whether the unparser writes this type by a name that means the same to the modules.
fn has_name(of: &DataType) -> bool {
    use DataType::*;
    let is_instant = matches!(of, Timestamp(TimeUnit::Microsecond, None));
    let is_usual =
        matches!(of, Null | Boolean | Utf8 | Date32 | Float32 | Float64 | Decimal128(..));
    of.is_integer() || is_instant || is_usual
}

/// The name of a lambda's parameter: it hides no column of the stream.
fn parameter_name(name: &str, names: &Names) -> String {
    match names.iter().any(|(_, known)| known.eq_ignore_ascii_case(name)) {
        true => format!("lambda_{name}"),
        false => name.into(),
    }
}

/// Leaves out the parentheses of chains, which would be nested deeply, and adds those without which
/// a comparison would reach too far.
struct Parentheses;

impl VisitorMut for Parentheses {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::BinaryOp { left, op, right } if is_associative(op) => {
                let inner = match left.as_ref() {
                    ast::Expr::Nested(inner) => match inner.as_ref() {
                        ast::Expr::BinaryOp { op: same, .. } if same == op => Some(inner.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(inner) = inner {
                    *left = inner;
                }
                if !matches!(op, ast::BinaryOperator::And | ast::BinaryOperator::Or) {
                    [left, right].into_iter().for_each(nest_test);
                }
            }
            ast::Expr::BinaryOp { left, right, .. } => {
                [left, right].into_iter().for_each(nest_test);
            }
            ast::Expr::IsNull(of)
            | ast::Expr::IsNotNull(of)
            | ast::Expr::IsTrue(of)
            | ast::Expr::IsNotTrue(of)
            | ast::Expr::IsFalse(of)
            | ast::Expr::IsNotFalse(of)
            | ast::Expr::IsUnknown(of)
            | ast::Expr::IsNotUnknown(of)
            | ast::Expr::InList { expr: of, .. }
            | ast::Expr::Like { expr: of, .. }
            | ast::Expr::ILike { expr: of, .. } => nest_test(of),
            ast::Expr::Between { expr: of, low, high, .. } => {
                [of, low, high].into_iter().for_each(nest_test);
            }
            // Two signs would begin a comment.
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: of } => {
                if of.to_string().starts_with('-') {
                    nest(of);
                }
                nest_test(of);
            }
            // An arrow would be that of JSON where the function has another name.
            ast::Expr::Lambda(lambda) => lambda.syntax = ast::LambdaSyntax::LambdaKeyword,
            ast::Expr::IsDistinctFrom(..) | ast::Expr::IsNotDistinctFrom(..) => {
                *expr = ast::Expr::Nested(Box::new(expr.clone()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Writes parentheses around an operand that binds less than a comparison.
fn nest_test(operand: &mut Box<ast::Expr>) {
    let is_test = matches!(
        operand.as_ref(),
        ast::Expr::IsNull(_)
            | ast::Expr::IsNotNull(_)
            | ast::Expr::IsTrue(_)
            | ast::Expr::IsNotTrue(_)
            | ast::Expr::IsFalse(_)
            | ast::Expr::IsNotFalse(_)
            | ast::Expr::IsUnknown(_)
            | ast::Expr::IsNotUnknown(_)
            | ast::Expr::InList { .. }
            | ast::Expr::Like { .. }
            | ast::Expr::ILike { .. }
            | ast::Expr::Between { .. }
            | ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, .. }
    );
    if is_test {
        nest(operand);
    }
}

fn nest(operand: &mut Box<ast::Expr>) {
    **operand = ast::Expr::Nested(operand.clone());
}

/// Whether `(a op b) op c` is written as `a op b op c`.
fn is_associative(op: &ast::BinaryOperator) -> bool {
    use ast::BinaryOperator::{And, Multiply, Or, Plus};
    matches!(op, And | Or | Plus | Multiply)
}

/// The text that casts a column of a stream to exactly this type.
pub(crate) fn cast_text(name: &str, to: &DataType) -> Result<String> {
    if !has_name(to) {
        return Ok(format!(
            "arrow_cast({}, '{}')",
            quoted(name),
            to.to_string().replace('\'', "''")
        ));
    }
    let column = Expr::Column(Column::new_unqualified(name));
    let cast = Expr::Cast(Cast::new(Box::new(column), to.clone()));
    Ok(Unparser::new(&ModuleDialect).expr_to_sql(&cast).map_err(failed)?.to_string())
}

/// A name as an identifier, quoted where it must be.
pub(crate) fn quoted(name: &str) -> String {
    match must_quote(name) {
        false => name.into(),
        true => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// An expression with a name, as `project` takes it.
pub(crate) fn named(text: &str, name: &str) -> String {
    match text == quoted(name) {
        true => text.into(),
        false => format!("{text} as {}", quoted(name)),
    }
}

fn must_quote(name: &str) -> bool {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    !is_plain || is_reserved(name)
}

/// Words that are functions without parentheses.
pub(crate) const CALLED_WORDS: [Keyword; 9] = [
    Keyword::CURRENT_CATALOG,
    Keyword::CURRENT_DATE,
    Keyword::CURRENT_TIME,
    Keyword::CURRENT_TIMESTAMP,
    Keyword::CURRENT_USER,
    Keyword::LOCALTIME,
    Keyword::LOCALTIMESTAMP,
    Keyword::SESSION_USER,
    Keyword::USER,
];

/// Whether a word means something else in an expression, or behind one.
fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let Ok(at) = ALL_KEYWORDS.binary_search(&upper.as_str()) else { return false };
    let keyword = ALL_KEYWORDS_INDEX[at];
    let special = [
        Keyword::TRUE,
        Keyword::FALSE,
        Keyword::NULL,
        Keyword::NOT,
        Keyword::CASE,
        Keyword::STRUCT,
        Keyword::TRIM,
    ];
    special.contains(&keyword)
        || CALLED_WORDS.contains(&keyword)
        || RESERVED_FOR_IDENTIFIER.contains(&keyword)
        || RESERVED_FOR_COLUMN_ALIAS.contains(&keyword)
        || RESERVED_FOR_TABLE_ALIAS.contains(&keyword)
}

/// How the modules write expressions.
struct ModuleDialect;

impl Dialect for ModuleDialect {
    fn identifier_quote_style(&self, name: &str) -> Option<char> {
        must_quote(name).then_some('"')
    }
}
