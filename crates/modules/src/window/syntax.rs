//! The syntax of window functions: `"sum(price) over (rows between 2 preceding and current row)"`.

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use sqlparser::ast::{
    self, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, NullTreatment, WindowFrameUnits, WindowType,
};

use super::frames::{FrameBound, FrameExclusion, FrameUnits, RowFrame};
use crate::aggregate::function_syntax;
use crate::aggregate::functions::{AGGREGATES, is_aggregate};
use crate::expression::parse_expression;

/// What is computed of the rows of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Count,
    Sum,
    Min,
    Max,
    Avg,
    /// Any other function of `aggregate`.
    Aggregate,
}

use WindowFunction as F;

/// The functions, with the fewest and the most arguments that they take.
const FUNCTIONS: [(&str, WindowFunction, usize, usize); 16] = [
    ("row_number", F::RowNumber, 0, 0),
    ("rank", F::Rank, 0, 0),
    ("dense_rank", F::DenseRank, 0, 0),
    ("percent_rank", F::PercentRank, 0, 0),
    ("cume_dist", F::CumeDist, 0, 0),
    ("ntile", F::Ntile, 1, 1),
    ("lag", F::Lag, 1, 3),
    ("lead", F::Lead, 1, 3),
    ("first_value", F::FirstValue, 1, 1),
    ("last_value", F::LastValue, 1, 1),
    ("nth_value", F::NthValue, 2, 2),
    ("count", F::Count, 0, 1),
    ("sum", F::Sum, 1, 1),
    ("min", F::Min, 1, 1),
    ("max", F::Max, 1, 1),
    ("avg", F::Avg, 1, 1),
];

/// A call of a window function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowCall {
    pub(crate) function: WindowFunction,
    /// The texts of its arguments.
    pub(crate) args: Vec<String>,
    /// The call as `aggregate` takes it, for its functions.
    pub(crate) aggregate: Option<String>,
    /// The rows that it sees; if absent, those up to the current one and its peers, or all if the
    /// window has no order.
    pub(crate) frame: Option<RowFrame>,
    /// Whether it passes over nulls.
    pub(crate) ignores_nulls: bool,
}

/// Parses a call of a window function.
pub(crate) fn parse(text: &str) -> Result<WindowCall> {
    let Some((plain, exclusion)) = without_exclusion(text) else { return parse_plain(text, false) };
    let mut call = parse_plain(&plain, true)?;
    match &mut call.frame {
        Some(frame) => frame.exclusion = exclusion,
        None => {
            let error = Error::usage(format!("`{text}` excludes rows of no frame"));
            return Err(error.remedy("write `rows between … and … exclude …`"));
        }
    }
    Ok(call)
}

/// A text without the `exclude` at its end, which the parser does not know.
fn without_exclusion(text: &str) -> Option<(String, Option<FrameExclusion>)> {
    let inside = text.trim_end().strip_suffix(')')?.to_ascii_lowercase();
    let at = inside.rfind("exclude")?;
    let words: Vec<&str> = inside[at..].split_whitespace().skip(1).collect();
    let exclusion = match words[..] {
        ["current", "row"] => Some(FrameExclusion::CurrentRow),
        ["group"] => Some(FrameExclusion::Group),
        ["ties"] => Some(FrameExclusion::Ties),
        ["no", "others"] => None,
        _ => return None,
    };
    Some((format!("{})", &text[..at]), exclusion))
}

/// Parses a call. If its frame `has_pieces`, any aggregate is one of `aggregate`, whose states
/// need no frames in one piece, unless it picks a row.
fn parse_plain(text: &str, has_pieces: bool) -> Result<WindowCall> {
    let Expr::Function(call) = parse_expression(text)? else {
        let error = Error::usage(format!("`{text}` is not one function of something"));
        return Err(error.remedy("write it like `rank()` or `sum(price)`"));
    };
    let name = call.name.to_string();
    let known = FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(&name));
    let known = known.filter(|(_, function, ..)| {
        let takes_frame = !has_pieces || matches!(function, F::FirstValue | F::LastValue);
        !is_aggregate(&name) || takes_frame && is_simple(&call, *function)
    });
    let Some((name, function, fewest, most)) = known else {
        if is_aggregate(&name) {
            return aggregate(call);
        }
        let names = FUNCTIONS.iter().map(|(name, ..)| *name);
        let names = names.chain(AGGREGATES.iter().map(|(name, _)| *name));
        return Err(unknown("window function", &name, names));
    };
    let (mut args, mut ignores_nulls) = (vec![], is_ignoring(call.null_treatment));
    if let FunctionArguments::List(list) = &call.args {
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                    ignores_nulls |= is_ignoring(Some(*nulls));
                }
                other => return Err(unsupported(format!("`{other}`"))),
            }
        }
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => args.push(arg.to_string()),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if *function == F::Count => {}
                other => return Err(unsupported(format!("`{other}`"))),
            }
        }
    }
    if let Some(condition) = &call.filter {
        if !matches!(function, F::Count | F::Sum | F::Min | F::Max | F::Avg) {
            return Err(unsupported(format!("`{name}(…) filter (where …)`")));
        }
        let value = args.pop().unwrap_or_else(|| "1".into());
        args.push(format!("case when {condition} then {value} end"));
    }
    if args.len() < *fewest || args.len() > *most {
        let error = Error::usage(format!("`{text}` has {} arguments", args.len()));
        return Err(error.remedy(match (fewest, most) {
            (0, 0) => format!("write `{name}()`"),
            (fewest, most) if fewest == most => format!("`{name}` takes {most}"),
            (fewest, most) => format!("`{name}` takes {fewest} to {most}"),
        }));
    }
    let frame = call.over.as_ref().map(frame_of).transpose()?.flatten();
    Ok(WindowCall { function: *function, args, aggregate: None, frame, ignores_nulls })
}

/// A call of a function of `aggregate` over a frame.
fn aggregate(mut call: Function) -> Result<WindowCall> {
    let frame = call.over.take().as_ref().map(frame_of).transpose()?.flatten();
    let text = call.to_string();
    let args = function_syntax::parse(&text)?.arguments;
    let (function, aggregate) = (F::Aggregate, Some(text));
    Ok(WindowCall { function, args, aggregate, frame, ignores_nulls: false })
}

/// Whether a call has none of the clauses that only functions of `aggregate` have.
fn is_simple(call: &Function, function: WindowFunction) -> bool {
    let is_folded = matches!(function, F::Count | F::Sum | F::Min | F::Max | F::Avg);
    let FunctionArguments::List(list) = &call.args else { return true };
    let is_order =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    list.duplicate_treatment != Some(DuplicateTreatment::Distinct)
        && !list.clauses.iter().any(is_order)
        && (call.filter.is_none() || is_folded)
        && !(matches!(function, F::Min | F::Max) && list.args.len() == 2)
}

fn is_ignoring(nulls: Option<NullTreatment>) -> bool {
    nulls == Some(NullTreatment::IgnoreNulls)
}

fn unsupported(what: String) -> Error {
    Error::usage(format!("{what} is not supported in a window"))
}

/// The frame of `over (…)`, which says nothing else.
fn frame_of(over: &WindowType) -> Result<Option<RowFrame>> {
    let WindowType::WindowSpec(spec) = over else {
        return Err(unsupported(format!("the name `{over}`")));
    };
    if !spec.partition_by.is_empty() || !spec.order_by.is_empty() || spec.window_name.is_some() {
        let error = Error::usage(format!("`over ({spec})` is more than a frame"));
        return Err(error.remedy("give `partition_by` and `order_by` to the module"));
    }
    let Some(frame) = &spec.window_frame else { return Ok(None) };
    let units = match frame.units {
        WindowFrameUnits::Rows => FrameUnits::Rows,
        WindowFrameUnits::Range => FrameUnits::Range,
        WindowFrameUnits::Groups => FrameUnits::Groups,
    };
    let inverted = || Error::usage(format!("the frame of `{spec}` ends before it starts"));
    let start = bound_of(&frame.start_bound, true).ok_or_else(inverted)?;
    let end = match &frame.end_bound {
        Some(bound) => bound_of(bound, false).ok_or_else(inverted)?,
        None => FrameBound::CurrentRow,
    };
    match start.place(true) > end.place(false) {
        true => Err(inverted()),
        false => Ok(Some(RowFrame { units, start, end, exclusion: None })),
    }
}

/// A bound; none for `unbounded following` as a start and `unbounded preceding` as an end.
fn bound_of(bound: &ast::WindowFrameBound, is_start: bool) -> Option<FrameBound> {
    match bound {
        ast::WindowFrameBound::CurrentRow => Some(FrameBound::CurrentRow),
        ast::WindowFrameBound::Preceding(Some(offset)) => {
            Some(FrameBound::Preceding(offset.to_string()))
        }
        ast::WindowFrameBound::Following(Some(offset)) => {
            Some(FrameBound::Following(offset.to_string()))
        }
        ast::WindowFrameBound::Preceding(None) => is_start.then_some(FrameBound::Unbounded),
        ast::WindowFrameBound::Following(None) => (!is_start).then_some(FrameBound::Unbounded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_arguments_and_frames() {
        let call = parse("sum(a + 1) over (rows between 2 preceding and current row)").unwrap();
        assert_eq!((call.function, &call.args[..]), (F::Sum, &["a + 1".to_string()][..]));
        let start = FrameBound::Preceding("2".into());
        let end = FrameBound::CurrentRow;
        let frame = RowFrame { units: FrameUnits::Rows, start, end, exclusion: None };
        assert_eq!(call.frame, Some(frame));
        let call = parse("sum(a) over (rows between 1 preceding and 1 following exclude  Ties )");
        let exclusion = call.unwrap().frame.unwrap().exclusion;
        assert_eq!(exclusion, Some(FrameExclusion::Ties));
        assert!(parse("last_value(a ignore nulls)").unwrap().ignores_nulls);
        assert_eq!(parse("count(*)").unwrap().args.len(), 0);
        let filtered = parse("count(*) filter (where a > 1)").unwrap();
        assert_eq!(filtered.args, ["case when a > 1 then 1 end"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("medium(a)", "no window function named `medium`"),
            ("rank(a)", "1 arguments"),
            ("a + 1", "not one function"),
            ("sum(a) over (order by b)", "more than a frame"),
            ("rank() filter (where a > 1)", "filter"),
            ("sum(a) over (rows between current row and 1 preceding)", "ends before it starts"),
            ("sum(a) over (rows between unbounded following and current row)", "ends before"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
