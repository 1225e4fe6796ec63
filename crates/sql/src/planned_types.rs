//! Names of types that the planner lacks, and comparisons of truth values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, TypePlanner};
use datafusion_expr::{ExprSchemable, cast};
use datafusion_sql::sqlparser::ast::{self, BinaryOperator, TimezoneInfo};

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
