//! The plan of a window: its calls, bound to the columns of the input.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, new_batch};

use super::aggregates::{counts, extremes, sum_type, sums};
use super::frame_aggregates::FrameAggregate;
use super::frames::{PlannedFrame, WindowRows};
use super::ranking;
use super::syntax::{WindowCall, WindowFunction, parse};
use super::values::{Pick, TakenRows, picked, shifted};
use crate::expression::Expression;
use crate::sort::keys::key_layout::KeyColumn;

/// The calls of a window.
pub(crate) struct WindowPlan {
    partition_by: Vec<usize>,
    order_by: Vec<KeyColumn>,
    calls: Vec<PlannedCall>,
    /// The columns of the input, and a column for each call.
    pub(crate) output: SchemaRef,
}

struct PlannedCall {
    function: WindowFunction,
    ignores_nulls: bool,
    frame: PlannedFrame,
    /// What is computed of the frame, if the function is none of those made for windows.
    aggregate: Option<FrameAggregate>,
    /// The value of which it is, if any.
    value: Option<Expression>,
    /// The number of rows or buckets.
    number: i64,
    /// The number of rows of `lag` and `lead`, if each row has its own.
    offset: Option<Expression>,
    default: Option<Expression>,
    data_type: DataType,
}

impl WindowPlan {
    /// Binds calls, each with a name, to the columns of the input.
    pub(crate) fn new(
        input: &SchemaRef,
        partition_by: Vec<usize>,
        order_by: Vec<KeyColumn>,
        values: &[(String, String)],
    ) -> Result<WindowPlan> {
        let mut fields: Vec<_> = input.fields().iter().cloned().collect();
        let mut calls = vec![];
        for (name, text) in values {
            let place = |error: Error| error.at(format!("values.{name}"));
            let call = PlannedCall::new(&parse(text).map_err(place)?, input, &order_by);
            let call = call.map_err(place)?;
            if input.index_of(name).is_ok() {
                let error = Error::usage(format!("the input has a column `{name}`"));
                return Err(place(error.remedy("choose another name")));
            }
            fields.push(Arc::new(Field::new(name, call.data_type.clone(), true)));
            calls.push(call);
        }
        let output = Arc::new(Schema::new(fields));
        Ok(WindowPlan { partition_by, order_by, calls, output })
    }

    /// The rows with the values of all calls. They are whole partitions, sorted.
    ///
    /// Fails if lists of rows would take more than `bytes_max`.
    pub(crate) fn evaluate(&self, sorted: &RecordBatch, bytes_max: usize) -> Result<RecordBatch> {
        let rows = WindowRows::of(sorted, &self.partition_by, &self.order_by)?;
        let mut columns = sorted.columns().to_vec();
        for call in &self.calls {
            columns.push(call.evaluate(sorted, &rows, bytes_max)?);
        }
        Ok(new_batch(self.output.clone(), columns, sorted.num_rows())?)
    }
}

impl PlannedCall {
    fn new(call: &WindowCall, schema: &SchemaRef, order_by: &[KeyColumn]) -> Result<PlannedCall> {
        use WindowFunction::*;
        let WindowCall { function, args, ignores_nulls, .. } = call;
        let parse = |text: &String| Expression::parse(text, schema);
        let aggregate = call.aggregate.as_ref();
        let aggregate = aggregate.map(|text| FrameAggregate::new(text, schema)).transpose()?;
        let value = match function {
            Ntile | Aggregate => None,
            _ => args.first().map(parse).transpose()?,
        };
        let offset = match (function, args.get(1)) {
            (Lag | Lead, Some(text)) => offset_of_row(text, schema)?,
            _ => None,
        };
        let number = match function {
            Ntile => number(&args[0], 1)?,
            NthValue => number(&args[1], 1)?,
            Lag | Lead if offset.is_some() => 0,
            Lag | Lead => args.get(1).map_or(Ok(1), |text| number(text, i64::MIN + 1))?,
            _ => 0,
        };
        let default = match function {
            Lag | Lead => args.get(2).map(parse).transpose()?,
            _ => None,
        };
        let of_value = value.as_ref().map(|value| plain(value.data_type()).clone());
        let data_type = match function {
            RowNumber | Rank | DenseRank | Ntile | Count => DataType::Int64,
            PercentRank | CumeDist => DataType::Float64,
            Avg => {
                sum_type(&of_value.unwrap_or(DataType::Null))?;
                DataType::Float64
            }
            Sum => sum_type(&of_value.unwrap_or(DataType::Null))?,
            Aggregate => aggregate.as_ref().map_or(DataType::Null, FrameAggregate::output),
            _ => of_value.unwrap_or(DataType::Null),
        };
        let frame = PlannedFrame::new(call.frame.as_ref(), schema, order_by)?;
        let (function, ignores_nulls) = (*function, *ignores_nulls);
        Ok(PlannedCall {
            function,
            ignores_nulls,
            frame,
            aggregate,
            value,
            number,
            offset,
            default,
            data_type,
        })
    }

    /// The row of a frame whose value `first_value` and its kin take.
    fn pick(&self) -> Pick {
        match self.function {
            WindowFunction::FirstValue => Pick::Nth(0),
            WindowFunction::LastValue => Pick::Last,
            _ => Pick::Nth(usize::try_from(self.number - 1).unwrap_or(usize::MAX)),
        }
    }

    fn evaluate(
        &self,
        sorted: &RecordBatch,
        rows: &WindowRows,
        bytes_max: usize,
    ) -> Result<ArrayRef> {
        use WindowFunction::*;
        let all = 0..sorted.num_rows();
        let column = |expression: &Expression| -> Result<ArrayRef> {
            let values = expression.evaluate_rows(sorted, all.clone())?;
            // Values of dictionaries stand for themselves.
            Ok(cast(&values, plain(values.data_type()))?)
        };
        let value = self.value.as_ref().map(column).transpose()?;
        let of = || value.as_ref().ok_or_else(|| Error::failed("a window function has no value"));
        if let Some(pieces) = self.frame.pieces(sorted, rows)? {
            match (self.function, &self.aggregate) {
                (Aggregate, Some(aggregate)) => {
                    return aggregate.of_pieces(sorted, &pieces, bytes_max);
                }
                (FirstValue | LastValue | NthValue, _) => {
                    let taken = TakenRows::new(of()?, self.ignores_nulls);
                    return picked(of()?, &pieces, &taken, &self.pick());
                }
                _ => {}
            }
        }
        let frames = || self.frame.bounds(sorted, rows);
        let partitions = &rows.partitions;
        Ok(match self.function {
            RowNumber => ranking::row_numbers(rows),
            Rank => ranking::ranks(rows),
            DenseRank => ranking::dense_ranks(rows),
            PercentRank => ranking::percent_ranks(rows),
            CumeDist => ranking::cume_dists(rows),
            Ntile => ranking::ntiles(rows, self.number.unsigned_abs()),
            Lag | Lead => {
                let default = self.default.as_ref().map(column).transpose()?;
                let default = default.map(|default| cast(&default, &self.data_type)).transpose()?;
                let offsets = match &self.offset {
                    Some(offset) => Some(cast(&column(offset)?, &DataType::Int64)?),
                    None => None,
                };
                let offsets = offsets.as_ref().map(|offsets| offsets.as_primitive::<Int64Type>());
                let number = |row: usize| match offsets {
                    Some(offsets) => offsets.is_valid(row).then(|| offsets.value(row)),
                    None => Some(self.number),
                };
                let is_back = self.function == Lag;
                let offset = |row: usize| {
                    number(row).map(|rows| if is_back { rows.saturating_neg() } else { rows })
                };
                let taken = TakenRows::new(of()?, self.ignores_nulls);
                shifted(of()?, default.as_ref(), &offset, rows, &taken)?
            }
            FirstValue | LastValue | NthValue => {
                let taken = TakenRows::new(of()?, self.ignores_nulls);
                let frames: Vec<_> = frames()?.into_iter().map(|frame| [frame]).collect();
                picked(of()?, &frames, &taken, &self.pick())?
            }
            Count => counts(value.as_ref(), &frames()?),
            Sum | Avg => sums(of()?, &frames()?, partitions, self.function)?,
            Min | Max => extremes(of()?, &frames()?, partitions, self.function)?,
            Aggregate => match &self.aggregate {
                Some(aggregate) => aggregate.evaluate(sorted, rows, &frames()?, bytes_max)?,
                None => return Err(Error::failed("a window function has no value")),
            },
        })
    }
}

/// The offset that each row has, if it is computed of the row.
fn offset_of_row(text: &str, schema: &SchemaRef) -> Result<Option<Expression>> {
    if number(text, i64::MIN + 1).is_ok() {
        return Ok(None);
    }
    let offset = Expression::parse(text, schema)?;
    match offset.data_type().is_integer() {
        true => Ok(Some(offset)),
        false => number(text, i64::MIN + 1).map(|_| None),
    }
}

/// A number of rows or buckets, at least `least`.
fn number(text: &str, least: i64) -> Result<i64> {
    let digits: String = text.chars().filter(|one| !matches!(one, '(' | ')' | ' ')).collect();
    digits.parse().ok().filter(|number| *number >= least).ok_or_else(|| {
        let error = Error::usage(format!("`{text}` is not a whole number that is large enough"));
        error.remedy("write a number, as in `lag(price, 2)`")
    })
}

/// The type of the values, if they are in a dictionary.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}
