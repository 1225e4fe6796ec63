//! Calls and subscripts in spellings that the planner takes.

use datafusion_sql::sqlparser::ast::{
    AccessExpr, Array, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, Interval, OrderByExpr, Subscript,
    TimezoneInfo, TypedString, UnaryOperator, Value,
};

use super::listed_rows::list_of_rows;
use crate::functions::aggregates::MODE_BY_KEYS;
use crate::functions::calls::{call as function_call, call_of, is_null};
use crate::relations::parsed_expression;

/// The function that checks text as a cast to a type, whose values are text.
pub(super) fn checked_text(kind: &CastKind, data_type: &DataType) -> Option<&'static str> {
    let tries = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
    match (data_type, tries) {
        (DataType::JSON, false) => Some("json"),
        (DataType::Uuid, false) => Some("to_uuid"),
        (DataType::Uuid, true) => Some("try_to_uuid"),
        _ => None,
    }
}

/// The bytes that a text in quotes writes for `blob`, in which `\xFF` is one byte.
pub(super) fn bytes_of(of: &Expr) -> Option<Expr> {
    let Expr::Value(value) = of else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let mut digits = String::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.strip_prefix(b"x").and_then(|hex| hex.get(..2));
        match escaped.filter(|_| *first == b'\\') {
            Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => {
                digits.extend(hex.iter().map(|digit| char::from(*digit)));
                rest = &behind[3..];
            }
            _ => {
                digits.push_str(&format!("{first:02x}"));
                rest = behind;
            }
        }
    }
    Some(Expr::value(Value::HexStringLiteral(digits)))
}

/// `uuid '…'`, which is a text that is checked, and `blob '…'`.
pub(super) fn checked_literal(typed: &TypedString) -> Option<Expr> {
    if matches!(typed.data_type, DataType::Blob(_) | DataType::Bytea) {
        return bytes_of(&Expr::Value(typed.value.clone()));
    }
    let name = checked_text(&CastKind::Cast, &typed.data_type)?;
    Some(function_call(name, [&Expr::Value(typed.value.clone())]))
}

/// A call in another spelling: `array_extract(x, i)` is `x[i]`.
pub(super) fn call(function: &Function) -> Option<Expr> {
    if let FunctionArguments::Subquery(query) = &function.args
        && function.name.to_string().eq_ignore_ascii_case("array")
    {
        return list_of_rows(query);
    }
    let args = arguments(function)?;
    match (function.name.to_string().to_lowercase().as_str(), &args[..]) {
        ("array_extract" | "list_extract" | "array_element" | "list_element", [of, at]) => {
            let index = (*at).clone();
            Some(accessed(of, Subscript::Index { index }))
        }
        ("array_slice" | "list_slice", [of, from, to]) => {
            let (lower_bound, upper_bound) = (Some((*from).clone()), Some((*to).clone()));
            Some(accessed(of, Subscript::Slice { lower_bound, upper_bound, stride: None }))
        }
        ("array_push_front", [list, item]) => Some(function_call("array_prepend", [*item, *list])),
        ("coalesce", [_, _, ..]) if args.iter().any(|arg| is_instant_text(arg)) => {
            first_known(&args)
        }
        // As an empty list.
        ("list_concat" | "array_concat" | "list_cat" | "array_cat", args)
            if args.iter().any(|arg| is_null(arg)) =>
        {
            let lists = args.iter().filter(|arg| !is_null(arg)).map(|arg| (*arg).clone());
            let lists: Vec<Expr> = lists.collect();
            match &lists[..] {
                [] => parsed_expression("null"),
                [one] => Some(one.clone()),
                _ => Some(call_of("list_concat", lists)),
            }
        }
        ("regexp_extract", [of, pattern, Expr::Array(Array { elem, .. })]) => {
            groups(of, pattern, elem)
        }
        // Options are those of the pattern itself.
        ("regexp_extract" | "regexp_extract_all", [of, pattern, group, Expr::Value(options)]) => {
            let Value::SingleQuotedString(options) = &options.value else { return None };
            let flags = options.replace('c', "");
            let pattern = parsed_expression(&match flags.as_str() {
                "" => pattern.to_string(),
                "i" | "s" | "is" | "si" => format!("'(?{flags})' || ({pattern})"),
                _ => return None,
            })?;
            let name = function.name.to_string().to_lowercase();
            Some(function_call(&name, [of, &pattern, group]))
        }
        ("mode", [_]) if has_keys(function) => {
            let name = vec![Ident::new(MODE_BY_KEYS)].into();
            Some(Expr::Function(Function { name, ..function.clone() }))
        }
        // Of several values that come as often, the order has the first.
        ("mode", []) if is_descending(&function.within_group) => {
            let mut first = function.clone();
            let order = std::mem::take(&mut first.within_group);
            if let FunctionArguments::List(list) = &mut first.args {
                let of = order[0].expr.clone();
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(of))];
                list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
            }
            Some(Expr::Function(first))
        }
        ("generate_subscripts", [of, _]) => {
            parsed_expression(&format!("unnest(generate_series(1, len({of})))"))
        }
        ("encode", [text]) => parsed_expression(&format!("cast({text} as bytea)")),
        ("version", []) => {
            let version = concat!("euphrates ", env!("CARGO_PKG_VERSION"));
            Some(Expr::value(Value::SingleQuotedString(version.into())))
        }
        ("try", [Expr::Cast { expr, data_type, format, array, .. }]) => Some(Expr::Cast {
            kind: CastKind::TryCast,
            expr: expr.clone(),
            data_type: data_type.clone(),
            format: format.clone(),
            array: *array,
        }),
        ("decode", [bytes]) => Some(function_call("_text_of_bytes", [*bytes])),
        ("date_part" | "datepart", [Expr::Array(Array { elem, .. }), of]) => parts(elem, of),
        _ => None,
    }
}

/// An interval that the planner cannot read: `interval '1 day 02:03:04'`, `interval '1 day ago'`.
pub(super) fn clock(interval: &Interval) -> Option<Expr> {
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let is_other = text.contains(':') || text.trim_end().to_lowercase().ends_with("ago");
    if !is_other || interval.leading_field.is_some() {
        return None;
    }
    parsed_expression(&format!("cast({value} as interval)"))
}

/// `-interval '1 month 2 days'` with the interval in parentheses: the planner would negate the
/// first unit only.
pub(super) fn negated_interval(expr: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: op @ UnaryOperator::Minus, expr: of } = expr else { return None };
    let nested = || Box::new(Expr::Nested(of.clone()));
    matches!(**of, Expr::Interval(_)).then(|| Expr::UnaryOp { op: *op, expr: nested() })
}

/// A cast to `timestamp_ns`: the planner writes its own timestamps, those of the modules and these
/// alike.
pub(super) fn nanoseconds(kind: &CastKind, of: &Expr, name: &str) -> Option<Expr> {
    if !name.eq_ignore_ascii_case("timestamp_ns") {
        return None;
    }
    let cast = match kind {
        CastKind::TryCast | CastKind::SafeCast => "arrow_try_cast",
        CastKind::Cast | CastKind::DoubleColon => "arrow_cast",
    };
    let to = Expr::value(Value::SingleQuotedString("Timestamp(ns)".into()));
    Some(function_call(cast, [of, &to]))
}

/// A cast to `timestamp(3)`, or to a timestamp of whole seconds or milliseconds: what is cast is a
/// timestamp first, which is rounded.
pub(super) fn rounded_instant(kind: &CastKind, of: &Expr, to: &DataType) -> Option<Expr> {
    let unit = match to {
        DataType::Timestamp(Some(0), TimezoneInfo::None) => "s",
        DataType::Timestamp(Some(1..=3), TimezoneInfo::None) => "ms",
        DataType::Timestamp(Some(4..=6), TimezoneInfo::None) => "us",
        DataType::Timestamp(Some(7..=9), TimezoneInfo::None) => "ns",
        DataType::Custom(name, _) => match name.to_string().to_lowercase().as_str() {
            "timestamp_s" if is_text(of) => "s",
            "timestamp_ms" if is_text(of) => "ms",
            _ => return None,
        },
        _ => return None,
    };
    let cast = match kind {
        CastKind::TryCast | CastKind::SafeCast => ("try_cast", "arrow_try_cast"),
        CastKind::Cast | CastKind::DoubleColon => ("cast", "arrow_cast"),
    };
    let instant = match unit {
        "ns" => of.to_string(),
        _ => format!("{}({of} as timestamp)", cast.0),
    };
    parsed_expression(&format!("{}({instant}, 'Timestamp({unit})')", cast.1))
}

fn is_text(of: &Expr) -> bool {
    matches!(of, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// `interval (n || ' days')`: a text that is computed.
pub(super) fn computed_interval(interval: &Interval) -> Option<Expr> {
    if interval.leading_field.is_some() || matches!(*interval.value, Expr::Value(_)) {
        return None;
    }
    parsed_expression(&format!("cast({} as interval)", interval.value))
}

/// `coalesce` by cases, which take a text for the date or the time that it writes.
fn first_known(args: &[&Expr]) -> Option<Expr> {
    let (last, first) = args.split_last()?;
    let cases = first.iter().map(|arg| format!("when ({arg}) is not null then {arg}"));
    let cases = cases.collect::<Vec<_>>().join(" ");
    parsed_expression(&format!("case {cases} else {last} end"))
}

/// Whether a text in quotes may write a date or a time.
fn is_instant_text(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else { return false };
    let Value::SingleQuotedString(text) = &value.value else { return false };
    let parts: Vec<&str> = text.trim_start().splitn(3, ['-', ':', '/']).collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    parts.len() > 1 && parts[..2].iter().all(is_number)
}

/// `[date '2024-01-01', '2024-01-02']`: the texts have the type of the others.
pub(super) fn items_of_one_type(items: &Array) -> Option<Expr> {
    let typed = items.elem.iter().find_map(|item| match item {
        Expr::TypedString(typed) => Some(typed.clone()),
        _ => None,
    })?;
    let mut items = items.clone();
    let mut is_changed = false;
    for item in items.elem.iter_mut().filter(|item| is_instant_text(item)) {
        if let Expr::Value(value) = item {
            let value = value.clone();
            *item = Expr::TypedString(TypedString { value, ..typed.clone() });
            is_changed = true;
        }
    }
    is_changed.then_some(Expr::Array(items))
}

fn is_descending(order: &[OrderByExpr]) -> bool {
    matches!(order, [key] if key.options.asc == Some(false))
}

/// Whether a call has an order of several keys.
fn has_keys(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_many = |clause: &FunctionArgumentClause| match clause {
        FunctionArgumentClause::OrderBy(keys) => keys.len() > 1,
        _ => false,
    };
    list.clauses.iter().any(is_many)
}

/// `regexp_extract(of, pattern, ['x', 'y'])`: a struct of the pattern's groups.
fn groups(of: &Expr, pattern: &Expr, names: &[Expr]) -> Option<Expr> {
    let mut args = vec![];
    for (at, name) in names.iter().enumerate() {
        let group = number(&(at + 1).to_string());
        args.extend([name.clone(), function_call("regexp_extract", [of, pattern, &group])]);
    }
    let groups = call_of("named_struct", args);
    parsed_expression(&format!("case when {of} is not null then {groups} end"))
}

fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg),
        _ => None,
    });
    args.collect()
}

fn accessed(of: &Expr, subscript: Subscript) -> Expr {
    let access_chain = vec![AccessExpr::Subscript(subscript)];
    let root = Box::new(Expr::Nested(Box::new(of.clone())));
    Expr::CompoundFieldAccess { root, access_chain }
}

/// `date_part(['year', 'month'], of)`: a struct of these parts.
fn parts(units: &[Expr], of: &Expr) -> Option<Expr> {
    let mut args = vec![];
    for unit in units {
        let is_text = matches!(unit, Expr::Value(value)
            if matches!(value.value, Value::SingleQuotedString(_)));
        if !is_text {
            return None;
        }
        args.extend([unit.clone(), function_call("date_part", [unit, of])]);
    }
    let parts = call_of("named_struct", args);
    parsed_expression(&format!("case when {of} is not null then {parts} end"))
}

/// A slice with both bounds: `x[2:]` is `x[2:-1]`; and a field by its name: `f(x).a` is
/// `f(x)['a']`.
pub(super) fn bounded(access: &Expr) -> Option<Expr> {
    let mut access = access.clone();
    let Expr::CompoundFieldAccess { access_chain, .. } = &mut access else { return None };
    let mut is_changed = false;
    for step in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = step {
            let index = Expr::value(Value::SingleQuotedString(name.value.clone()));
            *step = AccessExpr::Subscript(Subscript::Index { index });
            is_changed = true;
        }
        let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) =
            step
        else {
            continue;
        };
        is_changed |= lower_bound.is_none() || upper_bound.is_none();
        lower_bound.get_or_insert_with(|| number("1"));
        if upper_bound.is_none() {
            *upper_bound = parsed_expression("-1");
        }
    }
    is_changed.then_some(access)
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.into(), false))
}
