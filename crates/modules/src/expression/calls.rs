//! Function calls: resolves names, coerces arguments, and determines result types.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchemaRef, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{Expr, ExprSchemable, ReturnFieldArgs, ScalarUDF};
use datafusion_functions_nested::all_default_nested_functions;
use euphrates_flow::error::did_you_mean;
use euphrates_flow::{Error, Kind, Result};

use super::common_type::plain;
use super::compile::translate_error;
use super::conditional::{by_null, chosen_from, first_known, null_if};
use super::date_units;
use super::functions::result_size::metered;
use super::functions::{calendar, exact, library, regexp_extract, rounding, struct_field};
use super::typed::Typed;
use super::types::{Family, in_words};

/// All functions, by each of their names.
static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let functions = datafusion_functions::all_default_functions();
    let functions = functions.into_iter().chain(all_default_nested_functions());
    let functions = functions.chain([regexp_extract::function()]);
    let functions = functions.chain(library::functions());
    let functions = functions.map(|function| match function.name() {
        "get_field" => struct_field::of_structs(function),
        "date_part" | "date_trunc" | "date_bin" => calendar::of_all_years(function),
        "round" | "trunc" => metered(rounding::finite(function)),
        "ceil" | "floor" => metered(rounding::whole(function)),
        _ => metered(function),
    });
    let named = functions.flat_map(|function| {
        let names = [function.name().to_lowercase()].into_iter();
        let names = names.chain(function.aliases().iter().map(|name| name.to_lowercase()));
        names.map(|name| (name, function.clone())).collect::<Vec<_>>()
    });
    named.collect()
});

/// Aggregate functions of SQL, which need more than one row.
const AGGREGATES: [&str; 7] = ["sum", "avg", "mean", "count", "min", "max", "stddev"];

/// Functions that compare items of lists by their bits. Equal floating point numbers, which may be
/// zeros of either sign, get the same ones before.
const COMPARES_ITEMS: [&str; 9] = [
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_position",
    "array_positions",
    "array_distinct",
    "array_intersect",
    "array_except",
    "list_unique",
];

/// Maximum rounds of simplification.
const ROUNDS_MAX: usize = 8;

#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = FUNCTIONS.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn is_list(of: &Typed) -> bool {
    use DataType::{FixedSizeList, LargeList, List};
    matches!(plain(&of.data_type), List(_) | LargeList(_) | FixedSizeList(..))
}

/// A decimal without digits behind the point, as a sum beside an unsigned length is, as an integer.
fn whole(of: Typed) -> Result<Typed> {
    match plain(&of.data_type) {
        DataType::Decimal128(_, 0) => of.cast_explicit(DataType::Int64, false),
        _ => Ok(of),
    }
}

fn is_nested(of: &Typed) -> bool {
    plain(&of.data_type).is_nested()
}

fn has_nested_items(of: &Typed) -> bool {
    use DataType::{FixedSizeList, LargeList, List};
    match plain(&of.data_type) {
        List(item) | LargeList(item) | FixedSizeList(item, _) => item.data_type().is_nested(),
        _ => false,
    }
}

/// The cast that `arrow_cast(value, 'Type')` is; else the arguments.
fn by_arrow(name: &str, args: Vec<Typed>) -> std::result::Result<Result<Typed>, Vec<Typed>> {
    let tries = match name.to_lowercase().as_str() {
        "arrow_cast" => false,
        "arrow_try_cast" => true,
        _ => return Err(args),
    };
    let to = match &args[..] {
        [_, to] => to.value().and_then(|to| to.try_as_str().flatten()?.parse().ok()),
        _ => None,
    };
    match (to, args.into_iter().next()) {
        (Some(to), Some(of)) => Ok(of.cast_explicit(to, tries)),
        (_, of) => Err(of.into_iter().collect()),
    }
}

/// A call of the function of this name, which is not case-sensitive.
pub(crate) fn call(name: &str, args: Vec<Typed>, schema: &DFSchemaRef) -> Result<Typed> {
    let args = match by_arrow(name, args) {
        Ok(cast) => return cast,
        Err(args) => args,
    };
    let name = match (name.to_lowercase().as_str(), args.first()) {
        ("len" | "length" | "character_length", Some(of)) if plain(&of.data_type).is_nested() => {
            "array_length"
        }
        ("len", _) => "character_length",
        ("array_element" | "array_extract" | "list_element" | "list_extract", Some(of))
            if of.family() == Family::Text =>
        {
            "_text_item"
        }
        ("array_slice" | "list_slice", Some(of)) if of.family() == Family::Text => "_text_slice",
        ("list_value" | "array_value" | "list_pack", _) => "make_array",
        ("list_min" | "array_min", Some(of)) if has_nested_items(of) => "_least_item",
        ("list_max" | "array_max", Some(of)) if has_nested_items(of) => "_greatest_item",
        _ => name,
    };
    let function = find(name)?;
    let args = match COMPARES_ITEMS.contains(&function.name()) {
        true => args.into_iter().map(exact::canonical).collect(),
        false => args,
    };
    if let ("array_has_all", [_, _]) = (function.name(), &args[..]) {
        let [list, items] = exactly(args)?;
        return has_all(function, list, items, schema);
    }
    let args = match (function.name(), args) {
        // Nulls are no items that lists have in common.
        ("array_has_any" | "array_intersect", args) if args.len() == 2 => {
            let [list, other] = exactly(args)?;
            vec![call("array_compact", vec![list], schema)?, other]
        }
        ("range" | "generate_series", args) => {
            args.into_iter().map(whole).collect::<Result<Vec<_>>>()?
        }
        ("coalesce", args) if !args.is_empty() => return first_known(name, args),
        ("concat" | "concat_ws", args) if args.iter().any(is_list) => {
            let error = Error::usage(format!("`{name}` joins texts, not lists"));
            return Err(error.remedy("write `a || b` or `list_concat(a, b)`"));
        }
        ("nvl", args) if args.len() == 2 => return first_known(name, args),
        ("nullif", args) if args.len() == 2 => {
            let [value, other] = exactly(args)?;
            return null_if(value, other, schema);
        }
        // Null is no item that lists have in common.
        ("array_distinct", args) if args.len() == 1 => {
            let known = args.into_iter().map(|of| call("array_compact", vec![of], schema));
            known.collect::<Result<_>>()?
        }
        ("nvl2", args) if args.len() == 3 => {
            let [tested, value, other] = exactly(args)?;
            return by_null(tested, value, other);
        }
        (name @ ("greatest" | "least"), args) if args.iter().any(is_nested) => {
            let items = call("make_array", args, schema)?;
            let name = if name == "least" { "_least_item" } else { "_greatest_item" };
            return call(name, vec![items], schema);
        }
        (name @ ("date_part" | "date_trunc"), mut args) if args.len() == 2 => {
            args[0] = date_units::unit(name, &args[0])?;
            match name {
                "date_trunc" => args.into_iter().map(with_seconds).collect(),
                _ => args,
            }
        }
        (name, args) => chosen_from(name, args)?,
    };
    called(name, function, args, schema)
}

/// Whether a list has all items; nulls are none of these. Null, if one of the lists is.
fn has_all(
    function: Arc<ScalarUDF>,
    list: Typed,
    items: Typed,
    schema: &DFSchemaRef,
) -> Result<Typed> {
    let known = call("array_compact", vec![items.clone()], schema)?;
    let test = called("array_has_all", function, vec![list.clone(), known], schema)?;
    let null = || Typed::literal(ScalarValue::Boolean(None), "null");
    by_null(list, by_null(items, test, null())?, null())
}

/// The call of a function with arguments of the types that it takes.
fn called(
    name: &str,
    function: Arc<ScalarUDF>,
    args: Vec<Typed>,
    schema: &DFSchemaRef,
) -> Result<Typed> {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let text = format!("{name}({})", texts.join(", "));
    let field = |data_type: &DataType| -> FieldRef {
        Arc::new(Field::new("argument", data_type.clone(), true))
    };
    let given: Vec<FieldRef> = args.iter().map(|arg| field(&arg.data_type)).collect();
    let wanted = fields_with_udf(&given, function.as_ref());
    let wanted = wanted.map_err(|_| does_not_take(name, &function, &args))?;
    let args: Vec<Typed> =
        args.into_iter().zip(&wanted).map(|(arg, field)| arg.cast(field.data_type())).collect();
    let fields: Vec<FieldRef> = args.iter().map(|arg| field(&arg.data_type)).collect();
    let scalars: Vec<_> = args.iter().map(Typed::value).collect();
    let returns = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
    let returns = function.return_field_from_args(returns);
    let returns =
        returns.map_err(|error| translate_error(&error, Kind::Usage).at(format!("`{text}`")))?;
    let data_type = returns.data_type().clone();
    if let ("date_part" | "date_trunc", [unit, of]) = (function.name(), args.as_slice()) {
        date_units::check(&function, unit, of).map_err(|error| error.at(format!("`{text}`")))?;
    }
    let args = args.into_iter().map(|arg| arg.expr).collect();
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
    let (expr, changed) = simplified(call, schema)?;
    let data_type = match changed {
        true => expr.get_type(schema).map_err(|error| translate_error(&error, Kind::Usage))?,
        false => data_type,
    };
    Ok(Typed::new(expr, data_type, text))
}

fn exactly<const N: usize>(args: Vec<Typed>) -> Result<[Typed; N]> {
    args.try_into().map_err(|_| Error::usage(format!("{N} arguments are needed")))
}

/// A date as a timestamp in seconds or milliseconds, which can represent every date.
fn with_seconds(arg: Typed) -> Typed {
    match plain(&arg.data_type) {
        DataType::Date32 => arg.cast(&DataType::Timestamp(TimeUnit::Second, None)),
        DataType::Date64 => arg.cast(&DataType::Timestamp(TimeUnit::Millisecond, None)),
        _ => arg,
    }
}

fn find(name: &str) -> Result<Arc<ScalarUDF>> {
    let lower = name.to_lowercase();
    if let Some(function) = FUNCTIONS.get(&lower) {
        return Ok(function.clone());
    }
    let error = Error::usage(format!("no function named `{name}`"));
    if AGGREGATES.contains(&lower.as_str()) {
        return Err(error.remedy("an expression sees one row; it cannot aggregate several"));
    }
    let mut names: Vec<_> = FUNCTIONS.keys().map(String::as_str).collect();
    names.sort_unstable();
    Err(match did_you_mean(&lower, names.into_iter()) {
        Some(near) => error.remedy(format!("did you mean `{near}`?")),
        None => error
            .remedy("functions are those of DataFusion, like lower, substr, date_part, coalesce"),
    })
}

fn does_not_take(name: &str, function: &ScalarUDF, args: &[Typed]) -> Error {
    let types: Vec<_> = args.iter().map(|arg| in_words(&arg.data_type)).collect();
    let message = match types.is_empty() {
        true => format!("`{name}` needs arguments"),
        false => format!("`{name}` does not take ({})", types.join("; ")),
    };
    let error = Error::usage(message);
    match function.documentation() {
        Some(documentation) => error.remedy(format!("as {}", documentation.syntax_example)),
        None => error,
    }
}

/// Simplifies a call: some functions are defined only by their simplification, like `now()`, a
/// literal.
fn simplified(call: Expr, schema: &DFSchemaRef) -> Result<(Expr, bool)> {
    let context = SimplifyContext::builder().with_schema(schema.clone()).with_current_time();
    let context = context.build();
    let mut expr = call;
    let mut changed = false;
    for _ in 0..ROUNDS_MAX {
        let round = expr.transform_up(|node| match node {
            // `in`, which the search would become, is null beside a null.
            Expr::ScalarFunction(call) if call.func.name() == "array_has" => {
                Ok(Transformed::no(Expr::ScalarFunction(call)))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                Ok(match func.simplify(args, &context)? {
                    ExprSimplifyResult::Simplified(expr) => Transformed::yes(expr),
                    ExprSimplifyResult::Original(args) => {
                        Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
                    }
                })
            }
            other => Ok(Transformed::no(other)),
        });
        let round = round.map_err(|error| translate_error(&error, Kind::Usage))?;
        expr = round.data;
        if !round.transformed {
            break;
        }
        changed = true;
    }
    Ok((expr, changed))
}
