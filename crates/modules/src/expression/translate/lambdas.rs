//! Calls of functions that take a lambda: `list_transform(prices, lambda x: x * 2)`.
//!
//! The body is an expression of its own. It is compiled over the columns that it reads and the
//! lambda's parameters, which hide columns of the same names.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::Column;
use datafusion_expr::Expr;
use datafusion_expr::expr::ScalarFunction;
use euphrates_flow::{Error, Result};
use sqlparser::ast::{Expr as Ast, LambdaFunction};

use super::Translator;
use crate::expression::common_type::{common, plain};
use crate::expression::functions::lambda_kinds::LambdaKind;
use crate::expression::functions::list_lambdas::{LambdaBody, ListLambda};
use crate::expression::typed::Typed;
use crate::expression::types::in_words;

impl Translator<'_> {
    /// A call with a lambda; `None` for others.
    pub(super) fn with_lambda(
        &self,
        name: &str,
        asts: &[&Ast],
        depth: usize,
    ) -> Result<Option<Typed>> {
        let Some(Ast::Lambda(lambda)) = asts.get(1) else { return Ok(None) };
        let Some(kind) = LambdaKind::named(name) else {
            let error = Error::usage(format!("`{name}` does not take a lambda"));
            return Err(error.remedy("list_transform, list_filter and list_reduce do"));
        };
        let is_reduce = kind == LambdaKind::Reduce;
        if asts.len() > 2 + usize::from(is_reduce) {
            return Err(Error::usage(format!("`{name}` has {} arguments", asts.len())));
        }
        let list = self.expr(asts[0], depth)?;
        let item = match plain(&list.data_type) {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type().clone()
            }
            DataType::Null => DataType::Null,
            other => {
                let is = in_words(other);
                return Err(Error::usage(format!(
                    "`{name}` needs a list, but {list} is {is}",
                    list = list.text
                )));
            }
        };
        let list = list.cast(&DataType::new_list(item.clone(), true));
        let initial = asts.get(2).map(|initial| self.expr(initial, depth)).transpose()?;
        let mut state = initial.as_ref().map_or(&item, |initial| &initial.data_type);
        let body = |state: &DataType| {
            let parameters = match is_reduce {
                true => vec![plain(state).clone(), item.clone(), DataType::Int64],
                false => vec![item.clone(), DataType::Int64],
            };
            let (schema, count) = self.with_parameters(name, lambda, parameters)?;
            let typed = Translator::new(self.text, &schema)?.expr(&lambda.body, depth)?;
            Ok::<_, Error>((schema, count, typed))
        };
        let (mut schema, mut count, mut typed) = body(state)?;
        // `list_reduce(prices, lambda a, x: a + x, 0)`: the sum is of the type of the prices.
        let wider = common(state, &typed.data_type).filter(|wider| is_reduce && wider != state);
        if let Some(wider) = &wider {
            state = wider;
            (schema, count, typed) = body(state)?;
        }
        let state = plain(state).clone();
        let initial = initial.map(|initial| match is_reduce {
            true => initial.cast(&state),
            false => initial,
        });
        let typed = match kind {
            LambdaKind::Transform => typed,
            LambdaKind::Filter => typed.boolean("the condition of a lambda")?,
            LambdaKind::Reduce => typed.cast_explicit(state, false)?,
        };
        let text = format!("{name}({}, {lambda})", list.text);
        let body = LambdaBody::new(&typed.expr, lambda.body.to_string(), &schema)?;
        let outer = schema.fields().len() - count;
        let captured = body.columns().iter().take_while(|at| **at < outer);
        let columns: Vec<Expr> = captured
            .map(|at| Expr::Column(Column::new_unqualified(schema.field(*at).name())))
            .collect();
        let used = body.columns()[columns.len()..].iter().map(|at| at - outer).collect();
        let returns = match kind {
            LambdaKind::Transform => DataType::new_list(body.data_type().clone(), true),
            LambdaKind::Filter => list.data_type.clone(),
            LambdaKind::Reduce => body.data_type().clone(),
        };
        let has_initial = initial.is_some();
        let function = ListLambda::function(kind, body, used, returns.clone(), has_initial);
        let args = [list].into_iter().chain(initial).map(|arg| arg.expr).chain(columns);
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, args.collect()));
        Ok(Some(Typed::new(call, returns, text)))
    }

    /// The columns that the body of a lambda may read, its parameters last, and their number.
    fn with_parameters(
        &self,
        name: &str,
        lambda: &LambdaFunction,
        types: Vec<DataType>,
    ) -> Result<(Schema, usize)> {
        let names: Vec<&str> =
            lambda.params.iter().map(|parameter| parameter.name.value.as_str()).collect();
        let fewest = types.len() - 1;
        if names.len() < fewest || names.len() > types.len() {
            let most = types.len();
            let error = format!("the lambda of `{name}` has {} parameters", names.len());
            return Err(Error::usage(error).remedy(format!("write {fewest} or {most}")));
        }
        let is_hidden =
            |field: &Field| names.iter().any(|name| name.eq_ignore_ascii_case(field.name()));
        let columns = self.columns.fields().iter().filter(|field| !is_hidden(field)).cloned();
        let parameters = names.iter().zip(types);
        let parameters = parameters.map(|(name, of)| Arc::new(Field::new(*name, of, true)));
        let fields: Vec<_> = columns.chain(parameters).collect();
        Ok((Schema::new(fields), names.len()))
    }
}
