//! The functions that take a lambda, for the planner: the types of its parameters and its results.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, not_impl_err, plan_err};
use datafusion_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
};

/// Their names, the one that the modules know first.
const FUNCTIONS: [(&str, &[&str]); 3] = [
    ("list_transform", &["array_transform", "list_apply", "array_apply", "apply"]),
    ("list_filter", &["array_filter", "filter"]),
    ("list_reduce", &["array_reduce", "reduce"]),
];

/// All their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().flat_map(|(first, others)| [first].into_iter().chain(others.to_vec()))
}

/// Whether a function takes a lambda.
pub(crate) fn takes_lambda(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<&'static str> {
    let is_same = |known: &&str| known.eq_ignore_ascii_case(name);
    let found =
        FUNCTIONS.into_iter().find(|(first, others)| is_same(first) || others.iter().any(&is_same));
    found.map(|(first, _)| first)
}

/// The function of a name.
pub(crate) fn function(name: &str) -> Option<Arc<HigherOrderUDF>> {
    let name = known(name)?;
    let signature = HigherOrderSignature::variadic_any(Volatility::Immutable);
    Some(Arc::new(HigherOrderUDF::new_from_impl(PlannedLambda { name, signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PlannedLambda {
    name: &'static str,
    signature: HigherOrderSignature,
}

impl HigherOrderUDFImpl for PlannedLambda {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(_), initial @ ..] = fields else {
            return plan_err!("{} takes a list and a lambda", self.name);
        };
        let parameter = |of: DataType| Arc::new(Field::new("parameter", of, true));
        let item = item_of(list.data_type())?;
        let position = parameter(DataType::Int64);
        Ok(LambdaParametersProgress::Complete(vec![match (self.name, initial) {
            ("list_reduce", []) => vec![parameter(item.clone()), parameter(item), position],
            ("list_reduce", [ValueOrLambda::Value(initial)]) => {
                vec![parameter(initial.data_type().clone()), parameter(item), position]
            }
            (_, []) => vec![parameter(item), position],
            _ => return plan_err!("{} has {} arguments", self.name, fields.len()),
        }]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(body), initial @ ..] =
            args.arg_fields
        else {
            return plan_err!("{} takes a list and a lambda", self.name);
        };
        let returns = match (self.name, initial) {
            ("list_transform", _) => DataType::new_list(body.data_type().clone(), true),
            ("list_filter", _) => DataType::new_list(item_of(list.data_type())?, true),
            // As in the modules, the body's, if that is wider.
            (_, [ValueOrLambda::Value(initial)]) => match (initial.data_type(), body.data_type()) {
                (of, other) if of.is_numeric() && !of.is_floating() && other.is_numeric() => {
                    other.clone()
                }
                (DataType::Null, other) => other.clone(),
                (of, _) => of.clone(),
            },
            _ => item_of(list.data_type())?,
        };
        Ok(Arc::new(Field::new(self.name, returns, true)))
    }

    fn invoke_with_args(&self, _: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("`{}` is computed by a module", self.name)
    }
}

fn item_of(list: &DataType) -> Result<DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(item.data_type().clone())
        }
        DataType::Null => Ok(DataType::Null),
        other => plan_err!("{other} is not a list"),
    }
}
