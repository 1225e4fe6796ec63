//! Calls that are written by others: `wavg(x, w)` is a quotient of sums, `struct_insert(s, a := 1)`
//! joins two structs.

use datafusion_sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, OrderByExpr, OrderByOptions, Value,
};
use datafusion_sql::sqlparser::ast::{FunctionArgumentClause, FunctionArgumentList};

use crate::functions::calls::{call_of, is_null};
use crate::relations::parsed_expression as parsed;

/// What a call stands for.
pub(super) fn composed(function: &Function) -> Option<Expr> {
    let name = function.name.to_string().to_lowercase();
    if let Some(fields) =
        name.strip_prefix("struct_").filter(|it| ["insert", "update"].contains(it))
    {
        return with_fields(function, fields);
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return None;
    }
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg),
        _ => None,
    });
    let args = args.collect::<Option<Vec<_>>>()?;
    let aggregate = |name: &str, text: String| Some(of_rows(function, name, vec![parsed(&text)?]));
    match (name.as_str(), &args[..]) {
        ("count_star", []) => {
            let mut count = function.clone();
            count.name = named("count");
            count.args = FunctionArguments::List(FunctionArgumentList {
                args: vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)],
                ..list.clone()
            });
            Some(Expr::Function(count))
        }
        ("wavg" | "weighted_avg", [value, weight]) => {
            let products = format!("cast({value} as double) * ({weight})");
            let weights = format!("case when ({value}) is not null then ({weight}) end");
            let weights = aggregate("sum", format!("cast({weights} as double)"))?;
            parsed(&format!("{} / {weights}", aggregate("sum", products)?))
        }
        ("histogram" | "histogram_exact", [of, bins]) => {
            let exact = if name == "histogram" { "" } else { "exact_" };
            let counts = aggregate("histogram", format!("_{exact}bin_of({of}, {bins})"))?;
            Some(call_of("_histogram_bins", vec![counts, (*bins).clone()]))
        }
        // Without a separator there is no text.
        ("string_agg" | "listagg" | "group_concat", [_, separator]) if is_null(separator) => {
            let mut none = of_rows(function, "max", vec![parsed("cast(null as varchar)")?]);
            if let Expr::Function(call) = &mut none
                && let FunctionArguments::List(list) = &mut call.args
            {
                list.clauses.clear();
            }
            Some(none)
        }
        ("approx_top_k", [of, count]) => {
            let counts = of_rows(function, "histogram", vec![(*of).clone()]);
            Some(call_of("_top_keys", vec![counts, (*count).clone()]))
        }
        ("approx_quantile", [of, Expr::Array(fractions)]) => {
            let quantile = |fraction: &Expr| {
                of_rows(function, "approx_quantile", vec![(*of).clone(), fraction.clone()])
            };
            let quantiles = fractions.elem.iter().map(quantile).collect();
            let quantiles = call_of("make_array", quantiles);
            let count = of_rows(function, "count", vec![(*of).clone()]);
            parsed(&format!("case when {count} > 0 then {quantiles} end"))
        }
        ("arg_min_null" | "arg_max_null", [value, key]) => {
            let asc = Some(name == "arg_min_null");
            let options = OrderByOptions { asc, nulls_first: Some(false) };
            let order = OrderByExpr { expr: (*key).clone(), options, with_fill: None };
            let mut first = function.clone();
            first.name = named("first");
            first.filter = Some(Box::new(parsed(&match &function.filter {
                Some(condition) => format!("({condition}) and ({key}) is not null"),
                None => format!("({key}) is not null"),
            })?));
            first.args = FunctionArguments::List(FunctionArgumentList {
                args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr((*value).clone()))],
                clauses: vec![FunctionArgumentClause::OrderBy(vec![order])],
                ..list.clone()
            });
            Some(Expr::Function(first))
        }
        ("json_group_array", [of]) => {
            let items = joined(function, format!("coalesce(to_json({of}), 'null')"))?;
            parsed(&format!("'[' || {items} || ']'"))
        }
        ("json_group_object", [key, of]) => {
            let key = format!("to_json(cast({key} as varchar))");
            let fields =
                joined(function, format!("{key} || ':' || coalesce(to_json({of}), 'null')"));
            parsed(&format!("'{{' || {} || '}}'", fields?))
        }
        _ => None,
    }
}

/// `struct_pack(a := 1)` is `named_struct('a', 1)`.
pub(super) fn named_fields(function: &Function) -> Option<Expr> {
    if !function.name.to_string().eq_ignore_ascii_case("struct_pack") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut args = vec![];
    for arg in &list.args {
        let (name, value) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name, value),
            // `struct_pack(a, t.b)` has the names of the columns.
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => match value {
                Expr::Identifier(name) => (name, value),
                Expr::CompoundIdentifier(path) => (path.last()?, value),
                _ => return None,
            },
            _ => return None,
        };
        args.push(Expr::value(Value::SingleQuotedString(name.value.clone())));
        args.push(value.clone());
    }
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let mut call = function.clone();
    call.name = vec![Ident::new("named_struct")].into();
    call.args =
        FunctionArguments::List(FunctionArgumentList { args: args.collect(), ..list.clone() });
    Some(Expr::Function(call))
}

fn named(name: &str) -> ObjectName {
    vec![Ident::new(name)].into()
}

/// Another aggregate of the rows of a call: with its filter, its order and its window.
fn of_rows(function: &Function, name: &str, args: Vec<Expr>) -> Expr {
    let mut call = function.clone();
    call.name = named(name);
    if let FunctionArguments::List(list) = &mut call.args {
        let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
        list.args = args.collect();
    }
    Expr::Function(call)
}

/// The texts of a call's rows with commas between them.
fn joined(function: &Function, text: String) -> Option<Expr> {
    let comma = Expr::value(Value::SingleQuotedString(",".into()));
    Some(of_rows(function, "string_agg", vec![parsed(&text)?, comma]))
}

/// `struct_insert(s, a := 1)`, `struct_update(s, a := 1)`: with a struct of the named fields.
fn with_fields(function: &Function, what: &str) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let (FunctionArg::Unnamed(FunctionArgExpr::Expr(of)), fields) = list.args.split_first()? else {
        return None;
    };
    let mut args = vec![];
    for field in fields {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = field else {
            return None;
        };
        args.push(Expr::value(Value::SingleQuotedString(name.value.clone())));
        args.push(value.clone());
    }
    if args.is_empty() {
        return None;
    }
    let name = if what == "insert" { "struct_concat" } else { "_struct_updated" };
    Some(call_of(name, vec![of.clone(), call_of("named_struct", args)]))
}
