//! Parts of values: items of lists, characters of texts, fields of structs, values of maps.

use arrow::datatypes::{DataType, Field, Fields};
use datafusion_common::{
    Column, DFSchema, Result, ScalarValue, TableReference, exec_datafusion_err, plan_err,
};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, lit};
use datafusion_functions::core::get_field;
use datafusion_functions_nested::extract::array_element;

use super::scalars::{self, FIELD_OF, VALUE_OF};

/// Plans `list[1]` as it is written: the planner's own would make another aggregate of an item of
/// `array_agg`. And plans the characters of a text, `text[1]` and `text[1:2]`, fields whose names
/// have other letters in capitals, fields of computed structs, and values of maps.
#[derive(Debug)]
pub(crate) struct ItemPlanner;

impl ExprPlanner for ItemPlanner {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        use GetFieldAccess::{ListIndex, ListRange, NamedStructField};
        let RawFieldAccessExpr { field_access, expr } = access;
        let Ok(of) = expr.get_type(schema) else {
            return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }));
        };
        let is_text = matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let planned = match (field_access, &of) {
            (ListIndex { key }, _) if is_text => {
                scalars::function("_text_item").call(vec![expr, *key])
            }
            (ListRange { start, stop, stride }, _) if is_text => match *stride {
                Expr::Literal(ScalarValue::Int64(Some(1)), _) => {
                    scalars::function("_text_slice").call(vec![expr, *start, *stop])
                }
                _ => return plan_err!("write `text[a:b]`: characters are taken one by one"),
            },
            (NamedStructField { name }, DataType::Struct(_)) if text_of(&name).is_some() => {
                field_of(expr, &of, text_of(&name).unwrap_or_default())?
            }
            (ListIndex { key }, DataType::Struct(_)) if written(&key).is_some() => {
                field_of(expr, &of, written(&key).unwrap_or_default())?
            }
            (ListIndex { key }, DataType::Struct(fields)) if numbered(&key, fields).is_some() => {
                let name = numbered(&key, fields).unwrap_or_default().to_string();
                field_of(expr, &of, &name)?
            }
            (ListIndex { key }, DataType::Map(..)) if !matches!(*key, Expr::Literal(..)) => {
                scalars::function(VALUE_OF).call(vec![expr, *key])
            }
            (ListIndex { key }, _) if matches!(expr, Expr::AggregateFunction(_)) => {
                array_element(expr, *key)
            }
            (field_access, _) => {
                return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }));
            }
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut expr = Expr::Column(Column::from((qualifier, field)));
        let mut of = field.data_type().clone();
        for name in nested_names {
            let known = known_name(&of, name).unwrap_or(name).to_string();
            expr = get_field().call(vec![expr, lit(known.as_str())]);
            of = type_of_field(&of, &known).unwrap_or(DataType::Null);
        }
        Ok(PlannerResult::Planned(expr))
    }
}

/// The field of a struct; the planner's own function is of columns and calls alone.
fn field_of(expr: Expr, of: &DataType, name: &str) -> Result<Expr> {
    let name = known_name(of, name)
        .ok_or_else(|| exec_datafusion_err!("the struct has no field `{name}`"))?
        .to_string();
    let is_plain = matches!(expr, Expr::Column(_) | Expr::ScalarFunction(_));
    let args = vec![expr, lit(name)];
    Ok(if is_plain { get_field().call(args) } else { scalars::function(FIELD_OF).call(args) })
}

/// The name of a field as the struct has it: the same, or else the only one that differs in capital
/// letters alone.
fn known_name<'a>(of: &'a DataType, name: &str) -> Option<&'a str> {
    let DataType::Struct(fields) = of else { return None };
    let names = || fields.iter().map(|field| field.name().as_str());
    names().find(|known| *known == name).or_else(|| {
        let mut alike = names().filter(|known| known.eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}

fn type_of_field(of: &DataType, name: &str) -> Option<DataType> {
    let DataType::Struct(fields) = of else { return None };
    let mut named = fields.iter().filter(|field| field.name() == name);
    named.next().map(|field| field.data_type().clone())
}

/// The name of the field at a position that is written: `row(a, b)[1]`.
fn numbered<'a>(key: &Expr, fields: &'a Fields) -> Option<&'a str> {
    let Expr::Literal(ScalarValue::Int64(Some(number)), _) = key else { return None };
    let at = usize::try_from(*number).ok()?.checked_sub(1)?;
    fields.get(at).map(|field| field.name().as_str())
}

/// A text that is written.
fn written(key: &Expr) -> Option<&str> {
    match key {
        Expr::Literal(value, _) => text_of(value),
        _ => None,
    }
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}
