//! Translates `BETWEEN`, `IN` and `CASE`, which name one operand several times.

use datafusion_expr::Operator;
use euphrates_flow::Result;
use sqlparser::ast::{CaseWhen, Expr as Ast};

use super::Translator;
use crate::expression::conditional::{any_of, cases, chosen, condition};
use crate::expression::functions::let_binding::bind;
use crate::expression::operators::{binary, negate};
use crate::expression::typed::Typed;

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
        let between = bind(of, &self.schema, |of| {
            let low = binary(of.clone(), Operator::GtEq, low)?;
            binary(low, Operator::And, binary(of, Operator::LtEq, high)?)
        })?;
        Ok(Typed { text, ..negate(between, negated) })
    }

    /// `of IN (…)`: equal to any item, each compared as `=` would.
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
        let any = bind(of, &self.schema, |of| any_of(of, items))?;
        Ok(Typed { text, ..negate(any, negated) })
    }

    /// `CASE`, with or without an operand.
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
            Some(operand) => bind(operand, &self.schema, |operand| {
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
