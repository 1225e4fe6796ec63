//! Aggregate functions of the items of a list, by the states of `aggregate`: each list is a group.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{DataFusionError, plan_err};

use super::nested::bins::histogram_type;
use super::row_functions::ArgumentKind::List;
use super::row_functions::{Computed, ResultKind, RowFunction};
use crate::aggregate::functions::{
    AggregateFunction, BitOperation, Finish, Keep, PowerStatistic, RowCollection, Spread,
};
use crate::aggregate::states::FunctionKind;

const fn of_items(
    names: &'static [&'static str],
    returns: ResultKind,
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[List], optional: 0, returns, compute }
}

pub(super) const FUNCTIONS: [RowFunction; 23] = [
    of_items(&["list_count"], ResultKind::Integer, |args| {
        let found = aggregated(args, AggregateFunction::Count, &DataType::Int64)?;
        or_null(args, &found)
    }),
    of_items(&["list_unique", "array_unique"], ResultKind::Integer, |args| {
        let function = collected(Keep::Distinct, Finish::Function(AggregateFunction::Count.into()));
        or_null(args, &aggregated(args, function, &DataType::Int64)?)
    }),
    of_items(&["list_sum", "array_sum"], ResultKind::Sum, |args| {
        let item = args[0].as_list::<i32>().value_type();
        aggregated(args, AggregateFunction::Sum, &sum_type(&item)?)
    }),
    of_items(&["list_min"], ResultKind::Item, |args| same(args, AggregateFunction::Min)),
    of_items(&["list_mode"], ResultKind::Item, |args| {
        same(args, collected(Keep::All, Finish::FirstMode))
    }),
    of_items(&["list_first"], ResultKind::Item, |args| {
        let mut collection = collection(Keep::First, Finish::Value);
        collection.skips_nulls = 0;
        same(args, AggregateFunction::Collected(collection))
    }),
    of_items(&["list_last"], ResultKind::Item, |args| {
        let mut collection = collection(Keep::Last, Finish::Value);
        collection.skips_nulls = 0;
        same(args, AggregateFunction::Collected(collection))
    }),
    of_items(&["list_median"], ResultKind::Float, |args| {
        float(args, collected(Keep::All, Finish::Quantile(0.5)))
    }),
    of_items(&["list_stddev", "list_stddev_samp"], ResultKind::Float, |args| {
        float(args, spread(true, true))
    }),
    of_items(&["list_stddev_pop"], ResultKind::Float, |args| float(args, spread(false, true))),
    of_items(&["list_variance", "list_var_samp"], ResultKind::Float, |args| {
        float(args, spread(true, false))
    }),
    of_items(&["list_var_pop"], ResultKind::Float, |args| float(args, spread(false, false))),
    of_items(&["list_bool_and"], ResultKind::Item, |args| same(args, AggregateFunction::Min)),
    of_items(&["list_bool_or"], ResultKind::Item, |args| same(args, AggregateFunction::Max)),
    of_items(&["list_bit_and"], ResultKind::Item, |args| {
        same(args, AggregateFunction::Bits(BitOperation::And))
    }),
    of_items(&["list_bit_or"], ResultKind::Item, |args| {
        same(args, AggregateFunction::Bits(BitOperation::Or))
    }),
    of_items(&["list_bit_xor"], ResultKind::Item, |args| {
        same(args, AggregateFunction::Bits(BitOperation::Xor))
    }),
    of_items(&["list_skewness"], ResultKind::Float, |args| {
        float(args, AggregateFunction::Powers(PowerStatistic::Skewness))
    }),
    of_items(&["list_kurtosis"], ResultKind::Float, |args| {
        float(args, AggregateFunction::Powers(PowerStatistic::Kurtosis))
    }),
    of_items(&["list_entropy"], ResultKind::Float, |args| {
        or_null(args, &float(args, collected(Keep::All, Finish::Entropy))?)
    }),
    of_items(&["list_mad"], ResultKind::Float, |args| {
        float(args, collected(Keep::All, Finish::MedianDistance))
    }),
    of_items(
        &["list_histogram"],
        ResultKind::Made(|types| match &types[0] {
            DataType::List(item) => Ok(histogram_type(item.data_type())),
            other => plan_err!("a list is needed, not {other}"),
        }),
        |args| {
            let of = histogram_type(&args[0].as_list::<i32>().value_type());
            aggregated(args, collected(Keep::All, Finish::Histogram), &of)
        },
    ),
    of_items(&["list_sem"], ResultKind::Float, |args| {
        let sem = Spread { is_sample: false, is_root: true, is_of_mean: true };
        float(args, AggregateFunction::Spread(sem))
    }),
];

fn spread(is_sample: bool, is_root: bool) -> AggregateFunction {
    AggregateFunction::Spread(Spread { is_sample, is_root, is_of_mean: false })
}

/// The type of the sum of values of a type.
pub(super) fn sum_type(of: &DataType) -> Computed<DataType> {
    let kind = FunctionKind::new(AggregateFunction::Sum, of.clone(), "the function");
    Ok(kind.map_err(|error| DataFusionError::Plan(error.to_string()))?.output())
}

fn collection(keep: Keep, finish: Finish) -> RowCollection {
    RowCollection { keep, order: vec![], skips_nulls: 1, is_filtered: false, finish }
}

fn collected(keep: Keep, finish: Finish) -> AggregateFunction {
    AggregateFunction::Collected(collection(keep, finish))
}

fn float(args: &[ArrayRef], function: AggregateFunction) -> Computed<ArrayRef> {
    aggregated(args, function, &DataType::Float64)
}

fn same(args: &[ArrayRef], function: AggregateFunction) -> Computed<ArrayRef> {
    let item = args[0].as_list::<i32>().value_type();
    aggregated(args, function, &item)
}

/// The function of the items of each list, in this type.
fn aggregated(
    args: &[ArrayRef],
    function: AggregateFunction,
    output: &DataType,
) -> Computed<ArrayRef> {
    let lists = args[0].as_list::<i32>();
    let (mut places, mut groups) = (vec![], vec![]);
    for row in 0..lists.len() {
        let offsets = lists.value_offsets();
        let items = offsets[row]..offsets[row + 1];
        // A state has rows of every group: a null for a list without items.
        if lists.is_null(row) || items.is_empty() {
            places.push(None);
            groups.push(row as u32);
            continue;
        }
        for place in items {
            places.push(Some(i64::from(place)));
            groups.push(row as u32);
        }
    }
    let items = arrow::compute::take(lists.values(), &Int64Array::from(places), None)?;
    let items: ArrayRef = match function {
        AggregateFunction::Collected(_) => {
            let field = Arc::new(Field::new("0", items.data_type().clone(), true));
            Arc::new(StructArray::try_new(vec![field].into(), vec![items], None)?)
        }
        _ => items,
    };
    let failed = |error: euphrates_flow::Error| DataFusionError::Execution(error.to_string());
    let of = items.data_type().clone();
    let kind = FunctionKind::new(function, of, "the function").map_err(failed)?;
    let mut state = kind.start("the function");
    state.grow(lists.len());
    state.add(Some(&items), &groups).map_err(failed)?;
    Ok(cast(&state.finish().map_err(failed)?, output)?)
}

/// Counts, which are null for lists that are.
fn or_null(args: &[ArrayRef], counts: &ArrayRef) -> Computed<ArrayRef> {
    let is_null = arrow::compute::is_null(&args[0])?;
    Ok(arrow::compute::nullif(counts, &is_null)?)
}
