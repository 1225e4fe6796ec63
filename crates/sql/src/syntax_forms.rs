//! Forms that the planner does not know, or plans wrongly, in forms that it knows: comparisons with
//! `any` and `all`, windows that extend named ones, semi and anti joins, whole quotients, numbers
//! with exponents, `similar to`, comparisons of rows, and `fetch first`.

mod chained_calls;
mod composed_calls;
mod concatenations;
mod distinct_orders;
mod exact_numbers;
mod grouping;
mod inner_orders;
mod lambda_bodies;
pub(crate) mod lateral_aliases;
mod listed_rows;
mod order_by_all;
pub(crate) mod outer_names;
mod own_level;
mod quantified;
mod respelled;
mod row_columns;
mod row_values;
pub(crate) mod star_columns;
pub(crate) mod star_items;
mod using_keys;

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Interval, JoinOperator, LimitClause,
    NamedWindowDefinition, NamedWindowExpr, Query, Select, SelectItem, SetExpr, UnaryOperator,
    Value, VisitMut, VisitorMut, WindowSpec, WindowType,
};

use self::exact_numbers::is_decimal;
use crate::checked_syntax::not;
use crate::functions::calls::{call, is_null};
use crate::relations::exclusion_tokens::is_mark;
use crate::relations::glob_tokens::GLOB;
use crate::relations::parsed_expression as parsed;

/// Rewrites all such forms in a query.
pub(crate) fn rewrite(query: &mut Query) {
    let _: ControlFlow<()> = query.visit(&mut Forms);
    // Rows that are compared are values of their own no more.
    let _: ControlFlow<()> = query.visit(&mut row_values::Structs);
}

struct Forms;

impl VisitorMut for Forms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(fetch) = &query.fetch
            && !fetch.percent
            && !fetch.with_ties
            && let Some(limit) = fetch.quantity.clone()
        {
            let offset = match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, .. }) => offset,
                _ => None,
            };
            let limit = Some(limit);
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: vec![] });
            query.fetch = None;
        }
        row_columns::write_order(query);
        distinct_orders::separate(query);
        inner_orders::keep(query);
        using_keys::qualify(query);
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            *limit = limit.take().filter(|limit| !is_null(limit));
            let offset = offset.as_mut().map(|offset| &mut offset.value);
            for count in limit.iter_mut().chain(offset) {
                if let Some(known) = number_of(count) {
                    *count = Expr::value(Value::Number(known.to_string(), false));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(condition) = &mut select.selection {
            row_tests(condition);
        }
        grouping::rewrite(&mut select.group_by, &select.projection);
        grouping::group_all(select);
        for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
            match &join.join_operator {
                JoinOperator::Semi(on) => join.join_operator = JoinOperator::LeftSemi(on.clone()),
                JoinOperator::Anti(on) => join.join_operator = JoinOperator::LeftAnti(on.clone()),
                _ => {}
            }
        }
        let named = select.named_window.iter();
        let named = named.filter_map(|NamedWindowDefinition(name, window)| match window {
            NamedWindowExpr::WindowSpec(spec) => Some((name.value.clone(), spec.clone())),
            NamedWindowExpr::NamedWindow(_) => None,
        });
        let mut windows = NamedWindows { specs: named.collect() };
        if windows.specs.is_empty() {
            return ControlFlow::Continue(());
        }
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = window {
                windows.extend(spec);
            }
        }
        select.projection.visit(&mut windows)?;
        select.qualify.visit(&mut windows)?;
        // The planner knows names in the list alone.
        select.qualify.visit(&mut WrittenWindows(&windows.specs))
    }

    /// `not (a > all …)` is `a <= any …`, also for nulls.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Some(call) = chained_calls::unchained(expr) {
            *expr = call;
        }
        concatenations::regroup(expr);
        inner_orders::rewrite(expr);
        if let Some(contrary) = contrary_of(expr) {
            *expr = contrary;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Bytes have one name.
        if let Expr::Cast { expr: of, data_type, .. } = expr
            && matches!(data_type, DataType::Blob(_) | DataType::Bytea)
        {
            match respelled::bytes_of(of) {
                Some(bytes) => *expr = bytes,
                None => *data_type = DataType::Bytea,
            }
        }
        if let Expr::Lambda(lambda) = expr {
            lambda_bodies::rewrite(lambda);
        }
        let rewritten = match &*expr {
            // As in the modules, a number with an exponent is a floating point number.
            Expr::Value(value) if is_with_exponent(&value.value) => Some(Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::value(Value::SingleQuotedString(value.to_string()))),
                data_type: DataType::Double(ExactNumberInfo::None),
                format: None,
                array: false,
            }),
            // The planner has no other name for it than that of `like`.
            Expr::SimilarTo { negated, expr: of, pattern, escape_char: None } => {
                let call = call("similar_to", [of, pattern]);
                Some(if *negated { not(call) } else { call })
            }
            Expr::BinaryOp { left, op: BinaryOperator::DuckIntegerDivide, right } => {
                Some(call("whole_quotient", [left, right]))
            }
            // False, not null, if no item is equal.
            Expr::InUnnest { expr: item, array_expr, negated } => {
                let test = call("list_contains", [array_expr, item]);
                Some(if *negated { not(test) } else { test })
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: of } => {
                Some(call("bit_not", [of]))
            }
            Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
                Some(call("json_extract", [left, right]))
            }
            Expr::BinaryOp { left, op: BinaryOperator::LongArrow, right } => {
                Some(call("json_extract_string", [left, right]))
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGLikeMatch, right } => {
                Some(call(GLOB, [left, right]))
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
                Some(call("starts_with", [left, right]))
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGOverlap, right } => {
                Some(call("array_has_any", [left, right]))
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                Some(call("timezone", [time_zone, timestamp]))
            }
            Expr::Interval(interval) => {
                let other = of_unit(interval).or_else(|| respelled::clock(interval));
                other.or_else(|| respelled::computed_interval(interval))
            }
            Expr::Cast { data_type, .. } if is_decimal(data_type) => exact_numbers::of_cast(expr),
            Expr::Cast { kind, expr: of, data_type: to @ DataType::Timestamp(..), .. } => {
                respelled::rounded_instant(kind, of, to)
            }
            Expr::Cast { kind, expr: of, data_type: to @ DataType::Custom(name, _), .. } => {
                let nanoseconds = respelled::nanoseconds(kind, of, &name.to_string());
                nanoseconds.or_else(|| respelled::rounded_instant(kind, of, to))
            }
            // JSON and UUIDs are text that is checked.
            Expr::Cast { kind, expr: of, data_type, .. } => {
                respelled::checked_text(kind, data_type).map(|name| call(name, [of]))
            }
            Expr::TypedString(typed) => respelled::checked_literal(typed),
            Expr::Function(call) => {
                let other = of_null(call).or_else(|| composed_calls::named_fields(call));
                let other = other.or_else(|| renamed(call)).or_else(|| respelled::call(call));
                other.or_else(|| composed_calls::composed(call))
            }
            Expr::Array(items) => respelled::items_of_one_type(items),
            Expr::CompoundFieldAccess { .. } => respelled::bounded(expr),
            other => quantified::value(other)
                .map(|test| row_values::compared(&test).unwrap_or(test))
                .or_else(|| row_values::compared(other))
                .or_else(|| respelled::negated_interval(other)),
        };
        if let Some(rewritten) = rewritten {
            *expr = rewritten;
        }
        ControlFlow::Continue(())
    }
}

/// The comparison that `not` makes of one with `any` or `all`.
fn contrary_of(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => quantified::contrary(expr),
        _ => None,
    }
}

/// Writes tests of rows among the conjuncts of a filter as those of existence.
fn row_tests(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            [left, right].into_iter().for_each(|side| row_tests(side));
        }
        Expr::Nested(inner) => row_tests(inner),
        other => {
            if let Some(contrary) = contrary_of(other) {
                *other = contrary;
            }
            let test = quantified::condition(other)
                .map(|test| row_values::filtered(&test).unwrap_or(test))
                .or_else(|| row_values::filtered(other));
            if let Some(test) = test {
                *other = test;
            }
        }
    }
}

/// `sum(null)`, whose type the planner does not know.
fn of_null(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(args) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = &args.args[..] else { return None };
    let is_sum = ["sum", "avg"].contains(&call.name.to_string().to_lowercase().as_str());
    if !is_sum || !is_null(arg) {
        return None;
    }
    let mut call = call.clone();
    if let FunctionArguments::List(args) = &mut call.args {
        let null = parsed("cast(null as bigint)")?;
        args.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(null))];
    }
    Some(Expr::Function(call))
}

/// The number that a count of rows is.
fn number_of(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Nested(inner) => number_of(inner),
        // `(select 2)`
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) if select.from.is_empty() && select.selection.is_none() => {
                match &select.projection[..] {
                    [SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. }] => {
                        number_of(of)
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (number_of(left)?, number_of(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                BinaryOperator::Divide => left.checked_div(right),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_with_exponent(value: &Value) -> bool {
    matches!(value, Value::Number(digits, _) if digits.contains(['e', 'E']))
}

/// `interval 1 day` is `interval '1' day`, and `interval (n) day`, whose number is computed, is
/// `to_days(n)`.
fn of_unit(interval: &Interval) -> Option<Expr> {
    let is_literal = |expr: &Expr| match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } => matches!(expr.as_ref(), Expr::Value(_)),
        _ => false,
    };
    let unit = interval.leading_field.as_ref()?.to_string().to_lowercase();
    let unit = unit.trim_end_matches('s');
    let known = ["year", "quarter", "month", "week", "day"];
    let of_day = ["hour", "minute", "second", "millisecond", "microsecond"];
    let is_known = known.contains(&unit) || of_day.contains(&unit);
    match &*interval.value {
        // The planner knows numbers in quotes alone as offsets of frames.
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
            let number = Expr::value(Value::SingleQuotedString(value.value.to_string()));
            Some(Expr::Interval(Interval { value: Box::new(number), ..interval.clone() }))
        }
        Expr::Nested(inner) if is_literal(inner) && interval.last_field.is_none() => {
            Some(Expr::Interval(Interval { value: inner.clone(), ..interval.clone() }))
        }
        value if !is_literal(value) && is_known && interval.last_field.is_none() => {
            Some(call(&format!("to_{unit}s"), [value]))
        }
        _ => None,
    }
}

/// Calls under the names that the planner knows: `list_sum(l)` for `list_aggregate(l, 'sum')`.
fn renamed(function: &Function) -> Option<Expr> {
    let called = function.name.to_string().to_lowercase();
    let mut call = function.clone();
    let name = match called.as_str() {
        // The planner's own takes no lists of a fixed size.
        "length" => "len".into(),
        "list_value" | "array_value" | "list_pack" => "make_array".into(),
        "struct_extract" => "get_field".into(),
        "grouping_id" => "grouping".into(),
        "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" => {
            let FunctionArguments::List(list) = &mut call.args else { return None };
            let of_items = match list.args.get(1) {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => {
                    value.value.clone()
                }
                _ => return None,
            };
            let Value::SingleQuotedString(name) = of_items else { return None };
            match (list.args.len(), name.to_lowercase().as_str()) {
                (2, name) => {
                    list.args.truncate(1);
                    format!("list_{name}")
                }
                (3, "string_agg" | "listagg" | "group_concat") => {
                    list.args.remove(1);
                    "array_to_string".into()
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    call.name = vec![Ident::new(name)].into();
    Some(Expr::Function(call))
}

/// Writes named windows where they are used.
struct WrittenWindows<'a>(&'a HashMap<String, WindowSpec>);

impl VisitorMut for WrittenWindows<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { over: Some(over), .. }) = expr
            && let WindowType::NamedWindow(name) = over
            && let Some(spec) = self.0.get(&name.value)
        {
            *over = WindowType::WindowSpec(spec.clone());
        }
        ControlFlow::Continue(())
    }
}

/// The named windows of a selection.
struct NamedWindows {
    specs: HashMap<String, WindowSpec>,
}

impl NamedWindows {
    /// Gives a window the parts of the named one that it extends.
    fn extend(&self, spec: &mut WindowSpec) {
        // Names cannot refer to each other in a circle longer than this.
        for _ in 0..self.specs.len() {
            let Some(name) = &spec.window_name else { return };
            let Some(base) = self.specs.get(&name.value) else { return };
            if spec.partition_by.iter().all(is_mark) {
                spec.partition_by.extend(base.partition_by.iter().cloned());
            }
            if spec.order_by.is_empty() {
                spec.order_by.clone_from(&base.order_by);
            }
            if spec.window_frame.is_none() {
                spec.window_frame.clone_from(&base.window_frame);
            }
            spec.window_name.clone_from(&base.window_name);
        }
    }
}

impl VisitorMut for NamedWindows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr {
            self.extend(spec);
        }
        ControlFlow::Continue(())
    }
}
