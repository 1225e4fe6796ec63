//! The syntax of aggregate calls: `"sum(price * discount)"`, `"count(distinct city)"`,
//! `"string_agg(city, ', ' order by price desc) filter (where amount > 1)"`.

use arrow::compute::SortOptions;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, OrderByExpr,
};

use super::functions::{
    AGGREGATES, AggregateFunction, Definition as D, Finish, Keep, PairStatistic, RowCollection,
};
use crate::expression::parse_expression;

mod constants;

/// A call of an aggregate function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AggregateCall {
    pub(crate) function: AggregateFunction,
    /// The expressions that are evaluated for each row. A collection has the value, then the keys
    /// of its order, then its condition.
    pub(crate) arguments: Vec<String>,
}

/// Parses a call of an aggregate function.
pub(crate) fn parse(text: &str) -> Result<AggregateCall> {
    let Expr::Function(function) = parse_expression(text)? else {
        let error = Error::usage(format!("`{text}` is not one function of something"));
        return Err(match text.trim().eq_ignore_ascii_case("count") {
            true => error.remedy("write it like `count()`"),
            false => error.remedy("write it like `sum(price)` or `sum(price) / count()`"),
        });
    };
    let name = function.name.to_string();
    let found = AGGREGATES.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
    let Some((name, definition)) = found else {
        return Err(match name.to_lowercase().as_str() {
            "mean" => Error::usage("no function named `mean`").remedy("did you mean `avg`?"),
            _ => unknown("function", &name, AGGREGATES.iter().map(|(name, _)| *name)),
        });
    };
    WrittenCall::new(text, name, &function)?.resolved(*definition)
}

/// The parts of a call as they are written.
struct WrittenCall<'a> {
    text: &'a str,
    name: &'static str,
    args: Vec<Expr>,
    is_distinct: bool,
    order: Vec<OrderByExpr>,
    /// Whether the order is that of `within group`.
    is_within_group: bool,
    filter: Option<Expr>,
}

impl WrittenCall<'_> {
    fn new<'a>(text: &'a str, name: &'static str, call: &Function) -> Result<WrittenCall<'a>> {
        let mut written = WrittenCall {
            text,
            name,
            args: vec![],
            is_distinct: false,
            order: call.within_group.clone(),
            is_within_group: !call.within_group.is_empty(),
            filter: call.filter.as_deref().cloned(),
        };
        let unsupported = |what: &str| Error::usage(format!("`{text}`: {what} is not supported"));
        if call.over.is_some() {
            return Err(unsupported("`over`").remedy("windows are made by the module `window`"));
        }
        let FunctionArguments::List(list) = &call.args else {
            return Err(written.without_argument());
        };
        written.is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => written.args.push(arg.clone()),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if list.args.len() == 1 => {}
                other => return Err(unsupported(&format!("`{other}`"))),
            }
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => written.order.extend(keys.clone()),
                other => return Err(unsupported(&format!("`{other}`"))),
            }
        }
        // What is ordered within a group is the value.
        if let [key] = &call.within_group[..] {
            written.args.insert(0, key.expr.clone());
        }
        Ok(written)
    }

    fn resolved(mut self, definition: D) -> Result<AggregateCall> {
        let function = match definition {
            D::Count if self.args.is_empty() && !self.is_distinct => {
                let condition = self.filter.take();
                let when = |condition| format!("case when {condition} then 1 end");
                self.accept_order(false)?;
                let arguments = condition.into_iter().map(when).collect();
                return Ok(AggregateCall { function: AggregateFunction::Count, arguments });
            }
            D::Count if self.is_distinct => {
                self.is_distinct = false;
                AggregateFunction::CountDistinct
            }
            D::Count => AggregateFunction::Count,
            D::CountIf => {
                self.accept_args(1)?;
                let condition = &self.args[0];
                self.args[0] = parse_expression(&format!("case when {condition} then 1 end"))?;
                AggregateFunction::Count
            }
            D::Min | D::Max if self.args.len() == 2 => {
                let count = self.count()?;
                let key = self.args[0].to_string();
                return self.few(count, vec![key], matches!(definition, D::Max), 1);
            }
            D::Sum => AggregateFunction::Sum,
            D::Min => AggregateFunction::Min,
            D::Max => AggregateFunction::Max,
            D::SumOfFloats | D::AvgOfFloats => {
                self.accept_args(1)?;
                let of = &self.args[0];
                self.args[0] = parse_expression(&format!("cast({of} as double)"))?;
                match definition {
                    D::SumOfFloats => AggregateFunction::Sum,
                    _ => AggregateFunction::Avg,
                }
            }
            D::Powers(statistic) => AggregateFunction::Powers(statistic),
            D::MedianDistance => return self.collected(Keep::All, Finish::MedianDistance, 1),
            D::Entropy => return self.collected(Keep::All, Finish::Entropy, 1),
            D::Histogram => return self.collected(Keep::All, Finish::Histogram, 1),
            D::QuantileCont | D::QuantileDisc if self.has_fractions() => {
                let (fractions, descending) = self.fractions()?;
                let is_disc = matches!(definition, D::QuantileDisc);
                let finish = Finish::Quantiles { fractions, is_disc, descending };
                return self.collected(Keep::All, finish, 1);
            }
            D::Avg => AggregateFunction::Avg,
            D::Spread(spread) => AggregateFunction::Spread(spread),
            D::Product => AggregateFunction::Product,
            D::Bits(operation) => AggregateFunction::Bits(operation),
            D::ApproxDistinct => AggregateFunction::ApproxDistinct,
            D::ApproxMedian => AggregateFunction::ApproxQuantile(0.5),
            D::ApproxQuantile => {
                let (fraction, descending) = self.fraction()?;
                let fraction = if descending { 1.0 - fraction } else { fraction };
                AggregateFunction::ApproxQuantile(fraction)
            }
            D::Pairs(statistic) => return self.pairs(statistic),
            D::Median => return self.collected(Keep::All, Finish::Median, 1),
            D::QuantileCont => {
                let (fraction, descending) = self.fraction()?;
                let fraction = if descending { 1.0 - fraction } else { fraction };
                return self.collected(Keep::All, Finish::Quantile(fraction), 1);
            }
            D::QuantileDisc => {
                let (fraction, descending) = self.fraction()?;
                let finish = Finish::QuantileDisc { fraction, descending };
                return self.collected(Keep::All, finish, 1);
            }
            D::Mode if self.is_within_group || self.order.is_empty() => {
                self.order.clear();
                return self.collected(Keep::All, Finish::Mode, 1);
            }
            D::Mode => return self.collected(Keep::All, Finish::FirstMode, 1),
            D::List => return self.collected(Keep::All, Finish::List, 0),
            D::Join => {
                let separator = self.separator()?;
                return self.collected(Keep::All, Finish::Join(separator), 1);
            }
            D::First => return self.collected(Keep::First, Finish::Value, 0),
            D::Last => return self.collected(Keep::Last, Finish::Value, 0),
            D::Only => return self.collected(Keep::All, Finish::Only, 0),
            D::Any => return self.collected(Keep::First, Finish::Value, 1),
            D::ArgMin | D::ArgMax if self.args.len() == 3 => {
                let count = self.count()?;
                let key = self.args.remove(1).to_string();
                return self.few(count, vec![key], matches!(definition, D::ArgMax), 2);
            }
            D::ArgMin | D::ArgMax => return self.extreme(matches!(definition, D::ArgMax)),
        };
        self.accept_order(false)?;
        self.accept_args(1)?;
        let is_extreme = matches!(definition, D::Min | D::Max);
        if self.is_distinct && !is_extreme && !matches!(definition, D::ApproxDistinct) {
            return self.collected(Keep::Distinct, Finish::Function(Box::new(function)), 1);
        }
        Ok(AggregateCall { function, arguments: vec![self.filtered_argument()] })
    }

    fn pairs(self, statistic: PairStatistic) -> Result<AggregateCall> {
        self.accept_order(false)?;
        self.accept_args(2)?;
        if self.is_distinct {
            return Err(self.wrong("`distinct` is not supported"));
        }
        let arguments = vec![self.filtered_argument(), self.args[1].to_string()];
        Ok(AggregateCall { function: AggregateFunction::Pairs(statistic), arguments })
    }

    /// `arg_max(value, key)`: the first value by the key.
    fn extreme(mut self, is_max: bool) -> Result<AggregateCall> {
        self.accept_order(false)?;
        self.accept_args(2)?;
        let key = self.args.remove(1);
        let mut arguments = vec![self.filtered_argument()];
        arguments.push(key.to_string());
        let order = vec![by_greatest(is_max)];
        let collection = RowCollection {
            keep: Keep::First,
            order,
            skips_nulls: 2,
            is_filtered: false,
            finish: Finish::Value,
        };
        Ok(AggregateCall { function: AggregateFunction::Collected(collection), arguments })
    }

    /// `max(value, n)`, `arg_max(value, key, n)`: a list of the first values by the key.
    fn few(
        self,
        count: usize,
        keys: Vec<String>,
        is_max: bool,
        skips_nulls: usize,
    ) -> Result<AggregateCall> {
        self.accept_order(false)?;
        self.accept_args(1)?;
        let mut arguments = vec![self.filtered_argument()];
        arguments.extend(keys);
        let order = vec![by_greatest(is_max)];
        let finish = Finish::List;
        let keep = Keep::Few(count);
        let collection = RowCollection { keep, order, skips_nulls, is_filtered: false, finish };
        Ok(AggregateCall { function: AggregateFunction::Collected(collection), arguments })
    }

    /// The rows of a group in the order of the call. `skips_nulls` says how many of the first
    /// columns must not be null.
    fn collected(self, keep: Keep, finish: Finish, skips_nulls: usize) -> Result<AggregateCall> {
        self.accept_args(1)?;
        let keep = match (self.is_distinct, keep) {
            (true, Keep::All) => Keep::Distinct,
            (true, Keep::First) => return Err(self.wrong("`distinct` is not supported")),
            (_, keep) => keep,
        };
        let is_ordered =
            matches!(finish, Finish::List | Finish::Join(_) | Finish::Value | Finish::FirstMode);
        let value = self.args[0].to_string();
        self.accept_order(is_ordered)?;
        // Rows that are left out cannot be told from nulls where these count.
        let is_filtered = skips_nulls == 0 && self.filter.is_some();
        let mut arguments =
            vec![if is_filtered { value.clone() } else { self.filtered_argument() }];
        let mut order = vec![];
        for key in &self.order {
            let descending = key.options.asc == Some(false);
            order.push(SortOptions {
                descending,
                nulls_first: key.options.nulls_first == Some(true),
            });
            match keep {
                Keep::Distinct if key.expr.to_string() != value => {
                    return Err(self.wrong("distinct values are ordered by themselves"));
                }
                Keep::Distinct => {}
                _ => arguments.push(key.expr.to_string()),
            }
        }
        if let Some(condition) = self.filter.as_ref().filter(|_| is_filtered) {
            arguments.push(condition.to_string());
        }
        let collection = RowCollection { keep, order, skips_nulls, is_filtered, finish };
        Ok(AggregateCall { function: AggregateFunction::Collected(collection), arguments })
    }

    /// The first argument, null in rows that the filter leaves out.
    fn filtered_argument(&self) -> String {
        match &self.filter {
            Some(condition) => format!("case when {condition} then {} end", self.args[0]),
            None => self.args[0].to_string(),
        }
    }

    fn accept_args(&self, number: usize) -> Result<()> {
        match self.args.len() {
            0 => Err(self.without_argument()),
            found if found == number => Ok(()),
            found => {
                let error = Error::usage(format!("`{}` has {found} arguments", self.text));
                Err(error.remedy(format!("`{}` is of {number}", self.name)))
            }
        }
    }

    fn accept_order(&self, is_ordered: bool) -> Result<()> {
        match self.order.is_empty() || is_ordered {
            true => Ok(()),
            false => Err(self.wrong("its result does not depend on an order")),
        }
    }

    fn wrong(&self, why: &str) -> Error {
        Error::usage(format!("`{}` cannot be computed: {why}", self.text))
    }

    fn without_argument(&self) -> Error {
        let error = Error::usage(format!("`{}` does not say of what", self.text));
        error.remedy(format!("name a column: `{}(column)`", self.name))
    }
}

/// From the greatest value on, or from the least. Keys are not null themselves; nulls within lists
/// and structs are the greatest values.
fn by_greatest(descending: bool) -> SortOptions {
    SortOptions { descending, nulls_first: descending }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: AggregateFunction, arguments: &[&str]) -> AggregateCall {
        AggregateCall { function, arguments: arguments.iter().map(|it| it.to_string()).collect() }
    }

    #[test]
    fn functions_are_read_as_in_sql() {
        for (text, function, arguments) in [
            ("count()", AggregateFunction::Count, &[] as &[&str]),
            ("COUNT(*)", AggregateFunction::Count, &[]),
            (" count ( x ) ", AggregateFunction::Count, &["x"]),
            ("count(distinct x)", AggregateFunction::CountDistinct, &["x"]),
            ("count(DISTINCT(x))", AggregateFunction::CountDistinct, &["(x)"]),
            ("count(distinction)", AggregateFunction::Count, &["distinction"]),
            ("sum(a * (1 - b))", AggregateFunction::Sum, &["a * (1 - b)"]),
            ("max(distinct x)", AggregateFunction::Max, &["x"]),
            ("avg(x)", AggregateFunction::Avg, &["x"]),
            (
                "sum(x) filter (where y > 1)",
                AggregateFunction::Sum,
                &["case when y > 1 then x end"],
            ),
            (
                "count(*) filter (where y > 1)",
                AggregateFunction::Count,
                &["case when y > 1 then 1 end"],
            ),
            ("approx_quantile(x, 0.9)", AggregateFunction::ApproxQuantile(0.9), &["x"]),
            ("covar_pop(y, x)", AggregateFunction::Pairs(PairStatistic::CovarPop), &["y", "x"]),
        ] {
            assert_eq!(parse(text).unwrap(), call(function, arguments), "{text}");
        }
    }

    #[test]
    fn orders_and_conditions_of_collections_are_arguments() {
        let options = |descending, nulls_first| SortOptions { descending, nulls_first };
        let of = |keep, order: &[SortOptions], skips_nulls, is_filtered, finish| {
            let order = order.to_vec();
            let collection = RowCollection { keep, order, skips_nulls, is_filtered, finish };
            AggregateFunction::Collected(collection)
        };
        for (text, function, arguments) in [
            (
                "array_agg(x order by y desc, z nulls first) filter (where y > 1)",
                of(Keep::All, &[options(true, false), options(false, true)], 0, true, Finish::List),
                &["x", "y", "z", "y > 1"] as &[&str],
            ),
            (
                "percentile_cont(0.25) within group (order by x desc)",
                of(Keep::All, &[], 1, false, Finish::Quantile(0.75)),
                &["x"],
            ),
            (
                "last(x order by y)",
                of(Keep::Last, &[options(false, false)], 0, false, Finish::Value),
                &["x", "y"],
            ),
            (
                "string_agg(distinct x, '; ' order by x desc)",
                of(Keep::Distinct, &[options(true, false)], 1, false, Finish::Join("; ".into())),
                &["x"],
            ),
            (
                "sum(distinct x)",
                of(Keep::Distinct, &[], 1, false, Finish::Function(AggregateFunction::Sum.into())),
                &["x"],
            ),
        ] {
            assert_eq!(parse(text).unwrap(), call(function, arguments), "{text}");
        }
    }

    #[test]
    fn unknown_function_is_reported() {
        for (text, said) in [
            ("price", "is not one function of something"),
            ("sun(a)", "did you mean `sum`?"),
            ("mean(a)", "did you mean `avg`?"),
            ("count", "`count()`"),
            ("everything(a)", "known: count, sum, min, max, avg"),
            ("sum()", "does not say of what"),
            ("count(distinct)", "expected"),
            ("quantile_cont(a, 95)", "is no fraction"),
            ("median(a order by b)", "does not depend on an order"),
            ("array_agg(distinct a order by b)", "ordered by themselves"),
            ("string_agg(a, b)", "no column named `b`"),
            ("max(a, 0)", "not a number of values"),
            ("corr(a)", "has 1 arguments"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
