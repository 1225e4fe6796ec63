//! Functions that are written as expressions over others: `year(t)` is `date_part('year', t)`.
//!
//! The arguments take the places of the parameters in the syntax tree.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use euphrates_flow::{Error, Result};
use sqlparser::ast::{Expr, Value, VisitMut, VisitorMut};

use crate::expression::parse::parse_expression;

/// Calls, and what they stand for.
const DEFINITIONS: [(&str, &str); 130] = [
    ("sign(x)", "case when cast(x as double) = cast('nan' as double) then 0 else signum(x) end"),
    ("mod(a, b)", "a % b"),
    ("if(condition, yes, no)", "case when condition then yes else no end"),
    ("iff(condition, yes, no)", "case when condition then yes else no end"),
    ("ifnull(a, b)", "coalesce(a, b)"),
    ("xor(a, b)", "(a | b) - (a & b)"),
    ("bit_not(a)", "-1 - a"),
    ("square(x)", "x * x"),
    ("to_hex(n)", "hex(n)"),
    ("encode(s)", "cast(s as bytea)"),
    ("decode(b)", "_text_of_bytes(b)"),
    ("date_trunc_decade(t)", "date_trunc('year', t) - to_years(year(t) % 10)"),
    ("date_trunc_century(t)", "date_trunc('year', t) - to_years(year(t) % 100)"),
    ("date_trunc_millennium(t)", "date_trunc('year', t) - to_years(year(t) % 1000)"),
    ("isinf(x)", "abs(x) = cast('inf' as double)"),
    ("isfinite(x)", "abs(x) < cast('inf' as double)"),
    ("lcase(s)", "lower(s)"),
    ("ucase(s)", "upper(s)"),
    ("strlen(s)", "octet_length(s)"),
    ("prefix(s, t)", "starts_with(s, t)"),
    ("suffix(s, t)", "ends_with(s, t)"),
    ("instr(s, t)", "strpos(s, t)"),
    ("substring(s, n)", "substr(s, n)"),
    ("substring(s, n, m)", "substr(s, n, m)"),
    ("mid(s, n, m)", "substr(s, n, m)"),
    ("regexp_matches(s, p)", "regexp_like(s, p)"),
    ("regexp_matches(s, p, f)", "regexp_like(s, p, f)"),
    ("regexp_full_match(s, p)", "regexp_like(s, '^(?:' || p || ')$')"),
    ("year(t)", "date_part('year', t)"),
    ("quarter(t)", "date_part('quarter', t)"),
    ("month(t)", "date_part('month', t)"),
    ("week(t)", "date_part('week', t)"),
    ("weekofyear(t)", "date_part('week', t)"),
    ("day(t)", "date_part('day', t)"),
    ("dayofmonth(t)", "date_part('day', t)"),
    ("dayofweek(t)", "date_part('dow', t)"),
    ("weekday(t)", "date_part('dow', t)"),
    ("isodow(t)", "date_part('isodow', t)"),
    ("dayofyear(t)", "date_part('doy', t)"),
    ("hour(t)", "date_part('hour', t)"),
    ("minute(t)", "date_part('minute', t)"),
    ("second(t)", "cast(floor(date_part('second', t)) as bigint)"),
    ("millisecond(t)", "cast(floor(date_part('millisecond', t)) as bigint)"),
    ("microsecond(t)", "cast(floor(date_part('microsecond', t)) as bigint)"),
    ("epoch(t)", "date_part('epoch', t)"),
    ("epoch_ms(t)", "cast(floor(date_part('epoch', t) * 1000) as bigint)"),
    ("decade(t)", "date_part('year', t) / 10"),
    ("century(t)", "(date_part('year', t) + 99) / 100"),
    ("millennium(t)", "(date_part('year', t) + 999) / 1000"),
    ("julian(t)", "date_part('epoch', t) / cast(86400 as double) + 2440588"),
    ("dayname(t)", "to_char(t, '%A')"),
    ("monthname(t)", "to_char(t, '%B')"),
    ("last_day(t)", "cast(date_trunc('month', t) + interval '1 month' - interval '1 day' as date)"),
    ("date(t)", "cast(t as date)"),
    ("as_time(t)", "cast(t as time)"),
    ("try_as_time(t)", "try_cast(t as time)"),
    ("make_timestamp(us)", "instant_of_us(us)"),
    ("list_sort(l)", "array_sort(l, 'ASC', 'NULLS LAST')"),
    ("list_sort(l, o)", "array_sort(l, o, 'NULLS LAST')"),
    ("array_sort(l)", "array_sort(l, 'ASC', 'NULLS LAST')"),
    ("array_sort(l, o)", "array_sort(l, o, 'NULLS LAST')"),
    ("list_sort(l, o, n)", "array_sort(l, o, n)"),
    ("list_reverse_sort(l, n)", "array_sort(l, 'DESC', n)"),
    ("array_reverse_sort(l, n)", "array_sort(l, 'DESC', n)"),
    ("list_reverse_sort(l)", "array_sort(l, 'DESC', 'NULLS LAST')"),
    ("array_reverse_sort(l)", "array_sort(l, 'DESC', 'NULLS LAST')"),
    ("list_string_agg(l)", "case when list_count(l) > 0 then array_to_string(l, ',') end"),
    // Of nulls alone, no text is made.
    (
        "array_to_string(l, s)",
        "case when list_count(l) > 0 or array_length(l) = 0 then array_join(l, s) end",
    ),
    ("list_any_value(l)", "list_first(array_compact(l))"),
    ("editdist3(a, b)", "levenshtein(a, b)"),
    ("list_inner_product(a, b)", "inner_product(a, b)"),
    ("list_dot_product(a, b)", "inner_product(a, b)"),
    ("list_negative_inner_product(a, b)", "-inner_product(a, b)"),
    ("list_negative_dot_product(a, b)", "-inner_product(a, b)"),
    ("list_cosine_distance(a, b)", "cosine_distance(a, b)"),
    ("list_cosine_similarity(a, b)", "1.0 - cosine_distance(a, b)"),
    (
        "list_select(l, places)",
        "case when l is not null then list_transform(places, lambda place_: l[place_]) end",
    ),
    ("array_inner_product(a, b)", "inner_product(a, b)"),
    ("array_dot_product(a, b)", "inner_product(a, b)"),
    ("array_negative_inner_product(a, b)", "-inner_product(a, b)"),
    ("array_negative_dot_product(a, b)", "-inner_product(a, b)"),
    ("array_cosine_distance(a, b)", "cosine_distance(a, b)"),
    ("array_cosine_similarity(a, b)", "1.0 - cosine_distance(a, b)"),
    (
        "array_select(l, places)",
        "case when l is not null then list_transform(places, lambda place_: l[place_]) end",
    ),
    ("constant_or_null(value, other)", "case when other is not null then value end"),
    ("days_in_month(t)", "day(last_day(t))"),
    ("make_timestamp_ms(ms)", "epoch_ms(ms)"),
    ("map_contains_value(m, v)", "array_has(map_values(m), v)"),
    ("map_contains_entry(m, k, v)", "array_has(map_extract(m, k), v)"),
    ("array_push_front(l, x)", "array_prepend(x, l)"),
    ("list_approx_count_distinct(l)", "list_unique(l)"),
    ("ceiling(x)", "ceil(x)"),
    ("greatest_common_divisor(a, b)", "gcd(a, b)"),
    ("least_common_multiple(a, b)", "lcm(a, b)"),
    ("add(a, b)", "a + b"),
    ("subtract(a, b)", "a - b"),
    ("multiply(a, b)", "a * b"),
    ("fdiv(a, b)", "floor(cast(a as double) / cast(b as double))"),
    ("date_add(t, i)", "t + i"),
    ("yearweek(t)", "date_part('isoyear', t) * 100 + date_part('week', t)"),
    ("isoyear(t)", "date_part('isoyear', t)"),
    ("era(t)", "case when year(t) > 0 then 1 when year(t) <= 0 then 0 end"),
    ("microseconds(t)", "microsecond(t)"),
    ("milliseconds(t)", "millisecond(t)"),
    ("to_binary(n)", "bin(n)"),
    ("struct_extract(s, f)", "get_field(s, f)"),
    (
        "map_extract(m, k)",
        "list_transform(list_filter(map_entries(m), lambda entry_: entry_.key = k), \
         lambda entry_: entry_.value)",
    ),
    ("element_at(m, k)", "map_extract(m, k)"),
    (
        "_micros_of_span(i)",
        "cast((date_part('year', i) * 12 + date_part('month', i)) * 30 + date_part('day', i) \
         as bigint) * 86400000000 + _micros_of_interval(i)",
    ),
    (
        "_micros_of_clock(t)",
        "cast(date_part('hour', t) as bigint) * 3600000000 \
         + cast(date_part('minute', t) as bigint) * 60000000 + microsecond(t)",
    ),
    ("_field_of(s, f)", "get_field(s, f)"),
    ("_value_of(m, k)", "m[k]"),
    ("_map_of(k, v)", "map(k, v)"),
    ("map_contains(m, k)", "array_has(map_keys(m), k)"),
    ("gen_random_uuid()", "uuid()"),
    ("date_diff_microsecond(a, b)", "epoch_us(b) - epoch_us(a)"),
    ("date_diff_millennium(a, b)", "year(b) / 1000 - year(a) / 1000"),
    ("date_diff_isoyear(a, b)", "isoyear(b) - isoyear(a)"),
    ("today()", "current_date()"),
    ("date_diff_year(a, b)", "date_part('year', b) - date_part('year', a)"),
    ("date_diff_quarter(a, b)", "date_diff_year(a, b) * 4 + quarter(b) - quarter(a)"),
    ("date_diff_month(a, b)", "date_diff_year(a, b) * 12 + month(b) - month(a)"),
    ("date_diff_week(a, b)", "date_diff_day(a, b) / 7"),
    ("date_diff_day(a, b)", "date_diff_second(date_trunc('day', a), date_trunc('day', b)) / 86400"),
    (
        "date_diff_hour(a, b)",
        "date_diff_second(date_trunc('hour', a), date_trunc('hour', b)) / 3600",
    ),
    (
        "date_diff_minute(a, b)",
        "date_diff_second(date_trunc('minute', a), date_trunc('minute', b)) / 60",
    ),
    (
        "date_diff_second(a, b)",
        "cast(floor(date_part('epoch', b)) as bigint) - \
         cast(floor(date_part('epoch', a)) as bigint)",
    ),
    (
        "date_diff_millisecond(a, b)",
        "cast(floor(date_part('epoch', b) * 1000) as bigint) - \
         cast(floor(date_part('epoch', a) * 1000) as bigint)",
    ),
    ("date_diff_decade(a, b)", "decade(b) - decade(a)"),
    ("date_diff_century(a, b)", "year(b) / 100 - year(a) / 100"),
];

/// Units of `date_part` that are functions of their own.
const UNIT_FUNCTIONS: [&str; 10] = [
    "decade",
    "century",
    "millennium",
    "era",
    "julian",
    "yearweek",
    "dayofweek",
    "dayofyear",
    "weekday",
    "weekofyear",
];

/// What a call stands for.
struct Synonym {
    parameters: Vec<String>,
    body: Expr,
}

/// The definitions by name and number of arguments.
static BY_NAME: LazyLock<HashMap<(String, usize), Synonym>> = LazyLock::new(|| {
    let definition = |(call, body): (&str, &str)| {
        let (name, parameters) = call.split_once('(').expect("it is a call");
        let parameters = parameters.trim_end_matches(')').split(", ");
        let parameters = parameters.filter(|name| !name.is_empty()).map(String::from);
        let parameters: Vec<String> = parameters.collect();
        let body = parse_expression(body).expect("it is an expression");
        ((name.to_string(), parameters.len()), Synonym { parameters, body })
    };
    DEFINITIONS.into_iter().map(definition).collect()
});

/// The expression that a call of a function stands for, if it does.
pub(super) fn expanded(name: &str, args: &[&Expr]) -> Result<Option<Expr>> {
    let name = name.to_lowercase();
    if let ("date_diff" | "datediff", [unit, from, to]) = (name.as_str(), args) {
        let unit = unit_of(unit)?;
        let found = expanded(&format!("date_diff_{unit}"), &[from, to])?;
        return found.map(Some).ok_or_else(|| {
            Error::usage(format!("`{name}` does not count in `{unit}`"))
                .remedy("units: year, quarter, month, week, day, hour, minute, second")
        });
    }
    let name = match (name.as_str(), args) {
        ("date_part" | "datepart", [Expr::Array(units), of]) => {
            return Ok(Some(parts(&units.elem, of)?));
        }
        ("date_trunc" | "datetrunc", [unit, of]) => match unit_of(unit).as_deref() {
            Ok(unit @ ("decade" | "century" | "millennium")) => {
                return expanded(&format!("date_trunc_{unit}"), &[of]);
            }
            _ => name,
        },
        // Units that are functions of their own.
        ("date_part" | "datepart", [unit, _]) => match unit_of(unit).as_deref() {
            Ok(unit) if UNIT_FUNCTIONS.contains(&unit) => return expanded(unit, &args[1..]),
            _ => name,
        },
        ("regexp_extract", [of, pattern, Expr::Array(names)]) => {
            return Ok(Some(named_groups(of, pattern, &names.elem)?));
        }
        ("strptime" | "try_strptime", [of, Expr::Array(formats)]) => {
            return Ok(Some(first_format(&name, of, &formats.elem)?));
        }
        // The format may stand before the time, as well.
        ("strftime", [format, of]) if text_of(format).is_some() && text_of(of).is_none() => {
            return Ok(Some(parse_expression(&format!("strftime({of}, {format})"))?));
        }
        ("json_array", items) => return Ok(Some(json_array(items)?)),
        ("json_object", fields) => return Ok(Some(json_object(fields)?)),
        ("list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr", [of, function]) => {
            return Ok(Some(list_call(function, of)?));
        }
        _ => name,
    };
    let Some(Synonym { parameters, body }) = BY_NAME.get(&(name, args.len())) else {
        return Ok(None);
    };
    let mut body = body.clone();
    let _: ControlFlow<()> = body.visit(&mut Substitution { parameters, args });
    Ok(Some(body))
}

/// `date_part(['year', 'month'], of)`: a struct of these parts.
fn parts(units: &[Expr], of: &Expr) -> Result<Expr> {
    let part = |unit: &Expr| Ok(format!("'{}', date_part({unit}, {of})", unit_of(unit)?));
    let parts = units.iter().map(part).collect::<Result<Vec<_>>>()?;
    let parts = parts.join(", ");
    parse_expression(&format!("case when {of} is not null then named_struct({parts}) end"))
}

/// `regexp_extract(of, pattern, ['x', 'y'])`: a struct of the pattern's groups.
fn named_groups(of: &Expr, pattern: &Expr, names: &[Expr]) -> Result<Expr> {
    let group = |(at, name)| format!("{name}, regexp_extract({of}, {pattern}, {})", at + 1);
    let groups = names.iter().enumerate().map(group).collect::<Vec<_>>().join(", ");
    parse_expression(&format!("case when {of} is not null then named_struct({groups}) end"))
}

/// `strptime(of, [formats])`: by the first format that fits.
fn first_format(name: &str, of: &Expr, formats: &[Expr]) -> Result<Expr> {
    let Some((last, before)) = formats.split_last() else {
        return Err(Error::usage(format!("`{name}` has no formats")));
    };
    let tried = before.iter().map(|format| format!("try_strptime({of}, {format})"));
    let all = tried.chain([format!("{name}({of}, {last})")]).collect::<Vec<_>>();
    parse_expression(&format!("coalesce({})", all.join(", ")))
}

fn json_array(items: &[&Expr]) -> Result<Expr> {
    let items = items.iter().map(|item| json_of(item)).collect::<Vec<_>>();
    parse_expression(&match items.is_empty() {
        true => "'[]'".to_string(),
        false => format!("'[' || {} || ']'", items.join(" || ',' || ")),
    })
}

fn json_object(fields: &[&Expr]) -> Result<Expr> {
    if fields.len() % 2 == 1 {
        let error = Error::usage("`json_object` has a key without a value");
        return Err(error.remedy("write `json_object('a', 1, 'b', 2)`"));
    }
    let field = |pair: &[&Expr]| {
        format!("to_json(cast({} as text)) || ':' || {}", pair[0], json_of(pair[1]))
    };
    let fields = fields.chunks(2).map(field).collect::<Vec<_>>();
    parse_expression(&match fields.is_empty() {
        true => "'{}'".to_string(),
        false => format!("'{{' || {} || '}}'", fields.join(" || ',' || ")),
    })
}

/// The JSON of a value as text; what a function of JSON gives is JSON already.
fn json_of(of: &Expr) -> String {
    let is_json = match of {
        Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            let parts = ["json", "json_array", "json_object", "json_extract", "to_json"];
            parts.contains(&name.as_str())
        }
        _ => false,
    };
    match is_json {
        true => format!("coalesce({of}, 'null')"),
        false => format!("coalesce(to_json({of}), 'null')"),
    }
}

/// The text that an expression is.
fn text_of(of: &Expr) -> Option<&str> {
    match of {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `list_sum(of)` for the name of a function in quotes.
fn list_call(function: &Expr, of: &Expr) -> Result<Expr> {
    let name = unit_of(function)?;
    parse_expression(&format!("list_{name}({of})"))
}

/// The unit that a text names, in the singular.
fn unit_of(unit: &Expr) -> Result<String> {
    let text = match unit {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.to_lowercase()),
            _ => None,
        },
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        _ => None,
    };
    let text = text.ok_or_else(|| Error::usage(format!("`{unit}` is no unit in quotes")))?;
    Ok(text.strip_suffix('s').unwrap_or(&text).to_string())
}

/// Puts arguments in the places of parameters.
struct Substitution<'a> {
    parameters: &'a [String],
    args: &'a [&'a Expr],
}

impl VisitorMut for Substitution<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(at) = self.parameters.iter().position(|known| *known == name.value)
        {
            *expr = Expr::Nested(Box::new(self.args[at].clone()));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let Expr::Function(call) = parse_expression(text).unwrap() else { panic!("a call") };
        let args = crate::expression::syntax::arguments(&call).unwrap();
        expanded(&call.name.to_string(), &args).unwrap().unwrap().to_string()
    }

    #[test]
    fn arguments_take_the_places_of_parameters() {
        assert_eq!(of("mod(a + 1, mod(b, a))"), "(a + 1) % (mod(b, a))");
        assert_eq!(of("YEAR(x)"), "date_part('year', (x))");
        assert_eq!(of("datediff('Days', a, b)"), of("date_diff_day(a, b)"));
    }

    #[test]
    fn unknown_unit_is_reported() {
        let args = ["'fortnight'", "a", "b"].map(|text| parse_expression(text).unwrap());
        let error = expanded("date_diff", &args.iter().collect::<Vec<_>>()).unwrap_err();
        assert!(error.to_string().contains("units: year"), "{error}");
    }
}
