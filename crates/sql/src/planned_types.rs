//! Names of types that the planner lacks, and operators that it does not know for some types: of
//! truth values, of intervals and times, and of lists that are null.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, TypePlanner};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use datafusion_expr::{Expr, ExprSchemable, cast, lit, when};
use datafusion_functions_nested::concat::array_concat;
use datafusion_sql::sqlparser::ast::{self, BinaryOperator, TimezoneInfo};

use crate::functions::nested_types::map_of;
use crate::functions::scalars::function;

/// The type of times: that of literals, and, while a query is planned, of columns with any unit,
/// because the planner has no common type of two units.
pub(crate) const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// Plans names of types as DuckDB knows them.
#[derive(Debug)]
pub(crate) struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, name: &ast::DataType) -> Result<Option<FieldRef>> {
        let nullable = |of| Arc::new(Field::new("", of, true));
        Ok(self.of(name).map(nullable))
    }
}

impl TypeNames {
    /// The type of a name; `None` for those that the planner knows.
    fn of(&self, name: &ast::DataType) -> Option<DataType> {
        use ast::DataType as Name;
        Some(match name {
            Name::UTinyInt | Name::UInt8 => DataType::UInt8,
            Name::USmallInt | Name::UInt16 => DataType::UInt16,
            Name::UInt32 => DataType::UInt32,
            Name::UBigInt | Name::UInt64 => DataType::UInt64,
            Name::Int16 => DataType::Int16,
            Name::Int32 => DataType::Int32,
            Name::Int64 => DataType::Int64,
            // The planner's have nanoseconds, and its `timestamptz` no zone.
            Name::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
            | Name::Datetime(None) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Name::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
            }
            Name::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => TIME,
            Name::Map(key, value) => {
                let known = |of: &ast::DataType| self.of(of).or_else(|| usual(of));
                map_of(&known(key)?, &known(value)?)
            }
            Name::Uuid => DataType::Utf8,
            // Of 38 digits; a hugeint has one more.
            Name::HugeInt | Name::UHugeInt => DataType::Decimal128(38, 0),
            Name::Custom(name, arguments) if arguments.is_empty() => {
                let timestamp = |unit| DataType::Timestamp(unit, None);
                match name.to_string().to_lowercase().as_str() {
                    "uinteger" => DataType::UInt32,
                    "int1" => DataType::Int8,
                    "short" => DataType::Int16,
                    "long" | "oid" => DataType::Int64,
                    "bpchar" => DataType::Utf8,
                    "logical" => DataType::Boolean,
                    "timestamp_s" => timestamp(TimeUnit::Second),
                    "timestamp_ms" => timestamp(TimeUnit::Millisecond),
                    "timestamp_us" => timestamp(TimeUnit::Microsecond),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}

/// The usual types by the names that the planner knows itself, for the keys and values of maps.
fn usual(name: &ast::DataType) -> Option<DataType> {
    use ast::DataType as Name;
    use ast::{ArrayElemTypeDef, ExactNumberInfo};
    Some(match name {
        Name::Varchar(_) | Name::Text | Name::String(_) => DataType::Utf8,
        Name::Boolean | Name::Bool => DataType::Boolean,
        Name::TinyInt(_) => DataType::Int8,
        Name::SmallInt(_) | Name::Int2(_) => DataType::Int16,
        Name::Int(_) | Name::Integer(_) | Name::Int4(_) => DataType::Int32,
        Name::BigInt(_) | Name::Int8(_) => DataType::Int64,
        Name::Float(_) | Name::Real | Name::Float4 => DataType::Float32,
        Name::Double(_) | Name::DoublePrecision | Name::Float8 => DataType::Float64,
        Name::Date => DataType::Date32,
        Name::Decimal(ExactNumberInfo::PrecisionAndScale(digits, scale)) => {
            DataType::Decimal128(u8::try_from(*digits).ok()?, i8::try_from(*scale).ok()?)
        }
        Name::Array(ArrayElemTypeDef::SquareBracket(of, None)) => {
            DataType::new_list(TypeNames.of(of).or_else(|| usual(of))?, true)
        }
        _ => return None,
    })
}

/// Plans comparisons of truth values with whole numbers and texts, which become truth values.
#[derive(Debug)]
pub(crate) struct ComparedTypes;

impl ExprPlanner for ComparedTypes {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if !matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            return Ok(PlannerResult::Original(expr));
        }
        let types = expr.left.get_type(schema).ok().zip(expr.right.get_type(schema).ok());
        let Some((left, right)) = types else { return Ok(PlannerResult::Original(expr)) };
        let RawBinaryExpr { op, left: a, right: b } = expr;
        let of_left = left.clone();
        let is_boolean = |of: &DataType| *of == DataType::Boolean;
        let left = match is_boolean(&right) && can_be_boolean(&left) {
            true => cast(a, DataType::Boolean),
            false => a,
        };
        let right = match is_boolean(&of_left) && can_be_boolean(&right) {
            true => cast(b, DataType::Boolean),
            false => b,
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

fn can_be_boolean(of: &DataType) -> bool {
    of.is_integer() || matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The types of both sides, if they are known.
fn types(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<(DataType, DataType)> {
    expr.left.get_type(schema).ok().zip(expr.right.get_type(schema).ok())
}

/// Plans intervals times numbers and over them, and dates with times of day.
#[derive(Debug)]
pub(crate) struct TemporalOperators;

impl ExprPlanner for TemporalOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // A type costs a walk through the side: conditions of thousands of terms are not asked.
        use BinaryOperator::{Divide, Multiply, Plus};
        let types = matches!(expr.op, Multiply | Divide | Plus).then(|| types(&expr, schema));
        let Some((left, right)) = types.flatten() else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
        let is_day = |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64);
        let is_clock = |of: &DataType| matches!(of, DataType::Time32(_) | DataType::Time64(_));
        let (name, is_turned) = match expr.op {
            Multiply if is_interval(&left) && right.is_numeric() => ("_interval_times", false),
            Multiply if left.is_numeric() && is_interval(&right) => ("_interval_times", true),
            Divide if is_interval(&left) && right.is_numeric() => ("_interval_over", false),
            Plus if is_day(&left) && is_clock(&right) => ("_instant_at", false),
            Plus if is_clock(&left) && is_day(&right) => ("_instant_at", true),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let args = match is_turned {
            true => vec![expr.right, expr.left],
            false => vec![expr.left, expr.right],
        };
        Ok(PlannerResult::Planned(function(name).call(args)))
    }
}

/// Plans lists of which some items are written as text: these are read in the type of the others,
/// as in comparisons.
#[derive(Debug)]
pub(crate) struct ItemsOfText;

impl ExprPlanner for ItemsOfText {
    fn plan_array_literal(
        &self,
        items: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let is_text = |item: &Expr| matches!(item, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
        if !items.iter().any(is_text) {
            return Ok(PlannerResult::Original(items));
        }
        let others = items.iter().filter(|item| !is_text(item));
        let others: Vec<DataType> = others.filter_map(|item| item.get_type(schema).ok()).collect();
        let are_numbers = others.iter().all(DataType::is_numeric);
        let common = match are_numbers && others.iter().any(DataType::is_floating) {
            // Beside a decimal, the union is one of 30 digits.
            true => Some(DataType::Float64),
            false => type_union_resolution(&others).filter(has_text),
        };
        Ok(PlannerResult::Original(match common {
            None => items,
            Some(common) => {
                let read =
                    |item: Expr| if is_text(&item) { cast(item, common.clone()) } else { item };
                items.into_iter().map(read).collect()
            }
        }))
    }
}

/// Whether values of a type have a text, and are none.
fn has_text(of: &DataType) -> bool {
    of.is_numeric() || of.is_temporal() || *of == DataType::Boolean
}

/// Plans `||` of two lists: null if one of them is, which the function joins as an empty one. Of
/// numbers, dates and other simple values, it joins the texts.
#[derive(Debug)]
pub(crate) struct JoinedLists;

impl ExprPlanner for JoinedLists {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list = |of: &DataType| matches!(of, DataType::List(_) | DataType::LargeList(_));
        let types = (expr.op == BinaryOperator::StringConcat).then(|| types(&expr, schema));
        match types.flatten() {
            Some((left, right)) if is_list(&left) && is_list(&right) => {}
            Some((of, DataType::Null)) | Some((DataType::Null, of)) if is_list(&of) => {
                return Ok(PlannerResult::Planned(cast(lit(ScalarValue::Null), of)));
            }
            Some((left, right)) if has_text(&left) && has_text(&right) => {
                let RawBinaryExpr { op, left, right } = expr;
                let [left, right] = [left, right].map(|side| cast(side, DataType::Utf8));
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        }
        let RawBinaryExpr { left, right, .. } = expr;
        let joined = array_concat(vec![left.clone(), right.clone()]);
        // What is written as a list is none.
        let is_written =
            |of: &Expr| matches!(of, Expr::ScalarFunction(call) if call.name() == "make_array");
        let nulls = [left, right].into_iter().filter(|of| !is_written(of)).map(Expr::is_null);
        Ok(PlannerResult::Planned(match nulls.reduce(Expr::or) {
            Some(is_null) => when(is_null, lit(ScalarValue::Null)).otherwise(joined)?,
            None => joined,
        }))
    }
}
