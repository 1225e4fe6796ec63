//! Conditional expressions: `IN`, `CASE`, and the functions that choose one of their arguments.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::type_coercion::other::{
    get_coerce_type_for_case_when, get_coerce_type_for_list,
};
use datafusion_expr::{Case, Expr, Operator};
use euphrates_flow::{Error, Result};

use super::coercion::unified;
use super::functions::let_binding::bind;
use super::functions::{coalesce, exact, materialize};
use super::operators::{balanced_chain, binary, comparable};
use super::typed::Typed;
use super::types::Family;

/// A condition: equal to any of these items.
pub(crate) fn any_of(of: Typed, list: Vec<Typed>) -> Result<Typed> {
    let mut lists: Vec<(Typed, Vec<Typed>)> = vec![];
    let mut tests = vec![];
    for item in list {
        let (left, item) = comparable(of.clone(), item)?;
        // DataFusion takes an item for a constant if evaluating it on no rows gives one, as a CASE
        // may.
        if item.value().is_none() || left.value().is_some() {
            tests.push(binary(left, Operator::Eq, item)?);
            continue;
        }
        match lists.iter_mut().find(|(_, items)| items[0].data_type == item.data_type) {
            Some((_, items)) => items.push(item),
            None => lists.push((left, vec![item])),
        }
    }
    let lists = lists.into_iter().map(|(of, items)| among(of, items));
    let lists = lists.collect::<Result<Vec<_>>>()?;
    balanced_chain(lists.into_iter().chain(tests).collect(), Operator::Or)
}

/// A condition: equal to any of these literals, which have one type.
fn among(of: Typed, items: Vec<Typed>) -> Result<Typed> {
    let text = format!("{} IN (…)", of.text);
    let types: Vec<DataType> = items.iter().map(|item| item.data_type.clone()).collect();
    // With one type, a dictionary need not be unpacked.
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

pub(crate) fn condition(when: Typed) -> Result<Typed> {
    when.boolean("what stands behind WHEN")
}

/// The operand and the cases in one type. If there is no such type, conditions without an operand.
pub(crate) fn cases(operand: Typed, whens: Vec<Typed>) -> Result<(Option<Typed>, Vec<Typed>)> {
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
    let whens = whens.into_iter().map(|when| binary(operand.clone(), Operator::Eq, when));
    Ok((None, whens.collect::<Result<_>>()?))
}

/// A CASE: the result of the first case that holds, else the last result if there is one more.
pub(crate) fn chosen(
    operand: Option<Typed>,
    whens: Vec<Typed>,
    results: Vec<Typed>,
    text: &str,
) -> Result<Typed> {
    let results = unified(results, "the results of CASE")?;
    let mut results: Vec<Typed> = results.into_iter().map(materialize::constant).collect();
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

/// For functions that choose one argument, or list them, the arguments in one type; otherwise
/// unchanged.
pub(crate) fn chosen_from(name: &str, args: Vec<Typed>) -> Result<Vec<Typed>> {
    match name {
        "greatest" | "least" if !args.is_empty() => {
            let args = numbers_of_texts(args)?;
            let args = unified(args, &format!("the arguments of `{name}`"))?;
            Ok(args.into_iter().map(exact::one_nan).collect())
        }
        "make_array" if !args.is_empty() => unified(args, "the items of a list"),
        _ => Ok(args),
    }
}

/// A call of `coalesce`, or of a synonym: the first argument that is not null.
pub(crate) fn first_known(name: &str, args: Vec<Typed>) -> Result<Typed> {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let text = format!("{name}({})", texts.join(", "));
    let args = unified(args, &format!("the arguments of `{name}`"))?;
    let mut args: Vec<Typed> = args.into_iter().map(materialize::constant).collect();
    match args.as_slice() {
        [] => Err(Error::usage(format!("`{name}` needs arguments"))),
        [_] => Ok(args.remove(0)),
        [first, ..] => {
            let data_type = first.data_type.clone();
            let args = args.into_iter().map(|arg| arg.expr).collect();
            Ok(Typed::new(coalesce::call(args), data_type, text))
        }
    }
}

/// `nvl2(tested, value, other)`: `other` where `tested` is null.
pub(crate) fn by_null(tested: Typed, value: Typed, other: Typed) -> Result<Typed> {
    let text = format!("nvl2({}, {}, {})", tested.text, value.text, other.text);
    let is_known = Expr::IsNotNull(Box::new(tested.expr));
    let is_known = Typed::new(is_known, DataType::Boolean, tested.text);
    chosen(None, vec![is_known], vec![value, other], &text)
}

/// `nullif(value, other)`: null where both are equal in the sense of `=`.
pub(crate) fn null_if(value: Typed, other: Typed, schema: &DFSchema) -> Result<Typed> {
    let text = format!("nullif({}, {})", value.text, other.text);
    bind(value, schema, |value| {
        let equal = binary(value.clone(), Operator::Eq, other)?;
        let null = Typed::literal(ScalarValue::Null, "null");
        chosen(None, vec![equal], vec![null, value], &text)
    })
}

/// Texts in quotes as numbers, beside numbers.
fn numbers_of_texts(args: Vec<Typed>) -> Result<Vec<Typed>> {
    let Some(number) = args.iter().find(|arg| arg.family() == Family::Number).cloned() else {
        return Ok(args);
    };
    let is_text = |arg: &Typed| arg.family() == Family::Text && arg.value().is_some();
    let fit = |arg: Typed| match is_text(&arg) {
        true => Ok(comparable(arg, number.clone())?.0),
        false => Ok(arg),
    };
    args.into_iter().map(fit).collect()
}
