//! One value among several: `IN`, `BETWEEN`, `CASE`, and the functions that choose an argument.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::type_coercion::other::{
    get_coerce_type_for_case_when, get_coerce_type_for_list,
};
use datafusion_expr::{Case, Expr, Operator};
use euphrates_flow::{Error, Result};
use sqlparser::ast::{CaseWhen, Expr as Ast};

use super::common::unified;
use super::copies;
use super::exact;
use super::known;
use super::once::once;
use super::translate::{Translator, joined, negate};
use super::typed::{Typed, comparable, join};

impl Translator<'_> {
    /// `of BETWEEN low AND high`.
    pub(super) fn between(
        &self,
        [of, low, high]: [&Ast; 3],
        negated: bool,
        depth: usize,
    ) -> Result<Typed> {
        let [of, low, high] =
            [self.expr(of, depth)?, self.expr(low, depth)?, self.expr(high, depth)?];
        let text = format!("{} BETWEEN {} AND {}", of.text, low.text, high.text);
        let between = once(of, &self.schema, |of| {
            let low = join(of.clone(), Operator::GtEq, low)?;
            join(low, Operator::And, join(of, Operator::LtEq, high)?)
        })?;
        Ok(Typed { text, ..negate(between, negated) })
    }

    /// `of IN (…)`: equal to any of the items, each compared as it would be alone.
    pub(super) fn in_list(
        &self,
        of: &Ast,
        list: &[Ast],
        negated: bool,
        depth: usize,
    ) -> Result<Typed> {
        let of = self.expr(of, depth)?;
        let text = format!("{} IN (…)", of.text);
        let items = list.iter().map(|item| self.expr(item, depth)).collect::<Result<Vec<_>>>()?;
        let any = once(of, &self.schema, |of| any_of(of, items))?;
        Ok(Typed { text, ..negate(any, negated) })
    }

    /// `CASE`, with or without what the cases are compared with.
    pub(super) fn case(
        &self,
        operand: Option<&Ast>,
        conditions: &[CaseWhen],
        otherwise: Option<&Ast>,
        depth: usize,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.expr(operand, depth)).transpose()?;
        let whens = conditions.iter().map(|part| self.expr(&part.condition, depth));
        let whens = whens.collect::<Result<Vec<_>>>()?;
        let mut results = conditions
            .iter()
            .map(|part| self.expr(&part.result, depth))
            .collect::<Result<Vec<_>>>()?;
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise, depth)?);
        }
        let text = "CASE … END";
        match operand {
            Some(operand) => once(operand, &self.schema, |operand| {
                let (operand, whens) = cases(operand, whens)?;
                chosen(operand, whens, results, text)
            }),
            None => {
                let whens = whens.into_iter().map(condition).collect::<Result<_>>()?;
                chosen(None, whens, results, text)
            }
        }
    }
}

/// Equal to any of these items.
fn any_of(of: Typed, list: Vec<Typed>) -> Result<Typed> {
    let mut lists: Vec<(Typed, Vec<Typed>)> = vec![];
    let mut tests = vec![];
    for item in list {
        let (left, item) = comparable(of.clone(), item)?;
        // DataFusion takes an item for a constant if it is one over no rows, as a CASE may be.
        if item.value().is_none() || left.value().is_some() {
            tests.push(join(left, Operator::Eq, item)?);
            continue;
        }
        match lists.iter_mut().find(|(_, items)| items[0].data_type == item.data_type) {
            Some((_, items)) => items.push(item),
            None => lists.push((left, vec![item])),
        }
    }
    let lists = lists.into_iter().map(|(of, items)| among(of, items));
    let lists = lists.collect::<Result<Vec<_>>>()?;
    joined(lists.into_iter().chain(tests).collect(), Operator::Or)
}

/// Equal to any of these literals, which have one type.
fn among(of: Typed, items: Vec<Typed>) -> Result<Typed> {
    let text = format!("{} IN (…)", of.text);
    let types: Vec<DataType> = items.iter().map(|item| item.data_type.clone()).collect();
    // Where all have one type, that is it: a dictionary need not be unpacked.
    let common = match types.iter().all(|item| *item == of.data_type) {
        true => Some(of.data_type.clone()),
        false => get_coerce_type_for_list(&of.data_type, &types),
    };
    let Some(common) = common else {
        return Err(Error::usage(format!("the list of {text} has no common type"))
            .remedy("convert its items with CAST(… AS …)"));
    };
    let list = items.into_iter().map(|item| item.cast(&common).expr).collect();
    let test = InList { expr: Box::new(of.cast(&common).expr), list, negated: false };
    Ok(Typed::new(Expr::InList(test), DataType::Boolean, text))
}

fn condition(when: Typed) -> Result<Typed> {
    when.boolean("what stands behind WHEN")
}

/// What is compared with each case, and the cases; or, where it is not compared in one type with
/// all of them, conditions.
fn cases(operand: Typed, whens: Vec<Typed>) -> Result<(Option<Typed>, Vec<Typed>)> {
    let compared = whens.iter().map(|when| comparable(operand.clone(), when.clone()));
    let compared = compared.collect::<Result<Vec<_>>>()?;
    let (operands, cases): (Vec<_>, Vec<_>) = compared.into_iter().unzip();
    let types: Vec<DataType> = cases.iter().map(|case| case.data_type.clone()).collect();
    if let Some(first) = operands.first()
        && operands.iter().all(|other| other.expr == first.expr)
        && let Some(common) = get_coerce_type_for_case_when(&types, &first.data_type)
    {
        let cases = cases.into_iter().map(|case| case.cast(&common)).collect();
        return Ok((Some(first.clone().cast(&common)), cases));
    }
    let whens = whens.into_iter().map(|when| join(operand.clone(), Operator::Eq, when));
    Ok((None, whens.collect::<Result<_>>()?))
}

/// The result of the first case that holds, or the last of the results, if there is one more.
fn chosen(
    operand: Option<Typed>,
    whens: Vec<Typed>,
    results: Vec<Typed>,
    text: &str,
) -> Result<Typed> {
    let results = unified(results, "the results of CASE")?;
    let mut results: Vec<Typed> = results.into_iter().map(copies::constant).collect();
    let data_type = results.first().map_or(DataType::Null, |result| result.data_type.clone());
    let otherwise = (results.len() > whens.len()).then(|| results.pop()).flatten();
    let whens = whens.into_iter().map(|when| Box::new(when.expr));
    let case = Case {
        expr: operand.map(|operand| Box::new(operand.expr)),
        when_then_expr: whens.zip(results.into_iter().map(|then| Box::new(then.expr))).collect(),
        else_expr: otherwise.map(|otherwise| Box::new(otherwise.expr)),
    };
    Ok(Typed::new(Expr::Case(case), data_type, text))
}

/// Arguments of a function that chooses one of them, in one type; those of others as they are.
pub fn chosen_from(name: &str, args: Vec<Typed>) -> Result<Vec<Typed>> {
    match name {
        "greatest" | "least" if !args.is_empty() => {
            let args = unified(args, &format!("the arguments of `{name}`"))?;
            Ok(args.into_iter().map(exact::one_nan).collect())
        }
        _ => Ok(args),
    }
}

/// `coalesce`, or another function that takes the first argument that is not null.
pub fn first_known(name: &str, args: Vec<Typed>) -> Result<Typed> {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let text = format!("{name}({})", texts.join(", "));
    let args = unified(args, &format!("the arguments of `{name}`"))?;
    let args = args.into_iter().map(copies::constant).collect();
    known::first_known(args, text).ok_or_else(|| Error::usage(format!("`{name}` needs arguments")))
}

/// `nvl2(tested, value, other)`: `other` where what is tested is null.
pub fn by_null(tested: Typed, value: Typed, other: Typed) -> Result<Typed> {
    let text = format!("nvl2({}, {}, {})", tested.text, value.text, other.text);
    let is_known = Expr::IsNotNull(Box::new(tested.expr));
    let is_known = Typed::new(is_known, DataType::Boolean, tested.text);
    chosen(None, vec![is_known], vec![value, other], &text)
}

/// `nullif(value, other)`: null where they are equal, which is asked as `=` does.
pub fn null_if(value: Typed, other: Typed, schema: &DFSchema) -> Result<Typed> {
    let text = format!("nullif({}, {})", value.text, other.text);
    once(value, schema, |value| {
        let equal = join(value.clone(), Operator::Eq, other)?;
        let null = Typed::literal(ScalarValue::Null, "null");
        chosen(None, vec![equal], vec![null, value], &text)
    })
}
